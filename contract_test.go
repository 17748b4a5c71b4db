package warmroute_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// roundTripper is a base transport made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newRouter(t *testing.T, endpoints []warmroute.Endpoint, opts ...warmroute.Option) *warmroute.Router {
	t.Helper()
	r, err := warmroute.New(endpoints, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	return r
}

func at(urls ...string) []warmroute.Endpoint {
	var out []warmroute.Endpoint
	for _, u := range urls {
		out = append(out, warmroute.Endpoint{URL: u})
	}
	return out
}

// inFlight is the sum over the replicas, which must be the pool's own count.
func inFlight(t *testing.T, r *warmroute.Router) int {
	t.Helper()
	n := 0
	for _, p := range r.Stats().Pools {
		sum := 0
		for _, m := range p.Replicas {
			sum += m.InFlight
		}
		assert.Equal(t, p.InFlight, sum)
		n += sum
	}
	return n
}

// trackedBody counts its closes.
type trackedBody struct {
	io.Reader
	closes atomic.Int32
}

func tracked(s string) *trackedBody { return &trackedBody{Reader: strings.NewReader(s)} }

func (b *trackedBody) Close() error { b.closes.Add(1); return nil }

func post(t *testing.T, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://model/v1/chat/completions", body)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	return req
}

func answer(status int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: body, ContentLength: -1}
}

func TestContractRequestIsUntouched(t *testing.T) {
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://replica:8000/prefix", Ranks: 2}})
	var sent *http.Request
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		sent = r
		got, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, `{"a":1}`, string(got))
		assert.NoError(t, r.Body.Close())
		return answer(200, http.NoBody), nil
	})
	body := tracked(`{"a":1}`)
	req := post(t, body)
	req.URL.Path, req.URL.RawPath, req.URL.RawQuery, req.URL.Fragment = "/a b/c", "/a%20b/c", "q=1", "f"
	req.Host = "asked.example"
	req.ContentLength = 7
	req.Trailer = http.Header{"T": nil}
	req.TransferEncoding = []string{"identity"}
	req.Header["X-Multi"] = []string{"1", "2"}
	before, beforeURL, beforeHeader := *req, *req.URL, req.Header.Clone()

	resp, err := router.Transport(base).RoundTrip(req)
	require.NoError(t, err)
	assert.Same(t, req, resp.Request)
	assert.Equal(t, before, *req)
	assert.Equal(t, beforeURL, *req.URL)
	assert.Equal(t, beforeHeader, req.Header)
	assert.Same(t, body, req.Body)

	assert.Equal(t, "http://replica:8000/prefix/a%20b/c?q=1#f", sent.URL.String())
	assert.Equal(t, "asked.example", sent.Host, "a Host that the caller set is kept")
	assert.Equal(t, int64(7), sent.ContentLength)
	assert.Equal(t, req.Trailer, sent.Trailer)
	assert.Equal(t, req.TransferEncoding, sent.TransferEncoding)
	rank := sent.Header.Values("X-data-parallel-rank")
	assert.Len(t, rank, 1)
	header := maps.Clone(sent.Header)
	delete(header, "X-Data-Parallel-Rank")
	assert.Equal(t, beforeHeader, header)
}

func TestContractHostFollowsTheReplica(t *testing.T) {
	router := newRouter(t, at("http://replica:8000"))
	var host string
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		host = r.Host
		return answer(200, nil), nil
	})
	req := post(t, nil)
	_, err := router.Transport(base).RoundTrip(req)
	require.NoError(t, err)
	assert.Empty(t, host)
	assert.Equal(t, "model", req.Host)
}

func TestContractPaths(t *testing.T) {
	for _, tc := range []struct{ endpoint, path, want string }{
		{"http://r", "/v1/models", "http://r/v1/models"},
		{"http://r/", "/v1/models", "http://r/v1/models"},
		{"http://r/p", "/v1/a%2Fb", "http://r/p/v1/a%2Fb"},
		{"http://r/p%2Fq", "/v1", "http://r/p%2Fq/v1"},
		{"http://r/p", "", "http://r/p/"},
		{"http://r", "", "http://r"},
		{"http://r/p", "/", "http://r/p/"},
		{"http://r/p", "//x", "http://r/p//x"},
	} {
		var sent string
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			sent = r.URL.String()
			return answer(200, nil), nil
		})
		req, err := http.NewRequest(http.MethodGet, "http://model"+tc.path, nil)
		require.NoError(t, err)
		_, err = newRouter(t, at(tc.endpoint)).Transport(base).RoundTrip(req)
		require.NoError(t, err)
		assert.Equal(t, tc.want, sent, "%s below %s", tc.path, tc.endpoint)
	}
}

