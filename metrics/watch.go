package metrics

import (
	"context"
	"math"
	"net/url"
	"time"
)

// maxDoublings bounds how often Watch doubles its pause: up to eight intervals.
const maxDoublings = 3

// Watch scrapes the endpoint at base until ctx ends, and calls report after
// each scrape with what [Scraper.Scrape] returned. It scrapes at once, then
// pauses for [Config.Interval], give or take a tenth by [Config.Jitter] so that
// many watchers do not fall into step. The pause runs from the end of a scrape: an
// endpoint that is slow is asked less often.
//
// From the second scrape in a row that ends with an error the pause doubles, up
// to eight intervals; a page of which a part was read is not an error here. A
// scrape cut short by the end of ctx is not reported. [Scraper.Hurry] ends a
// pause.
//
// Watch calls report from the goroutine it was called on and waits for it to
// return. An endpoint has a Watch of its own, so none delays another. When it
// ends, what was found out about the endpoint's page is forgotten; a dialect of
// [Scraper.SetDialect] is not.
func (s *Scraper) Watch(ctx context.Context, base *url.URL, report func(Page, error)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var hurry chan struct{}
	if checkBase(base) == nil {
		key := endpointKey(base)
		defer s.forgetFound(key)
		hurry = s.watched(key)
		defer s.unwatched(key)
	}
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-hurry:
		}
		page, err := s.Scrape(ctx, base)
		if ctx.Err() != nil {
			return
		}
		report(page, err)
		if err != nil {
			failures++
		} else {
			failures = 0
		}
		timer.Reset(s.pause(failures))
	}
}

// pause is how long to wait after a number of failures in a row.
func (s *Scraper) pause(failures int) time.Duration {
	intervals := 1 << min(max(failures-1, 0), maxDoublings)
	jitter := 0.9 + 0.2*s.jitter()
	return time.Duration(min(float64(s.interval)*float64(intervals)*jitter, math.MaxInt64/2))
}

// Hurry has the [Scraper.Watch] of the endpoint at base scrape at once instead
// of at the end of its pause, as when an endpoint answers again that was away:
// another engine may be running there. It does not wait, and does nothing if
// nobody watches the endpoint.
func (s *Scraper) Hurry(base *url.URL) {
	if checkBase(base) != nil {
		return
	}
	s.mu.Lock()
	w := s.watches[endpointKey(base)]
	s.mu.Unlock()
	select {
	case w.hurry <- struct{}{}: // never if there is none
	default:
	}
}

// watching is what the watches of one endpoint share.
type watching struct {
	hurry chan struct{}
	n     int
}

func (s *Scraper) watched(key string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watches[key]
	if w.hurry == nil {
		w.hurry = make(chan struct{}, 1)
	}
	w.n++
	s.watches[key] = w
	return w.hurry
}

func (s *Scraper) unwatched(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watches[key]
	if w.n--; w.n > 0 {
		s.watches[key] = w
	} else {
		delete(s.watches, key)
	}
}
