package balance

import "math/rand/v2"

// Random returns a [Picker] that chooses each candidate equally often, by
// chance, with numbers from rnd or, if that is nil, from the global source.
// A rnd is used by one picker alone.
func Random(rnd *rand.Rand) Picker {
	return PickerFunc(func(_ *Request, candidates []Candidate) (int, error) {
		if len(candidates) == 0 {
			return -1, ErrNoCandidate
		}
		return intN(rnd, len(candidates)), nil
	})
}

// PowerOfTwo returns a [Picker] that takes two distinct candidates by chance
// and chooses the one with the smaller [Candidate.Load], or fewer sessions if
// that is equal. It looks at two candidates however many there are. For rnd
// see [Random].
func PowerOfTwo(rnd *rand.Rand) Picker {
	return PickerFunc(func(_ *Request, candidates []Candidate) (int, error) {
		n := len(candidates)
		switch n {
		case 0:
			return -1, ErrNoCandidate
		case 1:
			return 0, nil
		}
		i, j := intN(rnd, n), intN(rnd, n-1)
		if j >= i {
			j++
		}
		a, b := &candidates[i], &candidates[j]
		if b.Load() < a.Load() || b.Load() == a.Load() && b.Sessions < a.Sessions {
			return j, nil
		}
		return i, nil
	})
}

func intN(rnd *rand.Rand, n int) int {
	if rnd == nil {
		return rand.IntN(n)
	}
	return rnd.IntN(n)
}
