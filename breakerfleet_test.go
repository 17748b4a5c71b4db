package warmroute_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

// goodStream is an answer as it should be.
const goodStream = `data: {"choices":[{"index":0,"delta":{"content":"x"}}]}` + "\n\n" +
	`data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}}}` + "\n\ndata: [DONE]\n\n"

// reply is an answer with a Content-Type.
func reply(status int, contentType string, body io.Reader) *http.Response {
	resp := answer(status, io.NopCloser(body))
	resp.Header.Set("Content-Type", contentType)
	return resp
}

func streamed(body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return reply(200, "text/event-stream", strings.NewReader(body)), nil
	}
}

func status(code int) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return reply(code, "application/json", strings.NewReader(`{}`)), nil
	}
}

var errReset = errors.New("connection reset by peer")

func reset(*http.Request) (*http.Response, error) { return nil, errReset }

// fleet is a base transport whose hosts behave each in their own way.
type fleet struct {
	mu    sync.Mutex
	hosts map[string]func(*http.Request) (*http.Response, error) // well without one
	down  map[string]bool                                        // cannot be reached
	got   []string
}

func (f *fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Host
	if rank := r.Header.Get(replica.RankHeader); rank != "" {
		host += "@" + rank
	}
	f.mu.Lock()
	f.got = append(f.got, host)
	do := f.hosts[host]
	if do == nil {
		do = f.hosts[r.URL.Host]
	}
	down := f.down[r.URL.Host]
	f.mu.Unlock()
	if down {
		if r.Body != nil {
			_ = r.Body.Close() // unread, as http.Transport does
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	if do == nil {
		do = streamed(goodStream)
	}
	if r.Body != nil {
		_, err := io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	return do(r)
}

func (f *fleet) set(host string, do func(*http.Request) (*http.Response, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hosts == nil {
		f.hosts = map[string]func(*http.Request) (*http.Response, error){}
	}
	f.hosts[host] = do
}

// sent is where requests went since it was last asked.
func (f *fleet) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.got
	f.got = nil
	return got
}

// ask sends a turn and reads its answer to the end.
func ask(t *testing.T, transport http.RoundTripper, session string) (int, error) {
	t.Helper()
	req := post(t, strings.NewReader(`{"model":"m"}`))
	if session != "" {
		req.Header.Set("X-Session-Id", session)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, err
}

// steadyBreaker opens for exactly a second first.
func steadyBreaker(cfg replica.BreakerConfig) warmroute.Option {
	cfg.Jitter = func() float64 { return 0 }
	return warmroute.WithBreaker(cfg)
}

// brokenReader ends with an error.
type brokenReader struct{ io.Reader }

func (b brokenReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = errReset
	}
	return n, err
}
