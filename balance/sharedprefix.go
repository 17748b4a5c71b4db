package balance

import (
	"math"
	"slices"
)

const (
	// sharedMargin is by which part a replica may have more load than the least
	// loaded one and still be preferred for what its cache holds.
	sharedMargin = 0.25
	// fewRequests and fewSessions are what it may have more in any case, if the
	// prefill of worthLoad tokens is saved by it; else it may have no request more.
	fewRequests = 2
	fewSessions = 4
	worthLoad   = 1024
	// nearlyAll is the part of the longest shared beginning that is as good as all
	// of it.
	nearlyAll = 0.5
	// sharedWeight is the weight of SharedPrefix in [DefaultWithSharedPrefix].
	sharedWeight = 3
)

// SharedPrefix rates the replicas that have lately served prompts that begin as
// this one does, [Candidate.SharedTokens], 1 and the rest 0, within two bounds:
//
//   - By load. A replica is not preferred if it has more than a quarter, and more
//     than two requests, above the least [Candidate.Load] of all; nor if it has
//     more than a quarter, and more than four conversations, above the fewest
//     [Candidate.Sessions]. For less than 1,024 tokens it is not if it has any
//     request above the least.
//   - By share. A beginning that is that of some part of the conversations,
//     [Request.FamilyShare], belongs on that part of the replicas: with four, that
//     of all of them on four, that of half of them on two. Those that have had most of it,
//     [Candidate.Family], are preferred; as long as there are fewer that have
//     had it at all, none is, so that load decides and it comes to another one.
//
// So one system prompt that everybody sends draws nobody anywhere, however idle
// the replicas are, and those of several teams end up mostly apart, each on as
// many replicas as its load takes. A replica that has at least half as much as
// the one that has most is as good as that.
//
// All are equal if nobody has anything of the prompt, or nothing is known of it.
// The figures come from [PrefixLog]; a router fills them in with
// warmroute.WithSharedPrefix. It is safe for concurrent use.
func SharedPrefix() Scorer { return ScorerFunc(rateShared) }

// DefaultWithSharedPrefix returns [Default] with [SharedPrefix] of weight 3. On a
// fleet that is not busy that outweighs the two requests more, and any number of
// conversations more, that SharedPrefix allows a replica to have, but not both and
// a KV cache that is fuller as well, nor one request more and the home of a
// sub-agent's parent.
func DefaultWithSharedPrefix() Picker {
	return Weighted(append(defaultScorers(), Weight(SharedPrefix(), sharedWeight))...)
}

func rateShared(req *Request, candidates []Candidate, scores []float64) {
	n := len(candidates)
	longest := 0
	load, sessions := math.MaxInt, math.MaxInt
	for i := range candidates {
		c := &candidates[i]
		longest = max(longest, c.SharedTokens)
		load, sessions = min(load, c.Load()), min(sessions, c.Sessions)
	}
	if longest <= 0 {
		return
	}
	if sessions = above(sessions, fewSessions); longest >= worthLoad {
		load = above(load, fewRequests)
	}
	// The scores serve as scratch: none of them is set yet.
	for i := range candidates {
		scores[i] = candidates[i].family()
	}
	slices.Sort(scores)
	least := scores[n-familyReplicas(req.FamilyShare, n)]
	clear(scores)
	if least == 0 {
		return // there should be more that have had it
	}
	for i := range candidates {
		c := &candidates[i]
		if c.family() >= least && float64(c.SharedTokens) >= nearlyAll*float64(longest) &&
			c.Load() <= load && c.Sessions <= sessions {
			scores[i] = 1
		}
	}
}

// family is Family where it is a count, and the replica has something of the
// prompt.
func (c *Candidate) family() float64 {
	if c.SharedTokens <= 0 || !(c.Family > 0) || math.IsInf(c.Family, 1) {
		return 0
	}
	return c.Family
}

// familyReplicas is how many of n replicas a share of the conversations takes, 1
// at least. A quarter of one more is within the margin of load of the others.
func familyReplicas(share float64, n int) int {
	if !(share > 0) {
		return 1
	}
	return max(1, int(math.Ceil(min(share, 1)*float64(n)-sharedMargin)))
}

// above is the most that is about as little as least.
func above(least, few int) int {
	return least + max(few, int(sharedMargin*float64(least)))
}
