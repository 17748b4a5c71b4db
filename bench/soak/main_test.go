package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSoak(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-requests", "1000", "-clients", "16", "-sessions", "50"}, &out, io.Discard), "\n%s", &out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 1+tenths)
	assert.Contains(t, lines[tenths], "1000")
	t.Log("\n" + out.String())
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{{"-requests", "1"}, {"-clients", "0"}, {"-odd"}, {"more"}} {
		require.Error(t, run(t.Context(), args, io.Discard, io.Discard), args)
	}
}

func TestGrowthIsFound(t *testing.T) {
	even := make([]sample, tenths)
	for i := range even {
		even[i] = sample{heap: 10 << 20, goroutines: 10, descriptors: 10}
	}
	require.NoError(t, flat(even))
	for name, grow := range map[string]func(*sample){
		"the heap":         func(s *sample) { s.heap = 13 << 20 },
		"goroutines":       func(s *sample) { s.goroutines = 30 },
		"file descriptors": func(s *sample) { s.descriptors = 30 },
		"in flight":        func(s *sample) { s.inFlight = 1 },
	} {
		grown := append([]sample(nil), even...)
		grow(&grown[tenths-1])
		require.ErrorContains(t, flat(grown), name)
	}
}
