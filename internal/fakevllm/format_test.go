package fakevllm

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPythonFloat(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.0", 4: "4.0", 0.9273182957393484: "0.9273182957393484", 0.001: "0.001",
		999999: "999999.0", 1e6: "1e+06", 1234567: "1.234567e+06", 1795954794.63: "1.79595479463e+09", 12345678901: "1.2345678901e+10",
	} {
		assert.Equal(t, want, pythonFloat(v))
		assert.Equal(t, want, string(appendPythonFloat(nil, v)))
	}
}

func TestPythonInt(t *testing.T) {
	for s, want := range map[string]string{
		"0": "0", "-0": "0", "+7": "7", " 12\t": "12", "1_000": "1000", "-5": "-5", "007": "7",
		"": "", "_1": "", "1_": "", "1__0": "", "1.0": "", "a": "", "- 1": "", "--1": "", "1a2": "",
	} {
		got, ok := pythonInt(s)
		assert.Equal(t, want, got, s)
		assert.Equal(t, want != "", ok, s)
	}
}

func TestHistogram(t *testing.T) {
	h := newHistogram([]float64{1, 2})
	before := h.clone()
	for _, v := range []float64{0.5, 1, 1.5, 9} {
		h.observe(v)
	}
	assert.Equal(t, []int{2, 1, 1}, h.buckets)
	assert.Equal(t, 4, h.count)
	assert.InDelta(t, 12, h.sum, 1e-9)
	assert.Zero(t, before.buckets[0])
}
