package chart

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFromZero(t *testing.T) {
	for top, want := range map[float64][]float64{
		100:   {0, 25, 50, 75, 100},
		16638: {0, 5000, 10000, 15000, 20000},
		4:     {0, 1, 2, 3, 4},
		.7:    {0, .2, .4, .6000000000000001, .8},
		0:     {0, .25, .5, .75, 1},
		-3:    {0, .25, .5, .75, 1},
	} {
		s := fromZero(top, 200, 0)
		assert.InDeltaSlice(t, want, s.ticks, 1e-9, "%v", top)
		assert.InDelta(t, 200, s.at(0), 1e-9)
		assert.InDelta(t, 0, s.at(want[len(want)-1]), 1e-9)
	}
}

func TestLogarithmic(t *testing.T) {
	for name, c := range map[string]struct {
		lo, hi float64
		want   []float64
	}{
		"two decades":  {.38, 27.66, []float64{.5, 1, 2, 5, 10, 20}},
		"many decades": {1e-3, 1e6, nil},
		"narrow":       {24.88, 26.24, []float64{25, 26}},
		"one value":    {2, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := logarithmic(c.lo, c.hi, 200, 0)
			if len(c.want) > 0 {
				assert.InDeltaSlice(t, c.want, s.ticks, 1e-9)
			}
			assert.GreaterOrEqual(t, len(s.ticks), 2)
			assert.LessOrEqual(t, len(s.ticks), 9)
			for _, v := range append([]float64{c.lo, c.hi}, s.ticks...) {
				assert.Greater(t, s.at(v), -1e-9)
				assert.Less(t, s.at(v), 200+1e-9)
			}
			assert.Greater(t, s.at(c.lo), s.at(c.hi)-1e-9)
		})
	}
}

func TestLogarithmicHasAFewTicksForAnyRange(t *testing.T) {
	for lo := leastLog; lo < most; lo *= 3.7 {
		for hi := lo; hi < most; hi *= 1.9 {
			s := logarithmic(lo, hi, 0, 1)
			if len(s.ticks) < 2 || len(s.ticks) > 10 {
				assert.Fail(t, "ticks", "%v to %v: %v", lo, hi, s.ticks)
			}
		}
	}
}

func TestAcross(t *testing.T) {
	s := across([]float64{4, 8, 32}, 0, 280)
	assert.False(t, s.log)
	assert.InDelta(t, 40, s.at(8), 1e-9)

	s = across([]float64{1, 10, 100}, 0, 280)
	assert.True(t, s.log)
	assert.InDelta(t, 140, s.at(10), 1e-9)

	s = across([]float64{16}, 0, 280)
	assert.InDelta(t, 140, s.at(16), 1e-9, "a single step stands in the middle")
}

func TestShort(t *testing.T) {
	for _, c := range []struct {
		v, greatest float64
		want        string
	}{
		{0, 20000, "0"}, {5000, 20000, "5k"}, {5000, 8000, "5000"}, {2.5e6, 1e7, "2.5M"}, {.1 + .2, 1, "0.3"}, {3e12, 4e12, "3T"},
	} {
		assert.Equal(t, c.want, short(c.v, c.greatest))
	}
}
