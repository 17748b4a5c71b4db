package warmroute

import (
	"context"
	"errors"
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

// Run reads the endpoints' metrics, watches what [WithHealth] says, finds endpoints
// by [WithDiscovery] and removes expired conversations, until ctx ends or the
// router is closed; it returns nil then, after all that it started has ended. A
// router that is not run still routes, by its own counts. While one Run is going on
// another returns [ErrRunning]; after Close it returns [ErrClosed].
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

	defer r.feed.Interrupt() // a server that shuts down waits for what is watched
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watches sync.WaitGroup // and the clock
	defer watches.Wait()
	defer cancel()
	watches.Go(func() { r.clock.Run(ctx) })
	if r.cfg.health != nil {
		watches.Go(func() { r.watchHealth(ctx) })
	}
	if r.cfg.discoverer != nil {
		watches.Go(func() { r.discover(ctx, r.cfg.discoverer) })
	}

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
				if p.responses != nil {
					p.responses.Sweep(now)
				}
				p.record()
			}
			r.mu.Lock()
			done := r.restoreAbsent(now) // forgets those whose TTL is over
			r.mu.Unlock()
			for _, d := range done {
				d.log(r.cfg.logger)
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
		w, err := r.watcher(e)
		if err != nil { // it was parsed when it was added
			r.cfg.logger.Error("endpoint not watched", "url", e.URL, "err", err)
			continue
		}
		watch, cancel := context.WithCancel(ctx)
		watching[e.ID] = cancel
		watches.Go(func() {
			r.scraper.Watch(watch, w.base, func(page metrics.Page, err error) {
				if ask := w.report(page, err); ask != nil {
					watches.Go(func() { ask(watch) })
				}
			})
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
// run into the time limit of a scrape, with the errors joined: routing goes on
// without what they would have said.
func (r *Router) Scrape(ctx context.Context) error {
	endpoints := r.set.Endpoints()
	errs := make([]error, len(endpoints))
	var all sync.WaitGroup
	for i, e := range endpoints {
		all.Go(func() {
			w, err := r.watcher(e)
			if err != nil {
				errs[i] = err
				return
			}
			page, err := r.scraper.Scrape(ctx, w.base)
			w.report(page, err) // what is to be asked is left to Run
			errs[i] = err
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (r *Router) staleAfter() time.Duration { return staleScrapes * r.cfg.scrapeInterval }

// watcher is the endpoint's watcher, made if it has none. Those of endpoints
// that have left go with the next one that is made.
func (r *Router) watcher(e replica.Added) (*watcher, error) {
	base, err := url.Parse(e.URL)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.watchers[e.ID]; w != nil {
		return w, nil
	}
	live := map[uint64]bool{e.ID: true}
	for _, o := range r.set.Endpoints() {
		live[o.ID] = true
	}
	for id := range r.watchers {
		if !live[id] {
			delete(r.watchers, id)
		}
	}
	d, err := dialect(e.Endpoint)
	if err == nil {
		err = r.scraper.SetDialect(base, d)
	}
	if err == nil {
		err = r.scraper.SetAPIKey(base, e.APIKey)
	}
	if err == nil {
		err = r.scraper.SetHost(base, e.Host)
	}
	if err != nil {
		return nil, err
	}
	w := &watcher{router: r, endpoint: e.Endpoint, base: base, facts: new(rankFacts)}
	r.watchers[e.ID] = w
	return w, nil
}
