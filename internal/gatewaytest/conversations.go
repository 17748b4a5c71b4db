package gatewaytest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

// api is one of the engine's APIs.
type api struct {
	path string
	// body is a request with these user messages.
	body func(users []string, stream bool, maxTokens int) map[string]any
}

func turns(users []string) []map[string]string {
	var messages []map[string]string
	for i, text := range users {
		if i > 0 {
			messages = append(messages, map[string]string{"role": "assistant", "content": "I see."})
		}
		messages = append(messages, map[string]string{"role": "user", "content": text})
	}
	return messages
}

var apis = []api{chat, {
	"/v1/completions", func(users []string, stream bool, maxTokens int) map[string]any {
		return withUsage(map[string]any{"model": "sim", "prompt": strings.Join(users, "\n"), "stream": stream, "max_tokens": maxTokens})
	},
}, {
	"/v1/messages", func(users []string, stream bool, maxTokens int) map[string]any {
		return map[string]any{"model": "sim", "messages": turns(users), "stream": stream, "max_tokens": maxTokens}
	},
}, {
	"/v1/responses", func(users []string, stream bool, maxTokens int) map[string]any {
		return map[string]any{"model": "sim", "input": turns(users), "stream": stream, "max_output_tokens": maxTokens}
	},
}}

var chat = api{"/v1/chat/completions", func(users []string, stream bool, maxTokens int) map[string]any {
	return withUsage(map[string]any{"model": "sim", "messages": turns(users), "stream": stream, "max_tokens": maxTokens})
}}

func withUsage(body map[string]any) map[string]any {
	if body["stream"] == true {
		body["stream_options"] = map[string]bool{"include_usage": true}
	}
	return body
}

// ask sends a turn; the answer's body is the caller's.
func (f *fleet) ask(ctx context.Context, a api, session string, users []string, stream bool, maxTokens int) (*http.Response, error) {
	body, err := json.Marshal(a.body(users, stream, maxTokens))
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+a.path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if session != "" {
		req.Header.Set("X-Session-Id", session)
	}
	return f.client.Do(req)
}

// text is a message of some length that no other conversation has.
func text(session string, turn int) string {
	return strings.Repeat(fmt.Sprintf("%s says in turn %d: tell me more. ", session, turn), 30)
}

func (g Gateway) conversationsStay(t *testing.T) {
	const conversations, rounds = 20, 3
	for _, a := range apis {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream=%v", strings.TrimPrefix(a.path, "/v1/"), stream), func(t *testing.T) {
				f := g.start(t, 2, fakevllm.Config{})
				var wg sync.WaitGroup
				for c := range conversations {
					wg.Go(func() {
						session := fmt.Sprint("conversation-", c)
						var users []string
						for turn := range rounds {
							users = append(users, text(session, turn))
							if err := f.complete(a, session, users, stream); err != nil {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
				f.stayed(conversations, rounds)
			})
		}
	}
}

// complete has one turn answered to its end.
func (f *fleet) complete(a api, session string, users []string, stream bool) error {
	resp, err := f.ask(f.t.Context(), a, session, users, stream, 8)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", resp.Status, answer)
	case stream != strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"):
		return fmt.Errorf("content type %s", resp.Header.Get("Content-Type"))
	case !bytes.Contains(answer, []byte("usage")):
		return fmt.Errorf("no usage in %s", answer)
	}
	return nil
}

// stayed checks that each conversation was on one rank, and that router and
// engines counted the same.
func (f *fleet) stayed(conversations, rounds int) {
	t := f.t
	t.Helper()
	Eventually(t, "nothing is in flight", func() bool { return f.pool().InFlight == 0 })
	pool := f.pool()
	assert.Equal(t, uint64(conversations), pool.Requests.Placed)
	assert.Equal(t, uint64(conversations*(rounds-1)), pool.Requests.Sticky)
	assert.Zero(t, pool.Requests.Failed)
	assert.Zero(t, pool.Tokens.UnmeasuredRequests)
	assert.Equal(t, uint64(conversations*(rounds-1)), pool.Turns.Verified, "%+v", pool.Turns)
	homes := map[string]string{}
	runs := 0
	for i, engine := range f.engines {
		for _, run := range engine.Log() {
			runs++
			home := fmt.Sprint(i, "@", run.Rank)
			if was, ok := homes[run.Session]; ok {
				assert.Equal(t, was, home, run.Session)
			}
			homes[run.Session] = home
		}
	}
	assert.Equal(t, conversations*rounds, runs)
	assert.Len(t, homes, conversations)
	counts := f.ranks()
	assert.Equal(t, uint64(counts.CachedTokens), pool.Tokens.PromptCached)
	assert.Equal(t, uint64(counts.PromptTokens-counts.CachedTokens), pool.Tokens.PromptComputed)
	for _, replica := range pool.Replicas {
		assert.InDelta(t, conversations/len(pool.Replicas), replica.Sessions, 3, "they spread")
	}
}

// streamsAtOnce has the first token at the client while the engine works on.
func (g Gateway) streamsAtOnce(t *testing.T) {
	f := g.start(t, 1, slow())
	resp, err := f.ask(t.Context(), chat, "s", []string{"hello"}, true, 100)
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	require.True(t, lines.Scan())
	assert.Equal(t, 1, f.ranks().Running, "the engine has more to say")
	assert.Equal(t, 1, f.pool().InFlight)
	tokens := 0
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"content":"`) {
			tokens++
		}
	}
	require.NoError(t, lines.Err())
	assert.Equal(t, 100, tokens)
	Eventually(t, "nothing is in flight", func() bool { return f.pool().InFlight == 0 })
	assert.Equal(t, uint64(100), f.pool().Tokens.Completion)
}
