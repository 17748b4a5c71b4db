package balance

import (
	"math"
	"strconv"

	"github.com/warmroute/warmroute/replica"
)

// WeightedScorer is a [Scorer] and how much it counts in [Weighted].
type WeightedScorer struct {
	Scorer Scorer
	// Weight is the number of points between the scores 0 and 1: finite and
	// above 0. Only the ratio of the weights of one picker matters.
	Weight float64
}

// Weight gives a scorer a weight. [WeightedScorer.Validate] checks both.
func Weight(s Scorer, w float64) WeightedScorer { return WeightedScorer{Scorer: s, Weight: w} }

// Validate returns a [*replica.ConfigError] if there is no scorer, or the
// weight is not finite and above 0.
func (w WeightedScorer) Validate() error {
	if f, ok := w.Scorer.(ScorerFunc); w.Scorer == nil || ok && f == nil {
		return &replica.ConfigError{Field: "scorer", Value: "nil", Allowed: "a Scorer"}
	}
	if !(w.Weight > 0) || math.IsInf(w.Weight, 1) {
		return &replica.ConfigError{Field: "weight", Allowed: "a finite number above 0",
			Value: strconv.FormatFloat(w.Weight, 'g', -1, 64)}
	}
	return nil
}

// Weighted returns a [Picker] that chooses the candidate with the highest sum
// of weight times score. Candidates whose sums are equal, to within a
// billionth, are chosen in turn; without scorers that is all of them. Scores
// below 0 and NaN count as 0, scores above 1 as 1.
//
// If a scorer or weight is not valid every Pick returns the error that
// [WeightedScorer.Validate] has for it.
func Weighted(scorers ...WeightedScorer) Picker {
	p := &weighted{scorers: make([]WeightedScorer, len(scorers))}
	heaviest := 0.0
	for _, s := range scorers {
		if err := s.Validate(); err != nil {
			return &weighted{err: err}
		}
		heaviest = max(heaviest, s.Weight)
	}
	for i, s := range scorers {
		// Relative to the heaviest, no sum of weights overflows.
		p.scorers[i] = WeightedScorer{s.Scorer, s.Weight / heaviest}
	}
	return p
}

type weighted struct {
	scorers      []WeightedScorer
	err          error
	sums, scores []float64 // scratch
	turns        turns
}

// equalSums is the relative difference up to which sums are equal: above what
// the order of additions changes, below what one conversation among a million
// does.
const equalSums = 1e-9

func (p *weighted) Pick(req *Request, candidates []Candidate) (int, error) {
	n := len(candidates)
	if n == 0 {
		return -1, ErrNoCandidate
	}
	if p.err != nil {
		return -1, p.err
	}
	if cap(p.sums) < n {
		p.sums, p.scores = make([]float64, n), make([]float64, n)
	}
	sums, scores := p.sums[:n], p.scores[:n:n]
	clear(sums)
	for _, s := range p.scorers {
		clear(scores)
		s.Scorer.Score(req, candidates, scores)
		for i, score := range scores {
			if score > 0 { // not NaN either
				sums[i] += s.Weight * min(score, 1)
			}
		}
	}
	best := 0.0
	for _, sum := range sums {
		best = max(best, sum)
	}
	enough := best * (1 - equalSums)
	return p.turns.next(candidates, func(i int) bool { return sums[i] >= enough }), nil
}
