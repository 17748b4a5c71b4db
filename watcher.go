package warmroute

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// watcher turns one endpoint's pages into what its members are known by.
type watcher struct {
	router   *Router
	endpoint Endpoint
	base     *url.URL

	mu      sync.Mutex // a page at a time; never held over I/O
	failing bool
	silent  bool    // the page has no engine series
	asked   bool    // /server_info has been asked since started
	started float64 // restart mark
	fewer   int     // pages in a row that had fewer engines than known
	told    int     // the number of engines that was complained about
	anew    bool    // an engine's counters went back
	proof   proof
	later   []func() // what is to be told without the lock
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
	w.mu.Lock()
	later := w.later
	w.later = nil
	w.mu.Unlock()
	for _, tell := range later {
		tell() // a hook may well ask for the stats
	}
	if wanted {
		return w.serverInfo
	}
	return nil
}

// log logs when the lock is given back.
func (w *watcher) log(level slog.Level, message string, args ...any) {
	w.later = append(w.later, func() { w.router.cfg.logger.Log(context.Background(), level, message, args...) })
}

// changed tells of a replica when the lock is given back.
func (w *watcher) changed(m *member, reason string, at time.Time) {
	w.later = append(w.later, func() { w.router.cfg.hooks.onState(m.Replica, m.state(at), reason, at) })
}

// take takes a page in, and reports whether the endpoint should be asked for
// its limits.
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
	if page.Err != nil {
		w.log(slog.LevelDebug, "metrics page read in part", "url", w.endpoint.URL, "err", page.Err)
	}
	if page.NoEngineSeries && !w.silent {
		w.log(slog.LevelWarn, "metrics page says nothing of engines; routing by own counts (vLLM's --disable-log-stats?)", "url", w.endpoint.URL)
	}
	w.silent = page.NoEngineSeries
	if len(page.Engines) == 0 {
		return false
	}
	if s := page.Engines[0].Started; s.OK && w.started != 0 && s.Value != w.started {
		w.restarted()
	}
	engines := len(page.Engines)
	if !page.RankHeader {
		engines = 1 // they cannot be addressed one by one
	}
	w.ranks(engines, page.Err == nil)
	w.store(page)
	if w.anew { // there is no mark to tell a restart by
		w.anew = false
		w.restarted()
	}
	s := page.Engines[0].Started
	ask = !w.asked || s.OK && s.Value != w.started
	if s.OK {
		w.started = s.Value
	}
	return ask
}

// restarted forgets what was found out of the server that ran before: another
// version may honour the rank header.
func (w *watcher) restarted() {
	w.proof = proof{}
	changed, err := w.router.set.IgnoresRanks(w.endpoint.URL, false)
	if err == nil && changed {
		err = w.router.update()
	}
	if err != nil && !errors.Is(err, replica.ErrUnknown) {
		w.log(slog.LevelWarn, "ranks not restored", "url", w.endpoint.URL, "err", err)
	}
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
	changed, err := w.router.set.SetRanks(w.endpoint.URL, engines)
	if err == nil && changed {
		err = w.router.update()
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
			if s, ok := engineOf(page.Engines, i, len(members), m.Rank()); ok && m.observe(s, page.Time) {
				p.learn(s)
				m.adapters.Store(loaded(page.LoRA))
				w.note(m, s, page)
			}
		}
		if len(members) > 1 {
			w.act(p)
		}
	}
}

// loaded is the adapters that a page shows to be loaded; nil if it shows none,
// since vLLM lists only those that have requests.
func loaded(l *metrics.LoRA) *[]string {
	if l == nil || len(l.Running)+len(l.Waiting) == 0 {
		return nil
	}
	names := slices.Concat(l.Running, l.Waiting)
	return &names
}

