package gatewaytest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// failed is the error that a client gets.
type failed struct {
	status     int
	retryAfter string
	Error      struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    int    `json:"code"`
	} `json:"error"`
}

// fails has a turn fail.
func (f *fleet) fails(ctx context.Context, body io.Reader) failed {
	f.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+chat.path, body)
	require.NoError(f.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Session-Id", "s")
	resp, err := f.client.Do(req)
	require.NoError(f.t, err)
	defer resp.Body.Close()
	return failedWith(f.t, resp)
}

// failedWith reads an error in the shape of the OpenAI APIs.
func failedWith(t *testing.T, resp *http.Response) failed {
	t.Helper()
	got := failed{status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After")}
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	require.NoError(t, json.Unmarshal(answer, &got), "%s", answer)
	assert.Equal(t, got.status, got.Error.Code)
	assert.NotEmpty(t, got.Error.Message)
	return got
}

const hello = `{"model":"sim","max_tokens":4,"messages":[{"role":"user","content":"hello"}]}`

// passesUnchanged looks at what arrives at the engine, and at the client.
func (g Gateway) passesUnchanged(t *testing.T) {
	var got *http.Request
	var gotBody []byte
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		got, gotBody = r, body
		w.Header().Set("X-Request-Id", "r")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "h")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, " as it is ")
	}))
	t.Cleanup(engine.Close)
	f := &fleet{t: t}
	f.route(g, []warmroute.Endpoint{{URL: engine.URL + "/base", Ranks: 2}})

	const body = "{ \"model\" : \"sim\" ,\n\"unknown\":1e3, \"text\":\"\u00fc\\u00fc\" }\n"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/v1/chat/completions?beta=true&x=%2F", strings.NewReader(body))
	require.NoError(t, err)
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Authorization": {"Bearer k"}, "Anthropic-Version": {"2023-06-01"},
		"X-Many": {"1", "2"}, "X-Data-Parallel-Rank": {"1"}, "Connection": {"X-Hop"}, "X-Hop": {"h"},
	}
	resp, err := f.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)

	assert.Equal(t, "/base/v1/chat/completions?beta=true&x=%2F", got.URL.RequestURI())
	assert.Equal(t, body, string(gotBody))
	assert.Equal(t, int64(len(body)), got.ContentLength)
	assert.Equal(t, strings.TrimPrefix(engine.URL, "http://"), got.Host)
	for name, want := range map[string][]string{
		"Authorization": {"Bearer k"}, "Anthropic-Version": {"2023-06-01"}, "X-Many": {"1", "2"},
		"X-Data-Parallel-Rank": {"1"}, "X-Hop": nil,
	} {
		assert.Equal(t, want, got.Header.Values(name), name)
	}
	assert.NotEmpty(t, got.Header.Get("X-Forwarded-For"))
	assert.Equal(t, http.StatusAccepted, resp.StatusCode)
	assert.Equal(t, " as it is ", string(answer))
	assert.Equal(t, "r", resp.Header.Get("X-Request-Id"))
	assert.Empty(t, resp.Header.Get("X-Hop"), "hop by hop")
}

func (g Gateway) refusalPasses(t *testing.T) {
	f := g.start(t, 1, fakevllm.Config{})
	got := f.fails(t.Context(), strings.NewReader(`{"model":"other","messages":[{"role":"user","content":"x"}]}`))
	assert.Equal(t, http.StatusNotFound, got.status)
	assert.Equal(t, "The model `other` does not exist.", got.Error.Message)
	assert.Zero(t, f.pool().Requests.Failed)
}

func (g Gateway) noReplica(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close()) // so that nobody listens there
	f := &fleet{t: t}
	f.route(g, []warmroute.Endpoint{{URL: "http://" + listener.Addr().String()}})
	got := f.fails(t.Context(), strings.NewReader(hello))
	assert.Equal(t, http.StatusServiceUnavailable, got.status)
	assert.Equal(t, "1", got.retryAfter)
	assert.NotContains(t, got.Error.Message, "127.0.0.1", "addresses are the operator's business")
	assert.Equal(t, uint64(1), f.pool().Requests.Failed)
}

func (g Gateway) unknownModel(t *testing.T) {
	f := &fleet{t: t}
	f.route(g, []warmroute.Endpoint{{URL: "http://127.0.0.1:9", Model: "known"}})
	got := f.fails(t.Context(), strings.NewReader(hello))
	if g.BodyUnseen { // the only pool has it, where nobody listens
		assert.Equal(t, http.StatusServiceUnavailable, got.status)
		return
	}
	assert.Equal(t, http.StatusNotFound, got.status)
	assert.Contains(t, got.Error.Message, "sim")
	assert.Equal(t, uint64(1), f.router.Stats().UnknownModel)
}

// overloaded fills the queue for room in the only cache.
func (g Gateway) overloaded(t *testing.T) {
	f := &fleet{t: t}
	engine, err := fakevllm.New(fakevllm.Config{Ranks: 1})
	require.NoError(t, err)
	server := httptest.NewServer(engine)
	t.Cleanup(func() {
		server.Close()
		assert.NoError(t, engine.Close())
	})
	f.route(g, []warmroute.Endpoint{{URL: server.URL}}, warmroute.WithResidency(1000), warmroute.WithMaxQueue(1))
	large := warmroute.Request{Session: "holds the room", PromptTokens: 900, MaxTokens: 50}
	usage := warmroute.Usage{Prompt: 900, Completion: 50, Known: true, Measured: true}
	for range 70 { // nobody waits before it is known what turns are like
		lease, err := f.router.Route(t.Context(), warmroute.Request{PromptTokens: 900, MaxTokens: 50})
		require.NoError(t, err)
		lease.Answered()
		lease.Done(warmroute.Result{Usage: usage})
	}
	holder, err := f.router.Route(t.Context(), large)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		large.Session = "waits for room"
		lease, err := f.router.Route(ctx, large)
		if err == nil {
			lease.Done(warmroute.Result{NoTokens: true})
		}
		waited <- err
	}()
	Eventually(t, "one waits", func() bool { return f.pool().Queue.Waiting == 1 })
	got := f.fails(t.Context(), strings.NewReader(strings.Replace(hello, "hello", strings.Repeat("hello ", 600), 1)))
	assert.Equal(t, http.StatusTooManyRequests, got.status)
	assert.Equal(t, "1", got.retryAfter)
	assert.Equal(t, uint64(1), f.pool().Queue.Overloaded)
	cancel()
	require.ErrorIs(t, <-waited, context.Canceled)
	holder.Done(warmroute.Result{Usage: usage})
}

func (g Gateway) bodyTooLarge(t *testing.T) {
	f := g.start(t, 1, fakevllm.Config{})
	large := strings.Replace(hello, "hello", strings.Repeat("hello ", maxBody/6+1), 1)
	for name, body := range map[string]io.Reader{
		"length known":   strings.NewReader(large),
		"length unknown": struct{ io.Reader }{strings.NewReader(large)},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+chat.path, body)
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			conn, err := net.Dial("tcp", req.URL.Host)
			require.NoError(t, err)
			defer conn.Close()
			// Some servers close the connection in the middle of the body; what
			// they said before is there all the same.
			_ = req.Write(conn)
			resp, err := http.ReadResponse(bufio.NewReader(conn), req)
			require.NoError(t, err)
			defer resp.Body.Close()
			assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
			failedWith(t, resp)
		})
	}
	assert.Zero(t, f.ranks().Requests)
	assert.Zero(t, f.pool().Requests.Failed, "no replica's failure")
}
