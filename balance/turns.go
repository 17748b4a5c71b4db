package balance

import "github.com/warmroute/warmroute/replica"

// turns lets equal candidates be chosen in turn: of those the one whose last
// turn is longest ago. It goes by replica, not by index: an index that moves
// on by one starves a replica when the order or the size of the slice changes
// in step with it.
type turns struct {
	picks uint64
	last  memory[uint64]
}

// next chooses among the candidates that are eligible, the first if all are
// new, and gives it its turn. It returns -1 if none is.
func (t *turns) next(candidates []Candidate, eligible func(i int) bool) int {
	best, longest := -1, uint64(0)
	for i := range candidates {
		if !eligible(i) {
			continue
		}
		if last := t.last.get(candidates[i].Replica); best < 0 || last < longest {
			best, longest = i, last
		}
	}
	if best >= 0 {
		t.picks++
		t.last.set(candidates[best].Replica, t.picks, len(candidates))
	}
	return best
}

// memory is what a picker remembers of replicas. It is bounded, since replicas
// come and go and nobody tells a picker: once there are many more of them than
// there were candidates at any time all is forgotten, which costs no more than
// a start does.
type memory[V any] struct {
	values     map[*replica.Replica]V
	candidates int // the most there were at a time
}

func (m *memory[V]) get(r *replica.Replica) V { return m.values[r] }

func (m *memory[V]) set(r *replica.Replica, v V, candidates int) {
	m.candidates = max(m.candidates, candidates)
	if m.values == nil {
		m.values = make(map[*replica.Replica]V, candidates)
	}
	if len(m.values) >= 2*m.candidates+64 {
		if _, known := m.values[r]; !known {
			clear(m.values)
		}
	}
	m.values[r] = v
}
