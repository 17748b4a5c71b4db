package warmroute

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/internal/family"
	"github.com/warmroute/warmroute/internal/feed"
	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// Request is what routing needs to know of a request.
type Request struct {
	// Model names the pool. Empty is the default pool, or the first pool if
	// there is no default one.
	Model string
	// Session is the session key; empty, or longer than affinity.MaxKeyLen,
	// the request is placed by load.
	Session string
	// KeySource says where Session was found, as affinity.Key.Source does. A
	// source whose keys hardly ever return is a problem ([PoolStats]); of a pool's
	// sources the first 32 are counted. Before a key from
	// affinity.PromptCacheKeySource comes the conversation of PreviousResponse.
	KeySource string
	// Parent is the key of the conversation that this one, a sub-agent's, was
	// started from: its home is preferred when this one is first placed.
	Parent string
	// PreviousResponse is the id of the response that this request continues,
	// previous_response_id of the Responses API. Without a Session it names the
	// conversation; with or without, the request goes where that response was
	// produced, whatever the load there is: see [WithResponseChains].
	PreviousResponse string
	// ClientRank is the X-Data-Parallel-Rank header as the client sent it,
	// empty if it did not.
	ClientRank string
	// PromptTokens is an estimate of the prompt's size, 0 if there is none.
	PromptTokens int
	// MaxTokens is the limit that the request sets to its answer, 0 if none.
	MaxTokens int
	// Tenant is whose request it is: tenants that wait for room are served in
	// turn. Empty is a tenant as well.
	Tenant string
	// Priority orders those that wait for room before all else, lower first.
	Priority int
	// Body is the request's JSON body or its beginning, for [WithSharedPrefix],
	// without which it is not looked at; nor is it for a request that goes to its
	// conversation's home. It is not kept.
	Body []byte
	// Tried are the replicas that could not be reached for this request: it
	// goes to none of their endpoints.
	Tried []*Replica

	avoid []*Replica // that it was sent to before: not their endpoints, which have other ranks
	light bool       // it is no turn of a conversation
	try   bool       // it must not wait
	since time.Time  // when it was first routed, if it is routed again
}

// Router keeps conversations on their replicas. Make one with [New]. All
// methods are safe for concurrent use.
type Router struct {
	cfg      config
	seed     family.Seed // of what prompts begin with
	set      *replica.Set
	scraper  *metrics.Scraper
	since    time.Time
	clock    *affinity.Clock
	hasher   keyHasher
	closed   atomic.Bool
	done     chan struct{} // closed by Close
	changed  chan struct{} // tells Run that the endpoints changed
	runs     sync.WaitGroup
	baseOnce sync.Once
	base     *http.Transport
	feed     *feed.Feed // of the live page

	unknownModel atomic.Uint64 // requests

	discovery discoveryState
	setting   sync.Mutex // one SetEndpoints at a time; before mu, never held over I/O

	mu      sync.Mutex // changes to what follows, and to cfg.pool and cfg.pools; never held over I/O
	pools   atomic.Pointer[pools]
	running bool
	absent  []absent
	// watchers by the endpoint's ID, in the set or not any more
	watchers map[uint64]*watcher
}

// New returns a router for the given endpoints. It returns a [*ConfigError]
// for a setting that is refused, and an error that wraps [ErrDuplicate] for two
// endpoints that are the same. The router routes at once; [Router.Run] adds
// what the engines say of themselves.
func New(endpoints []Endpoint, opts ...Option) (*Router, error) {
	cfg, err := collect(opts)
	if err != nil {
		return nil, err
	}
	if len(endpoints) == 0 && cfg.discoverer == nil {
		return nil, &ConfigError{Field: "endpoints", Value: "none", Allowed: "at least one endpoint"}
	}
	keys := make([]affinity.KeyFunc, 0, len(cfg.sessionHeaders)+1)
	for _, h := range cfg.sessionHeaders {
		keys = append(keys, affinity.Header(h))
	}
	cfg.key = affinity.First(append(keys, cfg.key)...)
	if cfg.untrusted && cfg.clientRank == HonourClientRank {
		cfg.clientRank = DropClientRank
	}
	cfg.debugHeaders = cfg.debugHeaders && !cfg.untrusted
	for _, e := range endpoints {
		if _, err := dialect(e); err != nil {
			return nil, err
		}
	}
	set, err := replica.NewSetWithBreaker(cfg.breaker, endpoints...)
	if err != nil {
		return nil, err
	}
	scraper, err := metrics.NewScraper(metrics.Config{
		Client: cfg.scrapeClient, Interval: cfg.scrapeInterval, Timeout: min(cfg.scrapeInterval, maxScrapeTimeout),
		Jitter: cfg.scrapeJitter,
	})
	if err != nil {
		return nil, err
	}
	r := &Router{
		cfg: cfg, set: set, scraper: scraper, since: time.Now(), seed: newFamilySeed(cfg.hashSeed), clock: affinity.NewClock(), hasher: newKeyHasher(cfg.hashSeed), watchers: map[uint64]*watcher{},
		done: make(chan struct{}), changed: make(chan struct{}, 1),
	}
	if r.feed, err = r.newFeed(); err != nil {
		return nil, err
	}
	r.pools.Store(&pools{})
	if _, err := r.update(); err != nil {
		return nil, err
	}
	return r, nil
}

