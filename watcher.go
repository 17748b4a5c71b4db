package warmroute

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// watcher turns one endpoint's pages into what its members are known by.
type watcher struct {
	router   *Router
	endpoint Endpoint
	base     *url.URL

	facts *rankFacts
	// adapters are the LoRA adapters that the endpoint was found to serve; nil if
	// nothing is known of them. The maps are immutable.
	adapters atomic.Pointer[map[string]bool]
	// models are those that it listed last, adapters left aside; nil: not known.
	models atomic.Pointer[[]string]

	mu      sync.Mutex // a page at a time; never held over I/O
	failing bool
	partial bool    // the page could be read in part only
	silent  bool    // the page has no engine series
	started float64 // restart mark
	fewer   int     // pages in a row that had fewer engines than known
	told    int     // the number of engines that was complained about
	anew    bool    // an engine has restarted
	asked   inquiries
	// version and release are the server's, empty and 0 if not known.
	version    string
	release    vllmRelease
	ignoresAll bool // the rank header, by its version
	// countsByReason says that the page has what vLLM has since that release.
	countsByReason bool
	proof          proof
	served         []string // models that the endpoint listed when it was not foreign
	foreign        bool
	later          []func() // what is to be told without the lock
}

// fewerPages is how many pages in a row must have fewer engines before it is
// believed: an engine whose series are late is not gone.
const fewerPages = 3

// report takes a page in, and returns what is to be asked of the endpoint, nil
// if nothing is. That may take long.
func (w *watcher) report(page metrics.Page, err error) (ask func(context.Context)) {
	for _, hook := range w.router.cfg.hooks.scrape {
		hook.OnScrape(ScrapeEvent{URL: w.endpoint.URL, Page: page, Err: err})
	}
	wanted := w.take(page, err)
	w.tell()
	if wanted {
		return w.ask
	}
	return nil
}

// tell tells what is to be told, without the lock: a hook may well ask for the
// stats.
func (w *watcher) tell() {
	w.mu.Lock()
	later := w.later
	w.later = nil
	w.mu.Unlock()
	for _, tell := range later {
		tell()
	}
}

// log logs when the lock is given back.
func (w *watcher) log(level slog.Level, message string, args ...any) {
	w.later = append(w.later, func() { w.router.cfg.logger.Log(context.Background(), level, message, args...) })
}

// changed tells of a replica when the lock is given back.
func (w *watcher) changed(m *member, reason string, at time.Time) {
	w.later = append(w.later, func() { w.router.cfg.hooks.onState(m.Replica, m.state(at), reason, at) })
}

// replaced tells of the endpoint's replicas that have come and gone since before,
// when the lock is given back: its ranks have changed.
func (w *watcher) replaced(before []*Replica) {
	at, after := time.Now(), w.router.set.Replicas()
	tell := func(among, but []*Replica, reason string) {
		for _, r := range among {
			if r.Is(w.endpoint.URL) && !slices.Contains(but, r) {
				w.later = append(w.later, func() { w.router.cfg.hooks.onState(r, r.State(at), reason, at) })
			}
		}
	}
	tell(before, after, "removed")
	tell(after, before, "added")
}

// update brings the router in line with what was found out of the endpoint.
func (w *watcher) update() error {
	restored, err := w.router.update()
	for _, r := range restored {
		w.later = append(w.later, func() { r.log(w.router.cfg.logger) })
	}
	return err
}

// take takes a page in, and reports whether the endpoint should be asked for
// what is not on it.
func (w *watcher) take(page metrics.Page, err error) (ask bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		if !w.failing {
			w.log(slog.LevelWarn, "metrics cannot be read; routing by own counts", "url", w.endpoint.URL, "err", err)
		}
		w.failing = true
		return false
	}
	if w.failing {
		w.log(slog.LevelInfo, "metrics can be read again", "url", w.endpoint.URL)
		w.failing = false
	}
	if page.Err != nil && !w.partial {
		w.log(slog.LevelDebug, "metrics page read in part", "url", w.endpoint.URL, "err", page.Err)
	}
	w.partial = page.Err != nil
	if page.NoEngineSeries && !w.silent {
		w.log(slog.LevelWarn, "metrics page says nothing of engines; routing by own counts (vLLM's --disable-log-stats?)", "url", w.endpoint.URL)
	}
	w.silent = page.NoEngineSeries
	if len(page.Engines) == 0 {
		return false
	}
	s := page.Engines[0].Started
	if s.OK && w.started != 0 && s.Value != w.started {
		w.restarted()
	}
	if s.OK {
		w.started = s.Value
	}
	engines := len(page.Engines)
	if !page.RankHeader {
		engines = 1 // they cannot be addressed one by one
	}
	w.ranks(engines, page.Err == nil)
	w.store(page)
	if w.anew { // there may be no mark to tell a restart by
		w.anew = false
		if !s.OK {
			w.restarted()
		}
	}
	w.countsByReason = w.countsByReason || page.Engines[0].WaitingForCapacity.OK
	w.gate(page)
	w.act()
	w.inUse(page.LoRA)
	w.asked.dialect = page.Dialect
	return w.asked.due(page.Time)
}