func TestContractBodyIsAlwaysClosed(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	reads := roundTripper(func(r *http.Request) (*http.Response, error) {
		_, err := io.Copy(io.Discard, r.Body)
		return answer(200, http.NoBody), errors.Join(err, r.Body.Close())
	})
	unread := roundTripper(func(r *http.Request) (*http.Response, error) {
		return answer(200, http.NoBody), r.Body.Close()
	})
	dialError := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for name, tc := range map[string]struct {
		base     roundTripper
		ctx      context.Context
		model    string
		header   [2]string
		drain    bool
		close    bool
		endpoint []warmroute.Endpoint
		opts     []warmroute.Option
		wantErr  error
	}{
		"read and closed": {base: reads},
		"closed unread":   {base: unread},
		"context ended":   {base: reads, ctx: cancelled, wantErr: context.Canceled},
		"router closed":   {base: reads, close: true, wantErr: warmroute.ErrClosed},
		"no replica":      {base: reads, drain: true, wantErr: warmroute.ErrNoReplica},
		"unknown model":   {base: reads, endpoint: []warmroute.Endpoint{{URL: "http://a", Model: "x"}}, model: "y", wantErr: warmroute.ErrUnknownModel},
		"rank refused":    {base: reads, header: [2]string{"X-data-parallel-rank", "0"}, opts: []warmroute.Option{warmroute.WithClientRank(warmroute.RefuseClientRank)}, wantErr: warmroute.ErrClientRank},
		"error, body closed": {base: func(r *http.Request) (*http.Response, error) {
			return nil, errors.Join(io.ErrUnexpectedEOF, r.Body.Close())
		}, wantErr: io.ErrUnexpectedEOF},
		"error, body left open": {base: func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, wantErr: io.ErrUnexpectedEOF},
		"dial error": {base: func(r *http.Request) (*http.Response, error) {
			return nil, errors.Join(dialError, r.Body.Close())
		}, wantErr: dialError},
		"dial error, no failover": {base: func(r *http.Request) (*http.Response, error) {
			return nil, errors.Join(dialError, r.Body.Close())
		}, opts: []warmroute.Option{warmroute.WithFailover(false)}, wantErr: dialError},
	} {
		t.Run(name, func(t *testing.T) {
			endpoints := tc.endpoint
			if endpoints == nil {
				endpoints = at("http://a", "http://b")
			}
			router := newRouter(t, endpoints, tc.opts...)
			if tc.drain {
				require.NoError(t, router.Drain("http://a"))
				require.NoError(t, router.Drain("http://b"))
			}
			if tc.close {
				require.NoError(t, router.Close())
			}
			body := tracked(`{"model":"` + tc.model + `"}`)
			req := post(t, body)
			if tc.ctx != nil {
				req = req.WithContext(tc.ctx)
			}
			if tc.header[0] != "" {
				req.Header.Set(tc.header[0], tc.header[1])
			}
			resp, err := router.Transport(tc.base).RoundTrip(req)
			if tc.wantErr == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, tc.wantErr)
				assert.Nil(t, resp, "never both")
			}
			assert.Equal(t, int32(1), body.closes.Load(), "closed once")
			assert.Zero(t, inFlight(t, router))
		})
	}
}

// The base may close the body after it has returned.
func TestContractBodyClosedLate(t *testing.T) {
	router := newRouter(t, at("http://a"))
	var kept io.ReadCloser
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		kept = r.Body
		return answer(200, http.NoBody), nil
	})
	body := tracked("{}")
	_, err := router.Transport(base).RoundTrip(post(t, body))
	require.NoError(t, err)
	assert.Zero(t, body.closes.Load(), "it is the base's to close")
	got, err := io.ReadAll(kept)
	require.NoError(t, err)
	assert.Equal(t, "{}", string(got))
	require.NoError(t, kept.Close())
	require.NoError(t, kept.Close())
	assert.Equal(t, int32(1), body.closes.Load())
}

// closedByServer is a proxied request's body after http.Server has closed it,
// which it does when the answer's header goes out.
type closedByServer struct{ data string }

func (b *closedByServer) Read(p []byte) (int, error) {
	if b.data == "" {
		return 0, http.ErrBodyReadAfterClose
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}

func (b *closedByServer) Close() error { return nil }

func TestContractAnAnswerIsNotCutOffByTheLastRead(t *testing.T) {
	router := newRouter(t, at("http://a"))
	for _, header := range []string{"X-Session-Id", "X-Other"} { // not peeked, peeked
		for length, want := range map[int64]error{7: nil, 8: http.ErrBodyReadAfterClose, -1: http.ErrBodyReadAfterClose} {
			req := post(t, &closedByServer{data: `{"a":1}`})
			req.ContentLength = length
			req.Header.Set(header, "s")
			_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
				got, err := io.ReadAll(r.Body)
				assert.Equal(t, `{"a":1}`, string(got))
				assert.ErrorIs(t, err, want, "%s, %d", header, length)
				return answer(200, nil), r.Body.Close()
			})).RoundTrip(req)
			require.NoError(t, err)
		}
	}
}