// Route chooses a replica for the request and counts it as in flight there
// until [Lease.Done], which must be called. Where the conversations do not all
// fit into the prefix caches it waits for room, up to the pool's bound
// ([WithMaxWait]) and for as long as ctx lets it; then it returns the context's
// cause. Other errors wrap [ErrNoReplica], [ErrUnknownModel], [ErrClientRank],
// [ErrOverloaded] or [ErrClosed].
func (r *Router) Route(ctx context.Context, req Request) (Lease, error) {
	lease, err := r.route(ctx, &req)
	if err == nil {
		lease.pool.counts.routed(lease)
	}
	return lease, err
}

// TryRoute is Route that never waits: where that would, it returns an error that
// wraps [ErrOverloaded].
func (r *Router) TryRoute(req Request) (Lease, error) {
	req.try = true
	return r.Route(context.Background(), req)
}

// route is Route for a request that may be sent to another replica yet: its
// outcome is not counted.
func (r *Router) route(ctx context.Context, req *Request) (Lease, error) {
	if ctx.Err() != nil {
		return Lease{}, context.Cause(ctx)
	}
	if r.closed.Load() {
		return Lease{}, r.refused(ctx, req.Model, ErrClosed)
	}
	p, err := r.pool(req.Model)
	if err != nil {
		if errors.Is(err, ErrUnknownModel) {
			r.unknownModel.Add(1)
		}
		return Lease{}, r.refused(ctx, req.Model, err)
	}
	lease, err := p.route(ctx, req, r.clock.Now())
	switch {
	case err == nil:
	case errors.Is(err, errGivenUp):
		return Lease{}, context.Cause(ctx)
	case errors.Is(err, ErrClosed):
		return Lease{}, r.refused(ctx, req.Model, err)
	default:
		p.counts.refused.Add(1)
		return Lease{}, r.refused(ctx, p.model, err)
	}
	if r.cfg.hooks.ofRequests() || lease.passage.Probe() {
		lease.ctx = ctx
		r.tellRouted(lease)
	}
	return lease, nil
}

// tellRouted tells the hooks of a routed request, which ends if one panics: its
// caller never sees the lease.
func (r *Router) tellRouted(lease Lease) {
	told := false
	defer func() {
		if !told {
			lease.Done(Result{GivenUp: true, NoTokens: true})
		}
	}()
	if lease.passage.Probe() {
		lease.member.tell("probe")
	}
	for _, hook := range r.cfg.hooks.route {
		hook.OnRoute(lease.ctx, lease.event())
	}
	told = true
}

// Key returns the session key of a request as the router's transport would find
// it, for programs that call Route themselves. field finds the fields of the
// JSON body by dotted paths of one or two keys; nil stands for none.
func (r *Router) Key(h http.Header, field func(path string) string) affinity.Key {
	return r.cfg.key(affinity.NewRequest(h, field))
}

// untried reports whether there is an endpoint besides the lease's and those
// that were tried before.
func (r *Router) untried(l Lease, tried []*replica.Replica) bool {
	for _, m := range *l.pool.members.Load() {
		if !m.SameEndpoint(l.member.Replica) && !triedAlready(m, tried) {
			return true
		}
	}
	return false
}

// Replicas returns the replicas in their order. Do not modify the slice.
func (r *Router) Replicas() []*Replica { return r.set.Replicas() }

