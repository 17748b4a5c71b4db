package bench

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func texts(h *history) []string {
	var all []string
	for _, m := range h.messages {
		all = append(all, m.text)
	}
	return all
}

func TestHistoryIsCutAtItsEnd(t *testing.T) {
	for _, test := range []struct {
		cut  int
		want []string
	}{
		{0, []string{"system", "first", "second"}},
		{2, []string{"system", "first", "seco"}},
		{6, []string{"system", "first"}},
		{8, []string{"system", "fir"}},
		{CutAll, []string{"system"}},
	} {
		var h history
		h.add(newMessage("system", "system"))
		h.add(newMessage("user", "first"))
		h.add(newMessage("assistant", "second"))
		h.cut(test.cut)
		assert.Equal(t, test.want, texts(&h), test.cut)
	}
}

func TestRequest(t *testing.T) {
	var h history
	h.add(newMessage("system", `a "quoted" word`))
	var got struct {
		Model     string
		Messages  []struct{ Role, Content string }
		MaxTokens int  `json:"max_tokens"`
		Stream    bool `json:"stream"`
		IgnoreEOS bool `json:"ignore_eos"`
		Options   struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	require.NoError(t, json.Unmarshal(h.request("m", newMessage("user", "hi"), 9, `,"ignore_eos":true`), &got))
	assert.Equal(t, "m", got.Model)
	assert.Equal(t, []struct{ Role, Content string }{{"system", `a "quoted" word`}, {"user", "hi"}}, got.Messages)
	assert.Equal(t, 9, got.MaxTokens)
	assert.True(t, got.Stream && got.Options.Usage && got.IgnoreEOS)
}

func TestWords(t *testing.T) {
	long := string(appendWords(nil, named("a"), 403))
	assert.Len(t, long, 403)
	assert.Equal(t, long[:100], string(appendWords(nil, named("a"), 100)), "the shorter is a prefix of the longer")
	assert.NotEqual(t, long[:100], string(appendWords(nil, named("b"), 100)))
	seen := map[string]bool{}
	for b := appendWords(nil, rand.New(rand.NewPCG(1, 1)), 4*10_000); len(b) > 0; b = b[wordBytes:] {
		seen[string(b[:wordBytes])] = true
	}
	assert.Len(t, seen, len(someWords)/wordBytes)
	assert.Len(t, someWords, 64*wordBytes)
}
