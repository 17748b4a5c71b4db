package warmroute

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/warmroute/warmroute/discovery"
	"github.com/warmroute/warmroute/metrics"
)

// Discoverer finds endpoints and keeps on finding them: see package discovery for
// DNS, files, and how several are joined.
type Discoverer = discovery.Discoverer

// WithDiscovery has [Router.Run] find endpoints as [Router.Discover] does, and lets
// [New] be given none. Those that are given to New are there until the first
// report comes. Without any, requests get [ErrNoReplica] until then.
func WithDiscovery(d Discoverer) Option {
	return option(func(c *config) {
		if d == nil {
			c.refuse(&ConfigError{Field: "discovery", Value: "nil", Allowed: "a Discoverer"})
			return
		}
		c.discoverer = d
	})
}

// DiscoveryStats is how the finding of endpoints goes.
type DiscoveryStats struct {
	// Found is the number of endpoints of the last list that was taken, Updated when
	// it came: the zero time before the first.
	Found   int       `json:"found"`
	Updated time.Time `json:"updated"`
	// Problem is why the list may be out of date; empty if it is not.
	Problem string `json:"problem,omitempty"`
	// Failing is since when there is a problem, nil if there is none.
	Failing *time.Time `json:"failing_since,omitempty"`
}

type discoveryState struct {
	mu    sync.Mutex
	going bool
	known *DiscoveryStats
}

func (s *discoveryState) stats() *DiscoveryStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		return nil
	}
	out := *s.known
	return &out
}

// take notes a report, and returns the problem there was before.
func (s *discoveryState) take(found int, taken bool, err error) (before string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.known.Problem
	now := time.Now()
	if taken {
		s.known.Found, s.known.Updated = found, now
	}
	switch {
	case err == nil:
		s.known.Problem, s.known.Failing = "", nil
	case s.known.Failing == nil:
		s.known.Failing = &now
		fallthrough
	default:
		s.known.Problem = err.Error()
	}
	return before
}

// Discover makes the endpoints those that d finds, as [Router.SetEndpoints] does,
// each time that they change, until ctx ends or the router is closed; it returns
// nil then, and the endpoints stay as they are. Where d cannot say what there is,
// or finds what is refused, the last list stays in force; [Stats].Discovery and
// the log tell why. Other errors are d's own, [ErrClosed], and [ErrDiscovering]
// while another Discover is going on: discovery.Join makes one of several.
func (r *Router) Discover(ctx context.Context, d Discoverer) error {
	if d == nil {
		return &ConfigError{Field: "discovery", Value: "nil", Allowed: "a Discoverer"}
	}
	r.mu.Lock()
	if r.closed.Load() {
		r.mu.Unlock()
		return ErrClosed
	}
	r.runs.Add(1)
	r.mu.Unlock()
	defer r.runs.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	defer func() { <-ended }()
	defer cancel()
	go func() {
		defer close(ended)
		select {
		case <-r.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return r.watch(ctx, d)
}

// discover is Discover for Run, which goes on without it after an error.
func (r *Router) discover(ctx context.Context, d Discoverer) {
	if err := r.watch(ctx, d); err != nil {
		r.cfg.logger.Error("discovery ended", "err", err)
	}
}

func (r *Router) watch(ctx context.Context, d Discoverer) error {
	s := &r.discovery
	s.mu.Lock()
	if s.going {
		s.mu.Unlock()
		return ErrDiscovering
	}
	s.going = true
	if s.known == nil {
		s.known = new(DiscoveryStats)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.going = false
		s.mu.Unlock()
	}()
	err := d.Watch(ctx, func(targets []Target, err error) {
		if ctx.Err() != nil {
			return
		}
		taken := false
		if err == nil || targets != nil {
			refused := r.SetEndpoints(targets)
			taken = refused == nil
			err = errors.Join(err, refused)
		}
		before := s.take(len(targets), taken, err)
		switch {
		case err == nil && before != "":
			r.cfg.logger.Info("discovery works again", "endpoints", len(targets))
		case err != nil && before != err.Error():
			r.cfg.logger.Warn("endpoints not updated", "err", err)
		}
	})
	if err == nil && ctx.Err() == nil {
		err = errors.New("warmroute: discoverer returned before its context ended")
	}
	if ctx.Err() != nil {
		return nil
	}
	s.take(0, false, err)
	return err
}

func exportDiscovery(w metrics.Sink, d *DiscoveryStats) {
	samples := d != nil
	w.Family("warmroute_discovery_endpoints", "Endpoints of the last list that was taken from discovery.", metrics.KindGauge)
	if samples {
		w.Sample(float64(d.Found))
	}
	w.Family("warmroute_discovery_failing", "1 if the list of endpoints may be out of date.", metrics.KindGauge)
	if samples {
		w.Sample(flag(d.Problem != ""))
	}
	w.Family("warmroute_discovery_updated_timestamp_seconds", "When the last list of endpoints was taken, in seconds since the Unix epoch; 0 before the first.", metrics.KindGauge)
	if samples {
		updated := 0.0
		if !d.Updated.IsZero() {
			updated = float64(d.Updated.UnixMilli()) / 1000
		}
		w.Sample(updated)
	}
}