// note draws from a page what it shows of the engine's life, and holds what was
// claimed of the engine against what it has counted.
func (w *watcher) note(m *member, s metrics.Snapshot, page metrics.Page) {
	at := page.Time
	c := m.evidence.note(s, m.InFlight(), at)
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
			w.changed(m, e.reason, at)
		}
	}
	w.anew = w.anew || c.restarted && !s.Started.OK
	// Only of vLLM is it known that each engine counts each prompt it serves.
	if c.restarted || !s.PromptTokens.OK || page.Dialect != metrics.VLLM().Name() {
		for _, cl := range m.claims.drop() {
			m.settle(cl.verdict)
		}
		return
	}
	wrong, right := m.claims.page(s.PromptTokens.Value, page.Asked)
	for _, cl := range right {
		m.settle(cl.verdict)
		w.proof.of(cl.api).kept++
	}
	for _, cl := range wrong {
		if cl.verdict != "" {
			cl.verdict = Ignored
		}
		m.settle(cl.verdict)
		w.proof.of(cl.api).broken++
	}
}

// proof is what is known of an endpoint's obedience, by API.
type proof struct {
	apis map[string]*obedience
	acts bool // it has been collapsed to one replica
}

// obedience counts claims that may be true and claims that were proved wrong.
type obedience struct {
	kept, broken int
	ignored      bool
}

// enoughBroken is how many claims must be proved wrong, and for how many that
// were not one must be. Where the header is honoured none ever is.
const (
	enoughBroken = 3
	oneOf        = 20
)

func (p *proof) of(api string) *obedience {
	if p.apis == nil {
		p.apis = map[string]*obedience{}
	}
	o := p.apis[api]
	if o == nil {
		o = new(obedience)
		p.apis[api] = o
	}
	return o
}

// act says loudly which APIs ignore the rank header, and routes an endpoint of
// which all do as the one replica that it is.
func (w *watcher) act(p *pool) {
	all := len(w.proof.apis) > 0
	for api, o := range w.proof.apis {
		if o.broken >= max(enoughBroken, o.kept/oneOf) && !o.ignored {
			o.ignored = true
			problem := ignoredProblem(w.endpoint.URL, api)
			w.log(slog.LevelError, problem)
			for _, m := range *p.members.Load() {
				if m.Endpoint().URL == w.endpoint.URL {
					w.changed(m, "rank header ignored", time.Now())
				}
			}
		}
		all = all && o.ignored
	}
	if !all || w.proof.acts {
		return
	}
	w.proof.acts = true
	changed, err := w.router.set.IgnoresRanks(w.endpoint.URL, true)
	if err == nil && changed {
		w.log(slog.LevelError, "routed as one replica, since its rank header is ignored", "url", w.endpoint.URL)
		err = w.router.update()
	}
	if err != nil && !errors.Is(err, replica.ErrUnknown) {
		w.log(slog.LevelWarn, "ranks not given up", "url", w.endpoint.URL, "err", err)
	}
}

// problems are the endpoint's, in sentences.
func (w *watcher) problems() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, api := range slices.Sorted(maps.Keys(w.proof.apis)) {
		if w.proof.apis[api].ignored {
			out = append(out, ignoredProblem(w.endpoint.URL, api))
		}
	}
	if w.silent {
		out = append(out, w.endpoint.URL+" says nothing of its engines (vLLM's --disable-log-stats?): it is routed by the router's own counts")
	}
	return out
}

// serverInfo asks for the engine's max_num_seqs, which only a server in
// development mode tells.
func (w *watcher) serverInfo(ctx context.Context) {
	w.mu.Lock()
	w.asked = true
	w.mu.Unlock()
	n, err := w.router.scraper.MaxNumSeqs(ctx, w.base)
	if err != nil {
		w.router.cfg.logger.LogAttrs(ctx, slog.LevelDebug, "max_num_seqs not told", slog.String("url", w.endpoint.URL), slog.Any("err", err))
		return
	}
	for _, p := range w.router.pools.Load().order {
		if p.model == w.endpoint.Model {
			p.setSpill(func(st *spillState) { st.serverInfo = n })
		}
	}
}
