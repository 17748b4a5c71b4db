package main

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// TestStream has a client like that of run stream: each token comes when the
// engine has it, and a client that leaves ends its run there.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := fakevllm.New(fakevllm.Config{Ranks: 4, StepTime: 10 * time.Millisecond})
		require.NoError(t, err)
		defer engine.Close()
		router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://simulated", Ranks: 4}})
		require.NoError(t, err)
		defer router.Close()
		client := &http.Client{Transport: router.Transport(engine)}

		stream := func(ctx context.Context, tokens string) *http.Response {
			body := `{"stream":true,"max_tokens":` + tokens + `,"messages":[{"role":"user","content":"hello"}],"stream_options":{"include_usage":true}}`
			req, err := http.NewRequestWithContext(warmroute.WithSession(ctx, "conversation"), http.MethodPost,
				"http://vllm/v1/chat/completions", strings.NewReader(body))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			resp, err := client.Do(req)
			require.NoError(t, err)
			return resp
		}

		resp := stream(t.Context(), "100")
		start, gap, tokens := time.Now(), time.Duration(0), 0
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if strings.Contains(lines.Text(), `"content":"`) && !strings.Contains(lines.Text(), `"content":""`) {
				tokens++
				gap = max(gap, time.Since(start))
				start = time.Now()
			}
		}
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 100, tokens)
		assert.Less(t, gap, 100*time.Millisecond, "none is held back")
		assert.Equal(t, uint64(100), router.Stats().Pools[0].Tokens.Completion)

		ctx, cancel := context.WithCancel(t.Context())
		resp = stream(ctx, "1000")
		defer resp.Body.Close()
		cancel()
		synctest.Wait()
		pool := router.Stats().Pools[0]
		assert.Zero(t, pool.InFlight)
		assert.Equal(t, uint64(1), pool.Requests.Sticky)
		assert.Zero(t, pool.Requests.Failed)
	})
}
