package balance

import "slices"

// LoRA rates the replicas for a request's LoRA adapter: 1 where it is in use,
// [Candidate.Adapters]; 0.5 where it is not but there is room for it; 0 where as
// many others are in use as the engine takes at a time, [Candidate.MaxAdapters],
// so that the request would wait for one of them to go (vLLM skips it in its
// queue until then), or where nobody knows how many that is. Where the adapters
// are unknown or stale it has no vote, as with [Waiting]. All are equal if the
// request is for the base model, or nobody's adapters are known.
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
			switch c := &candidates[i]; {
			case !c.adaptersKnown():
			case slices.Contains(c.Adapters, req.Adapter):
				scores[i] = 1
			case len(c.Adapters) < c.MaxAdapters:
				scores[i] = 0.5
			}
		}
		abstain(candidates, scores, (*Candidate).adaptersKnown)
	})
}

func (c *Candidate) adaptersKnown() bool { return !c.Stale && c.Adapters != nil }
