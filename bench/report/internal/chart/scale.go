package chart

import (
	"math"
	"strconv"
)

// What an axis can show. Times and rates lie far within; what does not is left
// out of the drawing.
const (
	most     = 1e15 // on any axis, either way of 0
	leastLog = 1e-6 // on a logarithmic axis
)

// Shows says whether a chart with that kind of y axis has a place for y.
func Shows(y float64, log bool) bool {
	if log {
		return y >= leastLog && y <= most
	}
	return y >= 0 && y <= most
}

// scale maps values to coordinates.
type scale struct {
	lo, hi   float64 // in values
	from, to float64 // in coordinates
	log      bool
	ticks    []float64
}

func (s scale) at(v float64) float64 {
	lo, hi := s.lo, s.hi
	if s.log {
		v, lo, hi = math.Log(v), math.Log(lo), math.Log(hi)
	}
	if hi <= lo {
		return (s.from + s.to) / 2
	}
	return s.from + (v-lo)/(hi-lo)*(s.to-s.from)
}

// fromZero is a linear scale from 0 to a round number not below top, with
// about five ticks.
func fromZero(top, from, to float64) scale {
	if !(top > 1e-9) {
		top = 1
	}
	step := roundStep(top / 4)
	n := int(math.Ceil(top/step - 1e-9))
	s := scale{hi: float64(n) * step, from: from, to: to}
	for i := range n + 1 {
		s.ticks = append(s.ticks, float64(i)*step)
	}
	return s
}

// logarithmic is a scale from a little below lo to a little above hi, both
// above 0. Its ticks are 1, 2 and 5 times the powers of ten, or the powers
// alone where these are many; where the scale is too narrow for either they
// are a round number apart.
func logarithmic(lo, hi, from, to float64) scale {
	const (
		many   = 9
		narrow = 6   // times lo
		margin = .08 // of the length, on both sides
	)
	pad := math.Pow(max(hi/lo, 1.2), margin)
	s := scale{lo: lo / pad, hi: hi * pad, from: from, to: to, log: true}
	if s.hi < narrow*s.lo {
		step := roundStep((s.hi - s.lo) / 4)
		for n := math.Ceil(s.lo / step); n*step <= s.hi; n++ {
			s.ticks = append(s.ticks, n*step)
		}
		return s
	}
	first, last := int(math.Floor(3*math.Log10(s.lo)))-1, int(math.Ceil(3*math.Log10(s.hi)))+1
	for stride := 1; ; stride += 3 - stride%3 { // 1, 3, 6, ...
		s.ticks = nil
		for i := first; i <= last; i++ {
			if v := at125(i); i%stride == 0 && v >= s.lo && v <= s.hi {
				s.ticks = append(s.ticks, v)
			}
		}
		if len(s.ticks) <= many {
			return s
		}
	}
}

// at125 is the element i of ..., 0.1, 0.2, 0.5, 1, 2, 5, 10, ...; element 0 is 1.
func at125(i int) float64 {
	power := int(math.Floor(float64(i) / 3))
	return []float64{1, 2, 5}[i-3*power] * math.Pow(10, float64(power))
}

// roundStep is the least of 1, 2, 2.5 and 5 times the powers of ten that is
// not below rough.
func roundStep(rough float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, nice := range []float64{1, 2, 2.5, 5} {
		if nice*unit >= rough*(1-1e-9) {
			return nice * unit
		}
	}
	return 10 * unit
}

// across is the scale of an x axis with the given values, in order, as its
// ticks: linear, and logarithmic where the greatest is more than ten times the
// least.
func across(values []float64, from, to float64) scale {
	s := scale{from: from, to: to, ticks: values}
	if len(values) == 0 {
		return s
	}
	s.lo, s.hi = values[0], values[len(values)-1]
	s.log = s.lo > 0 && s.hi > 10*s.lo
	return s
}

// short writes the number of a tick, in the unit that fits the greatest tick
// of its axis.
func short(v, greatest float64) string {
	for _, unit := range []struct {
		from, size float64
		name       string
	}{{1e12, 1e12, "T"}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}} {
		if v != 0 && math.Abs(greatest) >= unit.from {
			return digits(v/unit.size) + unit.name
		}
	}
	return digits(v)
}

// label is the number at tick i.
func (s scale) label(i int) string {
	return short(s.ticks[i], s.ticks[len(s.ticks)-1])
}

// digits writes a number without the noise of its last bits.
func digits(v float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil {
		rounded = v
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
