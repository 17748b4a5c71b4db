package metrics

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plainLines are lines of the shape that readPlain is for.
var plainLines = []string{
	`a 1`,
	`a:b_c9 -1.5e-07`,
	`a NaN`,
	`a +Inf`,
	`a{b="c"} 0`,
	`a{b=""} 3.0`,
	`a{_b9="c d",Z="{}=,#",x="ü"} 12 1700000000000`,
	`a 1 -5`,
	`vllm:num_requests_running{engine="0",model_name="/models/m"} 4.0`,
}

// otherLines are left to expfmt, which takes some of them.
var otherLines = []string{
	``, `a`, ` a 1`, `a `, `a  1`, `a 1 `, `a	1`, `9a 1`, `a-b 1`, `"a" 1`,
	`a{} 1`, `a{b="c",} 1`, `a{b="c"}1`, `a{b="c"}  1`, `a{ b="c"} 1`, `a{b = "c"} 1`, `a{b="c" } 1`,
	`a{b="c\n"} 1`, `a{b="c`, `a{b="c"`, `a{b="c"}`, `a{b=c} 1`, `a{b} 1`, `a{b=} 1`, `a{,} 1`, `a{b="c"d="e"} 1`,
	`a{b="c",b="d"} 1`, `a{__name__="c"} 1`, "a{b=\"\xff\"} 1", `{a="b"} 1`, `{"a",b="c"} 1`,
	`a one`, `a 1_0`, `a 0x1p4`, `a 1e999`, `a 1 2 3`, `a 1 x`, `a 1 1.5`, `a 1 -`, `a 1 # {b="c"} 1`, `a 1 9999999999999999999`,
}

func TestReadPlain(t *testing.T) {
	for _, line := range plainLines {
		agree(t, []byte(line), true)
	}
	for _, line := range otherLines {
		agree(t, []byte(line), false)
	}
}

// agree has a line read both ways. What readPlain accepts expfmt must read
// alike.
func agree(t *testing.T, line []byte, want bool) {
	t.Helper()
	var plain, whole sample
	ok := plain.readPlain(line)
	require.Equal(t, want, ok, "%q", line)
	if !ok {
		return
	}
	var slow expfmtLine
	require.NoError(t, slow.read(line, &whole), "%q", line)
	require.Equal(t, math.Float64bits(whole.value), math.Float64bits(plain.value), "%q", line)
	require.Len(t, plain.labels, len(whole.labels), "%q", line)
	for i, l := range whole.labels {
		assert.Equal(t, string(l.name), string(plain.labels[i].name), "%q", line)
		assert.Equal(t, string(l.value), string(plain.labels[i].value), "%q", line)
	}
}

func FuzzReadPlain(f *testing.F) {
	for _, line := range append(plainLines, otherLines...) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 {
			return // a line has none
		}
		var s sample
		agree(t, line, s.readPlain(line))
	})
}

func TestReadPlainDoesNotAllocate(t *testing.T) {
	var s sample
	line := []byte(plainLines[len(plainLines)-1])
	require.True(t, s.readPlain(line))
	assert.Zero(t, testing.AllocsPerRun(100, func() { s.readPlain(line) }))
}

func TestIsMetricsPage(t *testing.T) {
	for text, want := range map[string]bool{
		"":                            true, // vllm#8612
		"\n# EOF\n":                   true,
		"# HELP a b\n# TYPE a gauge":  true,
		"a 1":                         true,
		`a{b="c\n"} 1 17.5 # {d="e"}`: true,
		"junk{\njunk\na 1\n":          true,
		"<html>\n<p>hello</p>\n":      false,
		`[{"numActiveRequests": 3}]`:  false,
		`{"a": 1}`:                    false,
		"OK":                          false,
		"\x1f\x8b\x08\x00":            false,
		string(bytes.Repeat([]byte("junk\n"), 16)) + "a 1\n": false,
	} {
		assert.Equal(t, want, isMetricsPage([]byte(text)), "%q", text)
	}
}
