package balance

// RoundRobin returns a [Picker] that chooses the candidates in turn, whatever
// is on them: the one that was chosen longest ago. Replicas that leave, come
// or change places do not disturb the turns of the others; a new one is next.
func RoundRobin() Picker { return new(roundRobin) }

type roundRobin struct{ turns turns }

func (p *roundRobin) Pick(_ *Request, candidates []Candidate) (int, error) {
	if len(candidates) == 0 {
		return -1, ErrNoCandidate
	}
	return p.turns.next(candidates, func(int) bool { return true }), nil
}
