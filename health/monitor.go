package health

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/replica"
)

// Sources of a finding.
const (
	sourceProbe = "probe"
	sourceDCGM  = "dcgm"
)

// ErrRunning is returned by a second [Monitor.Run] while the first is going on.
var ErrRunning = errors.New("health: monitor is running already")

// tick is how often findings are looked at although nothing was reported: replicas
// come and go, and signs expire.
const tick = time.Second

// Fleet is the replicas that a [Monitor] watches. Its methods are called from the
// goroutine of [Monitor.Run], without a lock held.
type Fleet interface {
	// Replicas are those of the moment, in an order of their own.
	Replicas() []*replica.Replica
	// Usable reports whether a replica takes new conversations, but for what the
	// monitor finds.
	Usable(r *replica.Replica) bool
	// Found is told when what is found of a replica has changed.
	Found(r *replica.Replica, before, now replica.Finding)
}

// Monitor watches a fleet. Make one with [New]. Its methods are safe for concurrent
// use.
type Monitor struct {
	cfg     Config
	running atomic.Bool
	status  atomic.Pointer[Status]
}

// New returns a monitor. It returns a [*replica.ConfigError] for a setting that is
// refused.
func New(cfg Config) (*Monitor, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Monitor{cfg: cfg}
	m.status.Store(new(Status))
	return m, nil
}

// Run watches the fleet until ctx ends, with a goroutine for each endpoint that is
// probed and one for each page. It returns when all of them have ended and every
// finding is taken back; what was known is forgotten then. The error is nil, or
// [ErrRunning].
func (m *Monitor) Run(ctx context.Context, fleet Fleet) error {
	if !m.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer m.running.Store(false)
	r, err := newRun(m, fleet)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer r.end()
	defer cancel()
	for _, e := range r.exporters {
		r.read(ctx, e)
	}
	r.evaluate(ctx, time.Now())
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case take := <-r.reports:
			take(time.Now())
		case <-ticker.C:
		}
		r.evaluate(ctx, time.Now())
	}
}

// Status returns what the monitor knew when it last looked at its findings, a
// second ago at the most. Before and after Run it is empty.
func (m *Monitor) Status() Status { return *m.status.Load() }

// Problems are sentences about what keeps the monitor from telling of the replicas
// of a pool: a page that cannot be read, a probe that says nothing.
func (m *Monitor) Problems(model string) []string {
	var out []string
	for _, p := range m.status.Load().problems {
		if slices.Contains(p.models, model) {
			out = append(out, p.text)
		}
	}
	return out
}
