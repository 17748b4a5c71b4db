package minengine_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench/internal/minengine"
)

func TestEngine(t *testing.T) {
	server := httptest.NewServer(&minengine.Engine{Chunks: 3, Interval: time.Millisecond, FailEvery: 3})
	defer server.Close()
	ask := func(body string) *http.Response {
		resp, err := http.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, resp.Body.Close()) })
		return resp
	}
	resp := ask(`{"stream":true}`)
	lines := bufio.NewScanner(resp.Body)
	stamps, last := 0, ""
	for lines.Scan() {
		if at, ok := minengine.Stamp(lines.Bytes()); ok {
			stamps++
			assert.Less(t, time.Since(time.Unix(0, at)), 10*time.Second)
		}
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	require.NoError(t, lines.Err())
	assert.Equal(t, 3, stamps)
	assert.Equal(t, "data: [DONE]", last)

	whole, err := io.ReadAll(ask(`{}`).Body)
	require.NoError(t, err)
	assert.Contains(t, string(whole), `"cached_tokens":32`)
	assert.Equal(t, http.StatusInternalServerError, ask(`{}`).StatusCode)
	page, err := http.Get(server.URL + "/metrics")
	require.NoError(t, err)
	defer page.Body.Close()
	text, err := io.ReadAll(page.Body)
	require.NoError(t, err)
	assert.Contains(t, string(text), `vllm:prompt_tokens_total{engine="0"} 128`)
	assert.Contains(t, string(text), `vllm:generation_tokens_total{engine="0"} 6`)

	for _, line := range []string{"", "data: [DONE]", `data: {"choices":[{"index":0,"delta":{"content":"x"}}]}`, `data: {"choices":[{"index":0,"delta":{"content":"1`} {
		_, ok := minengine.Stamp([]byte(line))
		assert.False(t, ok, line)
	}
}
