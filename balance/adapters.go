package balance

// PickerFunc makes a [Picker] of a function.
type PickerFunc func(req *Request, candidates []Candidate) (int, error)

// Pick calls f.
func (f PickerFunc) Pick(req *Request, candidates []Candidate) (int, error) {
	return f(req, candidates)
}

// ScorerFunc makes a [Scorer] of a function.
type ScorerFunc func(req *Request, candidates []Candidate, scores []float64)

// Score calls f.
func (f ScorerFunc) Score(req *Request, candidates []Candidate, scores []float64) {
	f(req, candidates, scores)
}
