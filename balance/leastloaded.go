package balance

import "math"

// LeastLoaded returns a [Picker] that chooses the candidate with the smallest
// [Candidate.Load], of those the one with the fewest sessions, of those the
// one with the lowest KV usage. Candidates that are equal in all are chosen in
// turn. An unknown or stale KV usage decides nothing: it is worse than the
// lowest where the known ones differ, and equal where they do not.
func LeastLoaded() Picker { return new(leastLoaded) }

type leastLoaded struct{ turns turns }

func (p *leastLoaded) Pick(_ *Request, candidates []Candidate) (int, error) {
	if len(candidates) == 0 {
		return -1, ErrNoCandidate
	}
	least, fewest := math.MaxInt, math.MaxInt
	lowest, highest := math.Inf(1), math.Inf(-1)
	for i := range candidates {
		c := &candidates[i]
		load := c.Load()
		if load > least || load == least && c.Sessions > fewest {
			continue
		}
		if load < least || c.Sessions < fewest {
			least, fewest = load, c.Sessions
			lowest, highest = math.Inf(1), math.Inf(-1)
		}
		if usage := c.kvUsage(); usage >= 0 {
			lowest, highest = min(lowest, usage), max(highest, usage)
		}
	}
	return p.turns.next(candidates, func(i int) bool {
		c := &candidates[i]
		if c.Load() != least || c.Sessions != fewest {
			return false
		}
		usage := c.kvUsage()
		return usage == lowest || usage < 0 && lowest >= highest
	}), nil
}
