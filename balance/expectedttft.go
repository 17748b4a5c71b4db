package balance

import "math"

// ExpectedTTFT rates replicas by the time to first token (TTFT) that is
// expected there: 1 for the shortest, and for any other the shortest divided
// by its own. The time is
//
//	(prompt tokens that come before it + uncached tokens of its own) / prefill speed
//
// in seconds, where
//
//   - uncached is [Request].PromptTokens, at the conversation's home less the
//     part of HomeTokens that is expected to be there yet, 1 - HomeLost of it, but
//     at least 1. Nothing is credited elsewhere: with the credit of a prefix on
//     several replicas conversations bounce between them. If HomeTokens is unknown
//     the home is taken to have had all of the prompt, if PromptTokens is unknown
//     the prompt is as large as HomeTokens, and if both are unknown it is 1 token
//     everywhere, so that the queue decides. [Candidate.SharedTokens] are not
//     credited either: among idle replicas one system prompt would draw every
//     conversation to the first that had it, see [SharedPrefix].
//   - what comes before it is [Candidate.PendingPrefill], and for each request
//     in the engine's own queue, [Candidate.Waiting], the mean that is pending
//     for a request in flight, over the candidates that have any pending; or the
//     size of this prompt if none has. A waiting request of this process counts
//     twice, and should: what keeps it waiting, most often the answers of those
//     that run, is not in its prompt.
//   - the speed is [Candidate.PrefillRate]. Where it is unknown, or no positive
//     finite number, it is the mean of the known ones; if none is known tokens
//     are compared instead of seconds.
//
// An unknown or stale Waiting adds nothing. Requests that decode cost nothing
// either, so combine it with [InFlight] in [Weighted]. For the rule by which a
// conversation leaves its home see [SoftAffinity].
func ExpectedTTFT() Scorer {
	return ScorerFunc(func(req *Request, candidates []Candidate, scores []float64) {
		expectTTFT(req, candidates, scores)
		best := math.Inf(1)
		for _, t := range scores {
			best = min(best, t)
		}
		for i, t := range scores {
			scores[i] = best / t
		}
	})
}

// expectTTFT writes the expected time of each candidate into times, as
// [ExpectedTTFT] has it: above 0 and finite, in seconds, or in tokens if no
// speed is known.
func expectTTFT(req *Request, candidates []Candidate, times []float64) {
	home := req.home(candidates)
	size := float64(max(1, req.size(home)))
	waiting, rate := waitingTokens(candidates, size), meanPrefillRate(candidates)
	for i := range candidates {
		c := &candidates[i]
		tokens := float64(max(0, c.PendingPrefill)) + float64(max(0, c.waiting()))*waiting
		if i == home {
			tokens += max(1, size-req.cached(size))
		} else {
			tokens += size
		}
		if own := c.prefillRate(); own > 0 {
			tokens /= own
		} else {
			tokens /= rate
		}
		times[i] = min(tokens, math.MaxFloat64)
	}
}

// home is the index of the home, -1 if the conversation has none among the
// candidates.
func (r *Request) home(candidates []Candidate) int {
	if r.Session == 0 || r.Home < 0 || r.Home >= len(candidates) {
		return -1
	}
	return r.Home
}

// size is the number of tokens of the prompt, 0 if unknown.
func (r *Request) size(home int) int {
	if r.PromptTokens > 0 || home < 0 {
		return max(0, r.PromptTokens)
	}
	return max(0, r.HomeTokens)
}

// cached is the number of tokens that the home is expected to have of a prompt
// of the given size. A loss that is no share of anything counts as none.
func (r *Request) cached(size float64) float64 {
	left := size
	if r.HomeTokens > 0 {
		left = float64(r.HomeTokens)
	}
	if r.HomeLost > 0 {
		left *= 1 - min(r.HomeLost, 1)
	}
	return left
}

// prefillRate is PrefillRate, 0 where it does not count.
func (c *Candidate) prefillRate() float64 {
	if !(c.PrefillRate > 0) || math.IsInf(c.PrefillRate, 1) {
		return 0
	}
	return c.PrefillRate
}

// waitingTokens is what a request in an engine's queue is taken to have to
// compute. Candidates that have nothing pending are left out: their requests
// decode, and say nothing of what those that wait need.
func waitingTokens(candidates []Candidate, size float64) float64 {
	pending, requests := 0.0, 0.0
	for i := range candidates {
		if c := &candidates[i]; c.PendingPrefill > 0 {
			pending += float64(c.PendingPrefill)
			requests += float64(max(1, c.InFlight))
		}
	}
	if requests == 0 {
		return size
	}
	return pending / requests
}

// meanPrefillRate is the mean of the known ones, 1 if there is none. It is
// taken step by step, since a sum may overflow.
func meanPrefillRate(candidates []Candidate) float64 {
	mean, n := 0.0, 0.0
	for i := range candidates {
		if rate := candidates[i].prefillRate(); rate > 0 {
			n++
			mean += (rate - mean) / n
		}
	}
	if n == 0 {
		return 1
	}
	return mean
}
