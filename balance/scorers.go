package balance

import "math"

// smallCount is the least number that counts are rated against: a difference
// of one among idle replicas is a quarter of the scale, not all of it, and
// among replicas with a hundred it is next to nothing.
const smallCount = 4

// InFlight rates replicas by the requests on them, [Candidate.Load], relative
// to the busiest: 1 for none, 0 for the most among the candidates once that is
// 4 or more.
func InFlight() Scorer {
	return ScorerFunc(func(_ *Request, candidates []Candidate, scores []float64) {
		rateCounts(candidates, scores, (*Candidate).Load)
	})
}

// Sessions rates replicas by the conversations bound to them,
// [Candidate.Sessions], relative to the fullest in the manner of [InFlight].
func Sessions() Scorer {
	return ScorerFunc(func(_ *Request, candidates []Candidate, scores []float64) {
		rateCounts(candidates, scores, (*Candidate).sessions)
	})
}

// Waiting rates replicas by the requests that wait in the engine's own queue,
// [Candidate.Waiting], relative to the longest in the manner of [InFlight]. It
// is as old as the last scrape: a burst between two scrapes does not change
// it, so combine it with [InFlight]. Where it is unknown or stale it has no
// vote: such a replica gets the mean score of the others, and all are equal if
// none is known.
func Waiting() Scorer {
	return ScorerFunc(func(_ *Request, candidates []Candidate, scores []float64) {
		rateCounts(candidates, scores, (*Candidate).waiting)
		abstain(candidates, scores, func(c *Candidate) bool { return c.waiting() >= 0 })
	})
}

// KVUsage rates replicas by the share of the KV cache that running requests
// leave free: 1 minus [Candidate.KVUsage], whatever the others have. Where it
// is unknown or stale it has no vote, as with [Waiting].
func KVUsage() Scorer {
	return ScorerFunc(func(_ *Request, candidates []Candidate, scores []float64) {
		for i := range candidates {
			scores[i] = 1 - candidates[i].kvUsage()
		}
		abstain(candidates, scores, func(c *Candidate) bool { return c.kvUsage() >= 0 })
	})
}

// Parent rates the home of the parent conversation 1 and the rest 0. All are
// equal if the request has no parent, or the parent's home is not among the
// candidates.
func Parent() Scorer {
	return ScorerFunc(func(req *Request, candidates []Candidate, scores []float64) {
		if home := req.ParentHome; req.Parent != 0 && home >= 0 && home < len(candidates) {
			scores[home] = 1
		}
	})
}

func (c *Candidate) sessions() int { return c.Sessions }

// waiting is Waiting, or Unknown where it does not count.
func (c *Candidate) waiting() int {
	if c.Stale || c.Waiting < 0 {
		return Unknown
	}
	return c.Waiting
}

// kvUsage is KVUsage brought into 0 to 1, or Unknown where it does not count.
// Engines do report NaN.
func (c *Candidate) kvUsage() float64 {
	if c.Stale || c.KVUsage < 0 || math.IsNaN(c.KVUsage) {
		return Unknown
	}
	return min(c.KVUsage, 1)
}

func rateCounts(candidates []Candidate, scores []float64, count func(*Candidate) int) {
	most := smallCount
	for i := range candidates {
		most = max(most, count(&candidates[i]))
	}
	for i := range candidates {
		scores[i] = 1 - float64(max(0, count(&candidates[i])))/float64(most)
	}
}

// abstain gives the candidates that are not known the mean of those that are.
// The mean, unlike a fixed score, neither draws requests to a replica that
// nothing is known of nor keeps them from it; and it is never above the best.
func abstain(candidates []Candidate, scores []float64, known func(*Candidate) bool) {
	sum, n := 0.0, 0
	for i := range candidates {
		if known(&candidates[i]) {
			sum += scores[i]
			n++
		}
	}
	if n == len(candidates) {
		return
	}
	mean := 0.0
	if n > 0 {
		mean = sum / float64(n)
	}
	for i := range candidates {
		if !known(&candidates[i]) {
			scores[i] = mean
		}
	}
}
