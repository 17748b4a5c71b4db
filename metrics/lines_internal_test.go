package metrics

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestParserPanic has expfmt panic, as its zero TextParser does on any line.
func TestParserPanic(t *testing.T) {
	p := lineParser{ready: true}
	line := rawLine{number: 7, text: []byte(`a{b="c"} 1`)}
	_, ok := p.parse(line)
	require.False(t, ok)
	require.ErrorContains(t, p.err(), "1 unreadable lines, first line 7: text parser panicked")

	s, ok := p.parse(line)
	require.True(t, ok, "the next line has a parser that works")
	assert.Equal(t, sample{labels: []label{{"b", "c"}}, value: 1}, s)
}