// dialect is how an endpoint's metrics are to be read; nil if that is to be
// found out.
func dialect(e Endpoint) (metrics.Dialect, error) {
	if e.Engine == "" {
		return nil, nil
	}
	d, err := metrics.DialectByName(e.Engine)
	if err != nil {
		var names []string
		for _, d := range metrics.Dialects() {
			names = append(names, d.Name())
		}
		return nil, &ConfigError{Field: "engine", Value: e.Engine, Allowed: strings.Join(names, ", ")}
	}
	return d, nil
}

// Add adds an endpoint while the router is in use.
func (r *Router) Add(e Endpoint) error {
	if _, err := dialect(e); err != nil {
		return err
	}
	if err := r.set.Add(e); err != nil {
		return err
	}
	now := time.Now()
	for _, m := range r.set.Replicas() {
		if m.Is(e.URL) {
			m.MarkEndpointReturned(now)
		}
	}
	if err := r.changedSet(); err != nil {
		return err
	}
	r.tell(e.URL, "added", r.set.Replicas())
	return nil
}

// tell logs, and tells the hooks, what happened to the replicas of an endpoint, or
// to the one of that name.
func (r *Router) tell(name, reason string, among []*Replica) {
	now := time.Now()
	for _, m := range among {
		if m.Is(name) {
			r.cfg.logger.Info("replica "+reason, "replica", m.Name())
			r.cfg.hooks.onState(m, m.State(now), reason, now)
		}
	}
}

// Remove removes an endpoint, named by its URL, with all its ranks. Requests
// in flight there go on; its conversations are placed anew by their next
// request.
func (r *Router) Remove(endpoint string) error {
	before := r.set.Replicas()
	if err := r.set.Remove(endpoint); err != nil {
		return err
	}
	if err := r.changedSet(); err != nil {
		return err
	}
	r.tell(endpoint, "removed", before)
	return nil
}

// Drain stops new conversations from being placed on a replica, named by its
// Name, or on all replicas of an endpoint, named by its URL. They keep the
// conversations they have.
func (r *Router) Drain(name string) error {
	if err := r.set.Drain(name); err != nil {
		return err
	}
	r.roomsChanged()
	r.tell(name, "drained", r.set.Replicas())
	return nil
}

// Resume ends a drain.
func (r *Router) Resume(name string) error {
	if err := r.set.Resume(name); err != nil {
		return err
	}
	r.roomsChanged()
	r.tell(name, "resumed", r.set.Replicas())
	return nil
}

func (r *Router) roomsChanged() {
	for _, p := range r.pools.Load().order {
		p.roomsChanged()
	}
}

// SetAffinity switches affinity on or off for one model, live. Off, requests
// are placed by load, and a conversation's home follows them, so that switching
// it on again finds each where it was last.
func (r *Router) SetAffinity(model string, on bool) error {
	p := r.pools.Load().byModel[model]
	if p == nil {
		return fmt.Errorf("%w %q", ErrUnknownModel, model)
	}
	p.affinity.Store(on)
	if !on {
		p.releaseAll()
	}
	return nil
}

// SetSpill changes the spill threshold of one model, live.
func (r *Router) SetSpill(model string, s Spill) error {
	if err := s.validate(); err != nil {
		return err
	}
	p := r.pools.Load().byModel[model]
	if p == nil {
		return fmt.Errorf("%w %q", ErrUnknownModel, model)
	}
	p.setSpill(func(st *spillState) { st.setting = s })
	return nil
}

// setSpill changes what the threshold is derived from, and the threshold.
func (p *pool) setSpill(change func(*spillState)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := *p.spill.Load()
	change(&next)
	next.Threshold = threshold(next.setting, p.maxNumSeqs, next.serverInfo, next.learned)
	p.spill.Store(&next)
}

// Close ends Run, refuses further requests with [ErrClosed] and closes the idle
// connections of the transport that Transport(nil) uses. Requests in flight go
// on to their end. It returns when Run has ended; calling it again does
// nothing.
func (r *Router) Close() error {
	r.mu.Lock()
	first := r.closed.CompareAndSwap(false, true)
	r.mu.Unlock()
	if first {
		close(r.done)
		for _, p := range r.pools.Load().order {
			p.admission.close(&p.mu)
		}
	}
	r.runs.Wait()
	r.feed.Close()
	r.scraper.CloseIdleConnections()
	r.defaultBase().CloseIdleConnections()
	return nil
}
