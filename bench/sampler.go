package bench

import (
	"math"
	"slices"

	"github.com/warmroute/warmroute/bench/report"
)

// maxPoints is how many samples of the load a row keeps at the most.
const maxPoints = 180

// sampler adds up what the replicas' counters say, from one moment to the next.
type sampler struct {
	last    []replicaCounts
	sum     replicaCounts // counted since the beginning, over all replicas
	busy    []int         // samples in which a replica had a running request
	known   []int         // samples in which it was known whether it had one
	samples int
	load    []report.Load
}

func newSampler(names []string, now []replicaCounts) *sampler {
	s := &sampler{last: slices.Clone(now), busy: make([]int, len(now)), known: make([]int, len(now))}
	for _, name := range names {
		s.load = append(s.load, report.Load{Replica: name})
	}
	return s
}

// count takes the counters in. One that went back began anew.
func (s *sampler) count(now []replicaCounts) {
	since := func(now, last float64) float64 {
		if now < last {
			return now
		}
		return now - last
	}
	for i := range now {
		n, l := &now[i], &s.last[i]
		s.sum.queries += since(n.queries, l.queries)
		s.sum.hits += since(n.hits, l.hits)
		s.sum.prompt += since(n.prompt, l.prompt)
		s.sum.cached += since(n.cached, l.cached)
		s.sum.generated += since(n.generated, l.generated)
		s.sum.preemptions += since(n.preemptions, l.preemptions)
	}
	copy(s.last, now)
}

// sample counts and looks at the load, at so many seconds since the beginning.
func (s *sampler) sample(at float64, now []replicaCounts) {
	s.count(now)
	s.samples++
	for i := range now {
		if !math.IsNaN(now[i].running) {
			s.known[i]++
		}
		if now[i].running > 0 {
			s.busy[i]++
		}
		l := &s.load[i]
		l.At = append(l.At, report.Value(at))
		l.Running = append(l.Running, report.Value(now[i].running))
		l.Waiting = append(l.Waiting, report.Value(now[i].waiting))
	}
}

// busyReplicas is how many replicas had a running request, in the mean over the
// samples in which that is known; NaN if there are none.
func (s *sampler) busyReplicas() float64 {
	sum := 0.0
	for i := range s.busy {
		sum += float64(s.busy[i]) / float64(s.known[i])
	}
	if len(s.busy) == 0 {
		return math.NaN()
	}
	return sum
}

// thinned is the load at maxPoints moments or less, evenly spaced.
func (s *sampler) thinned() []report.Load {
	every := (s.samples + maxPoints - 1) / maxPoints
	if every <= 1 {
		return s.load
	}
	thin := func(all []report.Value) []report.Value {
		var some []report.Value
		for i := 0; i < len(all); i += every {
			some = append(some, all[i])
		}
		return some
	}
	var out []report.Load
	for _, l := range s.load {
		out = append(out, report.Load{Replica: l.Replica, At: thin(l.At), Running: thin(l.Running), Waiting: thin(l.Waiting)})
	}
	return out
}
