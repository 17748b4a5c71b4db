package balance

import "math"

// fading is a count in which each event counts half after [PrefixHalfLife].
type fading struct {
	count float64 // at the last event
	at    int64   // of it, Unix ns; 0 if there was none
}

func (f *fading) add(at int64) {
	f.count = f.value(at) + 1
	f.at = max(f.at, at)
}

// remove takes back an event.
func (f *fading) remove(at int64) {
	const least = 1e-9 // less is what rounding leaves
	f.count -= math.Exp2(-float64(max(0, f.at-at)) / float64(PrefixHalfLife))
	if f.count < least {
		f.count = 0
	}
}

func (f *fading) value(at int64) float64 {
	if f.count == 0 {
		return 0
	}
	return f.count * math.Exp2(-float64(max(0, at-f.at))/float64(PrefixHalfLife))
}
