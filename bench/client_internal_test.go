package bench

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func read(stream string) (reply, error) {
	return readStream(&http.Response{Body: io.NopCloser(strings.NewReader(stream))})
}

const (
	role    = `data: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	token   = `data: {"choices":[{"delta":{"content":"owl "}}]}` + "\n\n"
	think   = `data: {"choices":[{"delta":{"reasoning":"hm"}}]}` + "\n\n"
	counted = `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n"
	done    = "data: [DONE]\n\n"
)

func TestReadStream(t *testing.T) {
	r, err := read(": comment\n\n" + role + token + token + counted + done)
	require.NoError(t, err)
	assert.Equal(t, "owl owl ", r.text)
	assert.Equal(t, usage{known: true, knowsCached: true, prompt: 7, cached: 4, answer: 2}, r.usage)
	assert.False(t, r.first.IsZero())

	r, err = read(think + counted + done)
	require.NoError(t, err)
	assert.Empty(t, r.text, "what the model thinks is no text")
	assert.False(t, r.first.IsZero(), "but a token")

	r, err = read(role + counted + done)
	require.NoError(t, err, "tokens without a text")
	assert.True(t, r.first.IsZero())

	r, err = read(strings.ReplaceAll(token+counted, "{\"choices\"", "{\"error\":null,\"choices\"") + done)
	require.NoError(t, err, "no error, in as many words")
	assert.Equal(t, "owl ", r.text)

	for name, stream := range map[string]string{
		"broken off": role + token,
		"no token":   role + done,
		"an error":   role + token + `data: {"error":{"message":"dead"}}` + "\n\n" + done,
		"no JSON":    "data: {\n\n",
		"no stream":  "",
	} {
		_, err := read(stream)
		assert.Error(t, err, name)
	}
}

func FuzzReadStream(f *testing.F) {
	f.Add(role + token + think + counted + done)
	f.Add("data: null\n")
	f.Fuzz(func(t *testing.T, stream string) {
		r, err := read(stream)
		if err == nil {
			assert.False(t, r.first.IsZero() && r.usage.answer == 0)
			assert.Contains(t, stream, "[DONE]")
		}
	})
}
