package warmroute

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// What is said of the keys of a source is said of so many answered requests, over
// so long at least: the first turns of many conversations that begin together
// are no sign of anything.
const (
	sourceRequests = 500
	sourceWindow   = 5 * time.Minute
)

// minHistory is the mean prompt, in tokens, from which on keys that never return
// are worth a word: conversations of one short question are nothing to keep.
const minHistory = 1000

// maxSources bounds how many sources are told apart. They come from the
// program's configuration, not from its clients.
const maxSources = 32

// keySources counts how often the keys of each source return.
type keySources struct {
	all atomic.Pointer[[]*keySource] // immutable
	mu  sync.Mutex                   // to add one
}

// keySource is one place that session keys are found in.
type keySource struct {
	name     string
	requests atomic.Uint64 // answered, of this window
	returned atomic.Uint64 // among them those of a conversation that was known
	prompts  atomic.Int64  // their tokens

	mu      sync.Mutex // to end a window
	began   time.Time  // zero before the first
	problem atomic.Pointer[string]
}

// source is the one with that name, nil if there is no name or no room for it.
func (k *keySources) source(name string) *keySource {
	if name == "" {
		return nil
	}
	known := k.all.Load()
	if known != nil {
		for _, s := range *known {
			if s.name == name {
				return s
			}
		}
		if len(*known) == maxSources {
			return nil
		}
	}
	return k.add(name)
}

func (k *keySources) add(name string) *keySource {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*keySource
	if known := k.all.Load(); known != nil {
		all = *known
	}
	if i := slices.IndexFunc(all, func(s *keySource) bool { return s.name == name }); i >= 0 {
		return all[i]
	}
	if len(all) == maxSources {
		return nil
	}
	s := &keySource{name: name}
	all = append(slices.Clone(all), s)
	k.all.Store(&all)
	return s
}

// answered counts a request that was answered, and returns what is to be said
// for the first time, empty if nothing.
func (s *keySource) answered(returned bool, promptTokens int64, now time.Time) (problem string) {
	if returned {
		s.returned.Add(1)
	}
	s.prompts.Add(promptTokens)
	if n := s.requests.Add(1); n != 1 && n < sourceRequests {
		return ""
	}
	if !s.mu.TryLock() {
		return "" // another sees to it
	}
	defer s.mu.Unlock()
	if s.began.IsZero() {
		s.began = now
	}
	took := now.Sub(s.began)
	if took < sourceWindow || s.requests.Load() < sourceRequests {
		return ""
	}
	requests, known, prompts := s.requests.Swap(0), s.returned.Swap(0), s.prompts.Swap(0)
	s.began = now
	mean := prompts / int64(requests)
	if known*100 >= requests || mean < minHistory {
		s.problem.Store(nil)
		return ""
	}
	text := oneShotProblem(s.name, known, requests, mean, took)
	if s.problem.Swap(&text) == nil {
		return text
	}
	return ""
}

func oneShotProblem(source string, known, requests uint64, mean int64, took time.Duration) string {
	often := fmt.Sprintf("were never used twice in %d requests", requests)
	if known > 0 {
		often = fmt.Sprintf("were used before in %d of %d requests only", known, requests)
	}
	return fmt.Sprintf("session keys from %s %s (%s, prompts of %d tokens on average): if those are turns of conversations, "+
		"the value is another with each turn and none goes home; name a better one with WithSessionHeader or WithKey", source, often, took.Round(time.Second), mean)
}

// problems are what is to be said of sources.
func (k *keySources) problems() []string {
	var out []string
	if known := k.all.Load(); known != nil {
		for _, s := range *known {
			if text := s.problem.Load(); text != nil {
				out = append(out, *text)
			}
		}
	}
	return out
}

// tellSource counts what became of a request at the source of its key.
func (l Lease) tellSource(result Result, now time.Time) {
	if l.source == nil || result.Err != nil || result.GivenUp || result.StatusCode >= http.StatusBadRequest {
		return // no answer that a conversation is kept for
	}
	tokens := l.promptTokens
	if result.Usage.Known {
		tokens = result.Usage.Prompt
	}
	if problem := l.source.answered(l.returned, tokens, now); problem != "" {
		l.pool.router.cfg.logger.Warn(problem, "model", l.pool.model)
	}
}