// restarted forgets what was found out of the server that ran before: another
// version may honour the rank header, and serve other adapters.
func (w *watcher) restarted() {
	w.proof, w.version, w.release, w.ignoresAll, w.countsByReason = proof{}, "", 0, false, false
	w.asked = inquiries{dialect: w.asked.dialect, start: w.asked.start + 1}
	w.collapse(false)
	w.facts.forget()
}

// ranks keeps the number of replicas behind the endpoint that of its engines.
func (w *watcher) ranks(engines int, whole bool) {
	known := 0
	for _, m := range w.router.set.Replicas() {
		if m.Endpoint().URL == w.endpoint.URL {
			known++
		}
	}
	if engines < known {
		if w.fewer++; !whole || w.fewer < fewerPages {
			return
		}
	}
	w.fewer = 0
	before := w.router.set.Replicas()
	change, err := w.router.set.SetRanks(w.endpoint.URL, engines)
	if err == nil && !change.Empty() {
		err = w.update()
		change.Finish() // the pools have what was added
		w.replaced(before)
		w.log(slog.LevelInfo, "ranks found", "url", w.endpoint.URL, "ranks", engines)
	}
	if errors.Is(err, replica.ErrUnknown) {
		return // removed meanwhile
	}
	if err == nil && w.endpoint.Ranks != 0 && w.endpoint.Ranks != engines {
		err = fmt.Errorf("configured for %d", w.endpoint.Ranks)
	}
	if err != nil && w.told != engines {
		w.told = engines
		w.log(slog.LevelWarn, "engines on the metrics page are not the endpoint's ranks", "url", w.endpoint.URL, "engines", engines, "err", err)
	}
}

// store gives each member of the endpoint its engine's snapshot.
func (w *watcher) store(page metrics.Page) {
	for _, p := range w.router.pools.Load().order {
		var members []*member
		for _, m := range *p.members.Load() {
			if m.Endpoint().URL == w.endpoint.URL {
				members = append(members, m)
			}
		}
		if len(members) == 1 && len(page.Engines) > 1 && page.Err != nil {
			continue // a part of the engines is no whole
		}
		for i, m := range members {
			m.facts.Store(w.facts)
			m.evidence.foreign.Store(w.foreign) // it may be new
			if s, ok := engineOf(page.Engines, i, len(members), m.Rank()); ok && m.observe(s, page.Time) {
				p.learn(s)
				m.lora.Store(inUse(page.LoRA))
				w.note(m, s, page)
			}
		}
	}
}

// note draws from a page what it shows of the engine's life, and holds what was
// claimed of the engine against what it has counted.
func (w *watcher) note(m *member, s metrics.Snapshot, page metrics.Page) {
	at := w.router.clock.Steady(page.Time) // it becomes a number that is compared with LastUse
	engines := 1
	if s.Engine == "" {
		engines = len(page.Engines)
	}
	c := m.evidence.note(s, engines, m.InFlight(), at)
	if c.restarted || c.woke {
		m.MarkReturned(at)
	}
	if c.restarted || c.slept || c.woke || c.wedged || c.recovered {
		m.pool.roomsChanged()
	}
	for _, e := range [...]struct {
		happened bool
		reason   string
		level    slog.Level
	}{
		{c.restarted, "restarted", slog.LevelWarn},
		{c.slept, "asleep", slog.LevelWarn},
		{c.woke, "awake", slog.LevelInfo},
		{c.wedged, "wedged", slog.LevelError},
		{c.recovered, "recovered", slog.LevelInfo},
	} {
		if e.happened {
			w.log(e.level, "engine "+e.reason, "replica", m.Name())
			w.changed(m, e.reason, page.Time)
		}
	}
	w.anew = w.anew || c.restarted
	// Only of vLLM is it known that each engine counts each prompt it serves.
	if c.restarted || !s.PromptTokens.OK || page.Dialect != metrics.VLLM().Name() {
		w.unclaim(m, c.since)
		return
	}
	w.claim(m, s.PromptTokens.Value, page.Asked)
}

// problems are the endpoint's, in sentences.
func (w *watcher) problems() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	if w.ignoresAll {
		out = append(out, versionProblem(w.endpoint.URL, w.version))
	}
	for _, api := range slices.Sorted(maps.Keys(w.proof.apis)) {
		if w.proof.apis[api].ignored {
			out = append(out, ignoredProblem(w.endpoint.URL, api))
		}
	}
	if w.foreign {
		out = append(out, w.endpoint.URL+" does not serve "+strings.Join(w.served, ", ")+" any more")
	}
	if w.silent {
		out = append(out, w.endpoint.URL+" says nothing of its engines (vLLM's --disable-log-stats?): it is routed by the router's own counts")
	}
	return out
}
