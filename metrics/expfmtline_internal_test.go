package metrics

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestParserPanic has expfmt panic, as its zero TextParser does on any line.
func TestParserPanic(t *testing.T) {
	l := expfmtLine{ready: true}
	var s sample
	require.ErrorContains(t, l.read([]byte(`a{b="c"} 1`), &s), "text parser panicked")

	require.NoError(t, l.read([]byte(`a{b="c"} 1`), &s), "the next line has a parser that works")
	assert.Equal(t, sample{labels: []label{{[]byte("b"), []byte("c")}}, value: 1}, s)
}