func TestContractErrorsAreNotWrapped(t *testing.T) {
	router := newRouter(t, at("http://a"))
	want := errors.New("broken")
	_, err := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) { return nil, want })).RoundTrip(post(t, nil))
	assert.Same(t, want, err)
}

func TestContractNilAnswers(t *testing.T) {
	router := newRouter(t, at("http://a"))
	resp, err := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200}, nil
	})).RoundTrip(post(t, nil))
	require.NoError(t, err)
	assert.Equal(t, http.NoBody, resp.Body, "a nil body becomes an empty one")
	resp, err = router.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
		return nil, nil
	})).RoundTrip(post(t, nil))
	require.Error(t, err)
	assert.Nil(t, resp)
	assert.Zero(t, inFlight(t, router))
}

func TestContractResponseIsTheBases(t *testing.T) {
	router := newRouter(t, at("http://a"))
	inner := answer(201, io.NopCloser(strings.NewReader("hello")))
	inner.Header.Set("A", "b")
	inner.Uncompressed = true
	inner.Proto = "HTTP/9"
	resp, err := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) { return inner, nil })).RoundTrip(post(t, nil))
	require.NoError(t, err)
	assert.Same(t, inner, resp)
	assert.True(t, resp.Uncompressed)
	assert.Equal(t, http.Header{"A": {"b"}}, resp.Header, "no header is added unless asked")
	assert.Equal(t, int64(-1), resp.ContentLength)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(got))
}

func TestContractStatusIsNotAnError(t *testing.T) {
	router := newRouter(t, at("http://a"))
	for status, failed := range map[int]uint64{200: 0, 301: 0, 404: 0, 429: 0, 500: 1, 503: 1} {
		before := router.Stats().Pools[0].Requests.Failed
		resp, err := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
			return answer(status, io.NopCloser(strings.NewReader("x"))), nil
		})).RoundTrip(post(t, nil))
		require.NoError(t, err)
		assert.Equal(t, status, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, failed, router.Stats().Pools[0].Requests.Failed-before, "%d", status)
	}
}

type idleCloser struct {
	roundTripper
	closed int
}

func (c *idleCloser) CloseIdleConnections() { c.closed++ }

func TestContractCloseIdleConnections(t *testing.T) {
	router := newRouter(t, at("http://a"))
	base := &idleCloser{}
	client := &http.Client{Transport: router.Transport(base)}
	client.CloseIdleConnections()
	assert.Equal(t, 1, base.closed)
	router.Transport(roundTripper(nil)).CloseIdleConnections() // has none
}

// Over a real connection: trailers, events as they come, a real 101.
func TestContractTrailers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Sum", "42")
	}))
	defer server.Close()
	router := newRouter(t, at(server.URL))
	resp, err := (&http.Client{Transport: router.Transport(nil)}).Get("http://model/")
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "42", resp.Trailer.Get("X-Sum"))
	require.NoError(t, resp.Body.Close())
}

func TestContractEventsComeAtOnce(t *testing.T) {
	next := make(chan struct{})
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			_, _ = io.WriteString(w, "data: {}\n\n")
			w.(http.Flusher).Flush()
			<-next
		}
		<-r.Context().Done()
		close(gone)
	}))
	defer server.Close()
	router := newRouter(t, at(server.URL))
	ctx, cancel := context.WithCancel(t.Context())
	req := post(t, strings.NewReader("{}")).WithContext(ctx)
	resp, err := router.Transport(nil).RoundTrip(req)
	require.NoError(t, err)
	lines := bufio.NewReader(resp.Body)
	for range 3 {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "data: {}\n", line)
		_, err = lines.ReadString('\n')
		require.NoError(t, err)
		next <- struct{}{}
	}
	cancel()
	_, err = lines.ReadByte()
	require.ErrorIs(t, err, context.Canceled)
	<-gone
	// The context's end may be at it yet.
	require.Eventually(t, func() bool {
		p := router.Stats().Pools[0]
		return p.InFlight == 0 && p.Replicas[0].InFlight == 0
	}, time.Minute, time.Millisecond)
}

func TestContractConcurrentUse(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		_, _ = w.Write(got)
	}))
	defer server.Close()
	router := newRouter(t, []warmroute.Endpoint{{URL: server.URL, Ranks: 4}})
	client := &http.Client{Transport: router.Transport(nil)}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				resp, err := client.Post("http://model/v1/completions", "application/json", strings.NewReader(`{"session":"x"}`))
				if !assert.NoError(t, err) {
					return
				}
				got, err := io.ReadAll(resp.Body)
				assert.NoError(t, err)
				assert.Equal(t, `{"session":"x"}`, string(got))
				assert.NoError(t, resp.Body.Close())
			}
		})
	}
	wg.Wait()
	assert.Zero(t, inFlight(t, router))
	assert.Equal(t, uint64(320), router.Stats().Pools[0].Requests.Unkeyed)
}
