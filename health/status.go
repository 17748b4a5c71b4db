package health

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmroute/warmroute/replica"
)

// Status is what a [Monitor] knows.
type Status struct {
	Endpoints []EndpointStatus // those that are probed, in the fleet's order
	Exporters []ExporterStatus // in the order of [DCGM.GPUs]

	problems []problem
}

// EndpointStatus is what probes have shown of an endpoint.
type EndpointStatus struct {
	URL    string
	Down   bool
	Reason string // of Down, or why the last probe says nothing
}

// ExporterStatus is what a dcgm-exporter's page shows.
type ExporterStatus struct {
	URL   string
	Read  time.Time // when the page was last read, zero if it never was
	Stale bool      // it has not been read for [DCGM.StaleAfter]
	Err   string    // of the last try, "" if the whole page was read
	GPUs  []GPUStatus
}

// GPUStatus is a GPU as its page showed it last.
type GPUStatus struct {
	Reading
	// Signs are what speaks against the GPU, the gravest first.
	Signs []Sign
}

// Sign is something that speaks against a GPU, or did less than [DCGM.Hold] ago.
type Sign struct {
	What   string // such as "XID 79"
	Action Action
	Last   time.Time // when it was seen last
}

// problem is a sentence and the models of the pools that it matters to.
type problem struct {
	text   string
	models []string
}

// publish makes the status known.
func (r *run) publish(replicas []*replica.Replica, now time.Time) {
	s := new(Status)
	seen := map[string]bool{}
	for _, m := range replicas {
		at := m.URL().String()
		p := r.probes[at]
		if p == nil || seen[at] {
			continue
		}
		seen[at] = true
		e := EndpointStatus{URL: at, Down: p.down, Reason: p.silent}
		if p.down {
			e.Reason = p.reason
		}
		s.Endpoints = append(s.Endpoints, e)
		if p.silent != "" {
			text := fmt.Sprintf("%s%s %s, which says nothing of its health", at, p.cfg.Path, p.silent)
			s.problems = append(s.problems, problem{text, []string{m.Model()}})
		}
	}
	for _, e := range r.exporters {
		s.Exporters = append(s.Exporters, e.status(now))
		models := modelsOf(replicas, e.concerns)
		if len(models) == 0 {
			models = modelsOf(replicas, func(*replica.Replica) bool { return true }) // somebody should know
		}
		for _, text := range e.problems(now, replicas) {
			s.problems = append(s.problems, problem{text, models})
		}
	}
	r.monitor.status.Store(s)
}

func modelsOf(replicas []*replica.Replica, of func(*replica.Replica) bool) []string {
	var out []string
	for _, m := range replicas {
		if !slices.Contains(out, m.Model()) && of(m) {
			out = append(out, m.Model())
		}
	}
	return out
}

func (e *exporter) status(now time.Time) ExporterStatus {
	s := ExporterStatus{URL: e.name, Read: e.read, Stale: e.stale(now)}
	if e.err != nil {
		s.Err = e.err.Error()
	}
	for _, g := range e.order {
		gpu := GPUStatus{Reading: g.reading}
		for _, n := range g.ordered() {
			gpu.Signs = append(gpu.Signs, Sign{What: n.what, Action: n.action, Last: n.last})
		}
		s.GPUs = append(s.GPUs, gpu)
	}
	return s
}
