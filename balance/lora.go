package balance

import "slices"

// LoRA rates the replicas that have the request's LoRA adapter loaded,
// [Candidate.Adapters], 1 and the rest 0. Where the adapters are unknown or
// stale it has no vote, as with [Waiting]. All are equal if the request is for
// the base model, or nobody's adapters are known.
//
// It is a preference and no filter: an engine loads an adapter that it does not
// have when a request asks for it, if it knows where to find it. Give it less
// weight than load, or one replica serves all of an adapter's requests.
func LoRA() Scorer {
	return ScorerFunc(func(req *Request, candidates []Candidate, scores []float64) {
		if req.Adapter == "" {
			return
		}
		for i := range candidates {
			if c := &candidates[i]; c.adaptersKnown() && slices.Contains(c.Adapters, req.Adapter) {
				scores[i] = 1
			}
		}
		abstain(candidates, scores, (*Candidate).adaptersKnown)
	})
}

func (c *Candidate) adaptersKnown() bool { return !c.Stale && c.Adapters != nil }
