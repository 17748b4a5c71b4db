package warmroute

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// staleScrapes is the number of intervals after which scraped values lose
// their vote.
const staleScrapes = 5

// maxScrapeTimeout bounds a request for a metrics page, however rarely one is
// made.
const maxScrapeTimeout = 5 * time.Second

// sweepInterval is how often expired conversations are removed. Expiry itself
// does not wait for it.
const sweepInterval = time.Second

// Run reads the endpoints' metrics and removes expired conversations, until ctx
// ends or the router is closed; it returns nil then, after all that it started
// has ended. A router that is not run still routes, by its own counts. While
// one Run is going on another returns [ErrRunning]; after Close it returns
// [ErrClosed].
func (r *Router) Run(ctx context.Context) error {
	r.mu.Lock()
	switch {
	case r.closed.Load():
		r.mu.Unlock()
		return ErrClosed
	case r.running:
		r.mu.Unlock()
		return ErrRunning
	}
	r.running = true
	r.runs.Add(1)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.running = false
		r.mu.Unlock()
		r.runs.Done()
	}()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watches sync.WaitGroup // and the clock
	defer watches.Wait()
	defer cancel()
	watches.Go(func() { r.clock.Run(ctx) })

	watching := map[uint64]context.CancelFunc{} // by the endpoint's ID
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	for {
		r.reconcile(ctx, watching, &watches)
		select {
		case <-ctx.Done():
			return nil
		case <-r.done:
			return nil
		case <-r.changed:
		case now := <-sweep.C:
			for _, p := range r.pools.Load().order {
				p.table.Sweep(now)
			}
		}
	}
}

// reconcile starts a watch for each endpoint that has none and ends those of
// endpoints that are gone.
func (r *Router) reconcile(ctx context.Context, watching map[uint64]context.CancelFunc, watches *sync.WaitGroup) {
	current := map[uint64]bool{}
	for _, e := range r.set.Endpoints() {
		current[e.ID] = true
		if watching[e.ID] != nil {
			continue
		}
		base, err := url.Parse(e.URL)
		if err != nil { // it was parsed when it was added
			r.cfg.logger.Error("endpoint not watched", "url", e.URL, "err", err)
			continue
		}
		watch, cancel := context.WithCancel(ctx)
		watching[e.ID] = cancel
		w := &watcher{router: r, endpoint: e.Endpoint, base: base}
		watches.Go(func() {
			r.scraper.Watch(watch, base, func(page metrics.Page, err error) { w.report(watch, page, err) })
		})
	}
	for id, cancel := range watching {
		if !current[id] {
			cancel()
			delete(watching, id)
		}
	}
}

// Scrape reads the metrics page of every endpoint once, so that ranks are known
// before the first request comes. It returns when all have answered, failed or
// run into the time limit of a scrape, with the errors joined:
// routing goes on without what they would have said.
func (r *Router) Scrape(ctx context.Context) error {
	endpoints := r.set.Endpoints()
	errs := make([]error, len(endpoints))
	var all sync.WaitGroup
	for i, e := range endpoints {
		all.Go(func() {
			base, err := url.Parse(e.URL)
			if err != nil {
				errs[i] = err
				return
			}
			page, err := r.scraper.Scrape(ctx, base)
			w := &watcher{router: r, endpoint: e.Endpoint, base: base}
			w.report(ctx, page, err)
			errs[i] = err
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (r *Router) staleAfter() time.Duration { return staleScrapes * r.cfg.scrapeInterval }

// watcher turns one endpoint's pages into what its members are known by.
type watcher struct {
	router   *Router
	endpoint Endpoint
	base     *url.URL
	failing  bool
	asked    bool    // /server_info has been asked since started
	started  float64 // restart mark
	fewer    int     // pages in a row that had fewer engines than known
	told     int     // the number of engines that was complained about
}

// fewerPages is how many pages in a row must have fewer engines before it is
// believed: an engine whose series are late is not gone.
const fewerPages = 3

func (w *watcher) report(ctx context.Context, page metrics.Page, err error) {
	logger := w.router.cfg.logger
	if err != nil {
		if !w.failing {
			logger.Warn("metrics cannot be read; routing by own counts", "url", w.endpoint.URL, "err", err)
		}
		w.failing = true
		return
	}
	if w.failing {
		logger.Info("metrics can be read again", "url", w.endpoint.URL)
		w.failing = false
	}
	if page.Err != nil {
		logger.Debug("metrics page read in part", "url", w.endpoint.URL, "err", page.Err)
	}
	if len(page.Engines) == 0 {
		return
	}
	w.ranks(len(page.Engines), page.Err == nil)
	w.store(page)
	if s := page.Engines[0].Started; !w.asked || s.OK && s.Value != w.started {
		w.asked, w.started = true, s.Value
		w.serverInfo(ctx)
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
		w.router.cfg.logger.Info("ranks found", "url", w.endpoint.URL, "ranks", engines)
	}
	if errors.Is(err, replica.ErrUnknown) {
		return // removed meanwhile
	}
	if err == nil && w.endpoint.Ranks != 0 && w.endpoint.Ranks != engines {
		err = fmt.Errorf("configured for %d", w.endpoint.Ranks)
	}
	if err != nil && w.told != engines {
		w.told = engines
		w.router.cfg.logger.Warn("engines on the metrics page are not the endpoint's ranks", "url", w.endpoint.URL, "engines", engines, "err", err)
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
		for i, m := range members {
			if s, ok := engineOf(page.Engines, i, len(members), m.Rank()); ok {
				m.observe(s, page.Time)
				p.learn(s)
			}
		}
	}
}

// serverInfo asks for the engine's max_num_seqs, which only a server in
// development mode tells.
func (w *watcher) serverInfo(ctx context.Context) {
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
