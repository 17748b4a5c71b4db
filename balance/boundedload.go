package balance

import (
	"math"
	"strconv"

	"github.com/warmroute/warmroute/replica"
)

// BoundedLoad returns a [Picker] that hashes conversations to replicas with
// consistent hashing with bounded loads (arXiv 1608.01350): in the order of
// [Rendezvous], the first candidate that has room. One has room if with the
// new request its [Candidate.Load] is at most factor times the mean, rounded
// up: ceil(factor*(total+1)/n). A request without a session is placed by
// [LeastLoaded].
//
// The factor is finite and above 1, else a [*replica.ConfigError] is returned.
// 1.25 is common. The bound is strict where replicas outnumber requests: it is
// 1 then, and a replica with a single request has no room.
func BoundedLoad(factor float64) (Picker, error) {
	if !(factor > 1) || math.IsInf(factor, 1) {
		return nil, &replica.ConfigError{Field: "factor", Allowed: "a finite number above 1",
			Value: strconv.FormatFloat(factor, 'g', -1, 64)}
	}
	return &boundedLoad{factor: factor}, nil
}

type boundedLoad struct {
	factor float64
	names  nameHashes
	load   leastLoaded
}

func (p *boundedLoad) Pick(req *Request, candidates []Candidate) (int, error) {
	if len(candidates) == 0 {
		return -1, ErrNoCandidate
	}
	if req.Session == 0 {
		return p.load.Pick(req, candidates)
	}
	total := 1.0
	for i := range candidates {
		total += float64(candidates[i].Load())
	}
	bound := math.Ceil(p.factor * total / float64(len(candidates)))
	p.names.update(candidates)
	best, highest := -1, uint64(0)
	for i := range candidates {
		if float64(candidates[i].Load()+1) > bound {
			continue
		}
		if w := p.names.weight(req.Session, i); best < 0 || w > highest {
			best, highest = i, w
		}
	}
	if best < 0 {
		// The least loaded is never above the mean, so that only loads which
		// are not counts come here.
		return p.load.Pick(req, candidates)
	}
	return best, nil
}
