package realvllm_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// api is one of the shapes in which an agent talks.
type api struct {
	name, path string
	messages   bool // Anthropic's shape
}

var apis = []api{
	{name: "chat completions", path: "/v1/chat/completions"},
	{name: "messages", path: "/v1/messages", messages: true},
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// conversation is an agent: it sends its whole history again every turn.
type conversation struct {
	api     api
	model   string
	answer  int
	header  http.Header
	meta    map[string]string
	system  string
	history []message
	rnd     *rand.Rand
	id      string
}

// newConversation makes one of the numbered conversations. All of a run share
// the system prompt; the first message is the conversation's own. Even ones
// name their session in a header, odd ones in the body, as Claude Code does.
func newConversation(model string, a api, number, words, answer int) *conversation {
	c := &conversation{api: a, model: model, answer: answer, header: http.Header{}, rnd: rand.New(rand.NewPCG(uint64(number), 1))}
	c.id = fmt.Sprintf("%08x-0000-4000-8000-%012x", c.rnd.Uint32(), number)
	switch {
	case number%2 == 1:
		c.meta = map[string]string{"user_id": fmt.Sprintf(`{"device_id":"d","account_uuid":"","session_id":"%s"}`, c.id)}
	case a.messages:
		c.header.Set("X-Claude-Code-Session-Id", c.id)
	default:
		c.header.Set("X-Session-Id", c.id)
	}
	c.system = text(rand.New(rand.NewPCG(7, 7)), words)
	c.say("user", text(c.rnd, words))
	return c
}

func (c *conversation) String() string { return c.api.name + " conversation " + c.id }

func (c *conversation) say(role, content string) {
	c.history = append(c.history, message{role, content})
}

// text is so many words of nonsense.
func text(rnd *rand.Rand, words int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	var b strings.Builder
	for range words {
		for range 2 + rnd.IntN(6) {
			b.WriteByte(letters[rnd.IntN(len(letters))])
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// turnResult is what came back: the gateway's word, and the engine's usage.
type turnResult struct {
	replica, outcome           string
	prompt, cached, completion int
	text                       string
}

func (r turnResult) rank(t *testing.T) int {
	t.Helper()
	_, digits, _ := strings.Cut(r.replica, "@")
	rank, err := strconv.Atoi(digits)
	require.NoError(t, err, "replica %q", r.replica)
	return rank
}

// turn sends the history, adds the answer to it and says something more.
func (c *conversation) turn(t *testing.T, g gateway, stream bool) turnResult {
	t.Helper()
	status, got := c.send(t, g, stream)
	assert.Equal(t, http.StatusOK, status)
	assert.Positive(t, got.prompt)
	assert.GreaterOrEqual(t, got.cached, 0, "start the engine with --enable-prompt-tokens-details")
	c.say("assistant", got.text)
	c.say("user", text(c.rnd, 30))
	return got
}

func (c *conversation) send(t *testing.T, g gateway, stream bool) (int, turnResult) {
	t.Helper()
	body := map[string]any{"model": c.model, "stream": stream, "max_tokens": c.answer, "temperature": 0}
	if c.meta != nil {
		body["metadata"] = c.meta
	}
	if c.api.messages {
		body["system"] = c.system
		body["messages"] = c.history
	} else {
		body["messages"] = append([]message{{"system", c.system}}, c.history...)
		if stream {
			body["stream_options"] = map[string]bool{"include_usage": true}
		}
	}
	encoded, err := json.Marshal(body)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+c.api.path, bytes.NewReader(encoded))
	require.NoError(t, err)
	req.Header = c.header.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	got := turnResult{
		replica: resp.Header.Get(warmroute.ReplicaHeader),
		outcome: resp.Header.Get(warmroute.OutcomeHeader),
		cached:  -1,
	}
	if stream && resp.StatusCode == http.StatusOK {
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "[DONE]" {
				got.take(t, []byte(data))
			}
		}
		require.NoError(t, lines.Err())
	} else {
		whole, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		got.take(t, whole)
	}
	return resp.StatusCode, got
}

// take reads an answer, or one event of it, on its own: not with the library's
// reader, which is under test.
func (r *turnResult) take(t *testing.T, data []byte) {
	t.Helper()
	type usage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          *struct {
			Cached *int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		InputTokens  int  `json:"input_tokens"`
		OutputTokens int  `json:"output_tokens"`
		CacheRead    *int `json:"cache_read_input_tokens"`
		CacheCreated int  `json:"cache_creation_input_tokens"`
	}
	var v struct {
		Choices []struct {
			Message, Delta struct{ Content string }
		}
		Content []struct{ Text string }
		Delta   struct{ Text string }
		Usage   *usage
	}
	require.NoError(t, json.Unmarshal(data, &v), "%s", data)
	for _, c := range v.Choices {
		r.text += c.Message.Content + c.Delta.Content
	}
	for _, c := range v.Content {
		r.text += c.Text
	}
	r.text += v.Delta.Text
	switch u := v.Usage; {
	case u == nil:
	case u.Details != nil && u.Details.Cached != nil:
		r.prompt, r.cached, r.completion = u.PromptTokens, *u.Details.Cached, u.CompletionTokens
	case u.CacheRead != nil:
		r.cached = *u.CacheRead
		r.prompt = u.InputTokens + r.cached + u.CacheCreated
		r.completion = u.OutputTokens
	}
}
