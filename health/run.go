package health

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// probeBytes bounds what is read of a probe's answer, which vLLM leaves empty.
const probeBytes = 64 << 10

// run is one Run of a monitor. All but the channel belongs to its goroutine.
type run struct {
	monitor   *Monitor
	fleet     Fleet
	prober    *metrics.Scraper // nil if endpoints are not probed
	reader    *metrics.Scraper // nil if there are no exporters
	probes    map[string]*probed
	exporters []*exporter
	reports   chan func(now time.Time) // each takes a result in
	tasks     sync.WaitGroup
}

func newRun(m *Monitor, fleet Fleet) (*run, error) {
	r := &run{monitor: m, fleet: fleet, probes: map[string]*probed{}, reports: make(chan func(time.Time))}
	var err error
	if p := m.cfg.Probe; p != nil {
		r.prober, err = metrics.NewScraper(metrics.Config{Client: p.Client, Timeout: p.Timeout, MaxBytes: probeBytes})
		if err != nil {
			return nil, err
		}
	}
	d := m.cfg.DCGM
	if d == nil {
		return r, nil
	}
	if r.reader, err = metrics.NewScraper(metrics.Config{Client: d.Client, Timeout: d.Timeout}); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, g := range d.GPUs {
		if known[g.Exporter] {
			continue
		}
		known[g.Exporter] = true
		u, err := url.Parse(g.Exporter)
		if err != nil {
			return nil, err
		}
		e := newExporter(u, d)
		e.since = time.Now()
		r.exporters = append(r.exporters, e)
	}
	return r, nil
}

// end waits for what was started and takes back what was found.
func (r *run) end() {
	r.tasks.Wait()
	for _, s := range [...]*metrics.Scraper{r.prober, r.reader} {
		if s != nil {
			s.CloseIdleConnections()
		}
	}
	replicas := r.fleet.Replicas()
	none := make([]replica.Finding, len(replicas))
	for i := range none {
		none[i].State = replica.Up
	}
	r.apply(replicas, none, time.Now())
	r.monitor.status.Store(new(Status))
}

// read reads an exporter's page time and again.
func (r *run) read(ctx context.Context, e *exporter) {
	r.tasks.Go(func() {
		r.every(ctx, e.dcgm.Interval, func() func(time.Time) {
			page, err := r.reader.Get(ctx, e.url)
			return func(now time.Time) { e.take(page, err, now) }
		})
	})
}

// probe probes an endpoint time and again.
func (r *run) probe(ctx context.Context, p *probed) {
	target := p.of.URL().JoinPath(p.cfg.Path)
	r.tasks.Go(func() {
		r.every(ctx, p.cfg.Interval, func() func(time.Time) {
			_, err := r.prober.Get(ctx, target)
			return func(time.Time) { p.take(err) }
		})
	})
}

// every calls do at once and then after each interval, give or take a tenth, and
// reports what it returns, until ctx ends.
func (r *run) every(ctx context.Context, interval time.Duration, do func() func(time.Time)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		take := do()
		select {
		case <-ctx.Done(): // what ended with it says nothing
			return
		case r.reports <- take:
		}
		jitter := min(max(r.monitor.cfg.Jitter(), 0), 1)
		timer.Reset(time.Duration(float64(interval) * (0.9 + 0.2*jitter)))
	}
}

// reconcile probes the endpoints that are there, and no others.
func (r *run) reconcile(ctx context.Context, replicas []*replica.Replica) {
	if r.prober == nil {
		return
	}
	there := map[string]bool{}
	for _, m := range replicas {
		at := m.URL().String()
		there[at] = true
		p := r.probes[at]
		if p != nil && p.of.SameEndpoint(m) {
			continue
		}
		if p != nil {
			p.stop() // it left and came back: nothing is known of it
		}
		probing, stop := context.WithCancel(ctx)
		p = &probed{cfg: r.monitor.cfg.Probe, of: m, stop: stop}
		r.probes[at] = p
		r.probe(probing, p)
	}
	for at, p := range r.probes {
		if !there[at] {
			p.stop()
			delete(r.probes, at)
		}
	}
}

// evaluate brings what is found of each replica up to date.
func (r *run) evaluate(ctx context.Context, now time.Time) {
	replicas := r.fleet.Replicas()
	r.reconcile(ctx, replicas)
	for _, e := range r.exporters {
		e.expire(now)
	}
	found := make([]replica.Finding, len(replicas))
	for i, m := range replicas {
		found[i].State = replica.Up
		if p := r.probes[m.URL().String()]; p != nil {
			found[i] = p.finding()
		}
		for _, e := range r.exporters {
			if f := e.finding(m); severity(f.State) > severity(found[i].State) {
				found[i] = f
			}
		}
	}
	spare(replicas, found, r.fleet.Usable)
	r.apply(replicas, found, now)
	r.publish(replicas, now)
}

// severity orders the states that can be found.
func severity(s replica.State) int {
	switch s {
	case replica.Suspect:
		return 1
	case replica.Draining:
		return 2
	case replica.Down:
		return 3
	}
	return 0
}

// spare has replicas be suspect and not drained in pools where no other could take
// what they have.
func spare(replicas []*replica.Replica, found []replica.Finding, usable func(*replica.Replica) bool) {
	others := map[string]bool{} // by the pool's model
	for i, m := range replicas {
		if severity(found[i].State) < severity(replica.Draining) && usable(m) {
			others[m.Model()] = true
		}
	}
	for i, m := range replicas {
		if found[i].State == replica.Draining && !others[m.Model()] {
			found[i].State = replica.Suspect
			found[i].Reason += "; not drained, as no other replica of its pool takes requests"
		}
	}
}

// apply marks the replicas, and tells the fleet of what has changed.
func (r *run) apply(replicas []*replica.Replica, found []replica.Finding, now time.Time) {
	for i, m := range replicas {
		before, f := m.Finding(), found[i]
		if before.State == f.State && before.Reason == f.Reason {
			continue
		}
		if f.Since = now; before.State == f.State {
			f.Since = before.Since
		}
		m.Find(f)
		r.fleet.Found(m, before, f)
	}
}
