package warmroute_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
)

// sink answers everything with a 200 and notes what it got.
type sink struct {
	t    *testing.T
	last *http.Request
	body string
}

func (s *sink) RoundTrip(r *http.Request) (*http.Response, error) {
	s.last, s.body = r, ""
	if r.Body != nil {
		got, err := io.ReadAll(r.Body)
		assert.NoError(s.t, err)
		assert.NoError(s.t, r.Body.Close())
		s.body = string(got)
	}
	resp := answer(200, http.NoBody)
	resp.Request = r
	return resp, nil
}

func (s *sink) sentTo() string {
	return s.last.URL.Host + "@" + s.last.Header.Get("X-Data-Parallel-Rank")
}

const session = "0f3c9f6e-2a3b-4c5d-8e9f-001122334455"

func TestWhereTheKeyIsFound(t *testing.T) {
	for name, tc := range map[string]struct {
		header  http.Header
		body    string
		ctx     func(context.Context) context.Context
		opts    []warmroute.Option
		unkeyed bool
	}{
		"context": {ctx: func(ctx context.Context) context.Context { return warmroute.WithSession(ctx, "s") }},
		"context, too long": {unkeyed: true, ctx: func(ctx context.Context) context.Context {
			return warmroute.WithSession(ctx, strings.Repeat("x", affinity.MaxKeyLen+1))
		}},
		"context says none": {unkeyed: true, header: http.Header{"X-Session-Id": {"s"}}, ctx: func(ctx context.Context) context.Context { return warmroute.WithSession(ctx, "") }},
		"Claude Code":       {header: http.Header{"X-Claude-Code-Session-Id": {session}}},
		"generic header":    {header: http.Header{"X-Session-Id": {"s"}}},
		"configured header": {header: http.Header{"X-Chat": {"s"}}, opts: []warmroute.Option{warmroute.WithSessionHeader("x-chat")}},
		"configured key":    {body: `{"chat":{"id":"c"}}`, opts: []warmroute.Option{warmroute.WithKey(affinity.JSONPath("chat.id"))}},
		"body, new form":    {body: `{"messages":[{"role":"user","content":"metadata"}],"metadata":{"user_id":"{\"device_id\":\"d\",\"session_id\":\"` + session + `\"}"}}`},
		"body, old form":    {body: `{"metadata":{"user_id":"user_ab_account__session_` + session + `"}}`},
		"a user id":         {body: `{"user":"u","metadata":{"user_id":"u"}}`, unkeyed: true},
		"request id":        {header: http.Header{"X-Request-Id": {"r"}, "X-Trace-Id": {"t"}, "X-User-Id": {"u"}}, unkeyed: true},
		"not JSON":          {body: `{"metadata":`, unkeyed: true},
		"plain text":        {body: `hello`, unkeyed: true},
		"JSON array":        {body: `[{"metadata":{"user_id":"x"}}]`, unkeyed: true},
		"past the limit":    {body: `{"pad":"` + strings.Repeat("x", 100) + `","metadata":{"user_id":"{\"session_id\":\"a\"}"}}`, opts: []warmroute.Option{warmroute.WithPeekLimit(64)}, unkeyed: true},
		"compressed":        {header: http.Header{"Content-Encoding": {"zstd"}}, body: `{"metadata":{"user_id":"{\"session_id\":\"a\"}"}}`, unkeyed: true},
		"another type":      {header: http.Header{"Content-Type": {"multipart/form-data; boundary=x"}}, body: `{"metadata":{"user_id":"{\"session_id\":\"a\"}"}}`, unkeyed: true},
		"JSON with charset": {header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}, body: `{"metadata":{"user_id":"{\"session_id\":\"a\"}"}}`},
		"nothing at all":    {unkeyed: true},
	} {
		t.Run(name, func(t *testing.T) {
			router := newRouter(t, four(), tc.opts...)
			base := &sink{t: t}
			homes := map[string]bool{}
			for range 8 {
				var body io.Reader
				if tc.body != "" {
					body = struct{ io.Reader }{strings.NewReader(tc.body)} // hides GetBody
				}
				req := post(t, body)
				for k, v := range tc.header {
					req.Header[k] = v
				}
				if tc.ctx != nil {
					req = req.WithContext(tc.ctx(req.Context()))
				}
				_, err := router.Transport(base).RoundTrip(req)
				require.NoError(t, err)
				assert.Equal(t, tc.body, base.body, "byte for byte")
				homes[base.sentTo()] = true
			}
			requests := router.Stats().Pools[0].Requests
			if tc.unkeyed {
				assert.Equal(t, warmroute.RequestStats{Unkeyed: 8}, requests)
				assert.Len(t, homes, 4)
			} else {
				assert.Equal(t, warmroute.RequestStats{Placed: 1, Sticky: 7}, requests)
				assert.Len(t, homes, 1)
			}
		})
	}
}

func TestBodyIsNotReadForAHeaderKey(t *testing.T) {
	router := newRouter(t, four())
	unread := &trackedBody{Reader: readerFunc(func([]byte) (int, error) {
		t.Error("body read")
		return 0, io.EOF
	})}
	req := post(t, unread)
	req.Header.Set("X-Session-Id", "s")
	_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		return answer(200, nil), r.Body.Close()
	})).RoundTrip(req)
	require.NoError(t, err)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestModelInTheBody(t *testing.T) {
	endpoints := []warmroute.Endpoint{{URL: "http://x", Model: "x"}, {URL: "http://y", Model: "y"}}
	router := newRouter(t, endpoints, warmroute.WithPeekLimit(1024))
	base := &sink{t: t}
	for body, want := range map[string]string{
		`{"model":"y","messages":[]}`:              "y",
		`{"messages":[{"model":"x"}],"model":"y"}`: "y",
		`{"model":"x"}`:                            "x",
		`{"no":"model"}`:                           "x", // the first pool
		`{"model":7}`:                              "x",
		`not json`:                                 "x",
		`{"p":"` + strings.Repeat("x", 2000) + `","model":"y"}`: "x",
		``: "x",
	} {
		req := post(t, strings.NewReader(body))
		req.Header.Set("X-Session-Id", "s")
		_, err := router.Transport(base).RoundTrip(req)
		require.NoError(t, err)
		assert.Equal(t, want, base.last.URL.Host, body)
		assert.Equal(t, body, base.body)
	}
	_, err := router.Transport(base).RoundTrip(post(t, strings.NewReader(`{"model":"z"}`)))
	require.ErrorIs(t, err, warmroute.ErrUnknownModel)
}

// A connection that the engine had closed before anything was written to it
// makes http.Transport send the request on another, for which it needs GetBody.
func TestGetBodyIsKeptOrRebuilt(t *testing.T) {
	router := newRouter(t, four())
	const text = `{"a":1}`
	whole := func() *http.Request {
		req := post(t, struct{ io.Reader }{strings.NewReader(text)}) // hides GetBody
		req.ContentLength = int64(len(text))                         // as a server's request has it
		return req
	}
	for name, req := range map[string]*http.Request{"kept": post(t, strings.NewReader(text)), "rebuilt": whole()} {
		var getBody func() (io.ReadCloser, error)
		_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
			require.NotNil(t, r.GetBody, name)
			getBody = r.GetBody
			for range 2 {
				body, err := r.GetBody()
				require.NoError(t, err)
				got, err := io.ReadAll(body)
				require.NoError(t, err)
				assert.Equal(t, text, string(got), name)
			}
			return answer(200, nil), r.Body.Close()
		})).RoundTrip(req)
		require.NoError(t, err)
		_, err = getBody()
		assert.Equal(t, name == "kept", err == nil, "ours is let go of when the answer has begun")
	}

	base := &sink{t: t}
	long := post(t, struct{ io.Reader }{strings.NewReader(`{"a":"` + strings.Repeat("x", 1<<20))})
	_, err := newRouter(t, four(), warmroute.WithPeekLimit(10)).Transport(base).RoundTrip(long)
	require.NoError(t, err)
	assert.Nil(t, base.last.GetBody, "not all of it is there")
	assert.Len(t, base.body, 1<<20+6)

	// It takes an idempotency key for leave to send what was sent in part.
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		for _, req := range []*http.Request{whole(), post(t, strings.NewReader(text))} {
			req.Header.Set(header, "k")
			_, err := router.Transport(base).RoundTrip(req)
			require.NoError(t, err)
			assert.Nil(t, base.last.GetBody)
			assert.Equal(t, "k", base.last.Header.Get(header), "the engine's to see")
		}
	}
}

func TestAnEngineNeverSeesAPostTwice(t *testing.T) {
	var seen atomic.Int64
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if seen.Add(1) == 2 { // on a connection that was used before
			conn, _, err := w.(http.Hijacker).Hijack()
			assert.NoError(t, err)
			assert.NoError(t, conn.Close())
		}
	}))
	defer engine.Close()
	router := newRouter(t, at(engine.URL))
	client := &http.Client{Transport: router.Transport(nil)}
	for i := range 2 {
		req, err := http.NewRequest(http.MethodPost, "http://model/v1/completions", strings.NewReader(`{"a":1}`))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "k")
		resp, err := client.Do(req)
		if i == 0 {
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			continue
		}
		require.Error(t, err)
	}
	assert.Equal(t, int64(2), seen.Load())
}

func TestAnErrorInTheBodyComesWhereItWas(t *testing.T) {
	broken := errors.New("client went away")
	router := newRouter(t, four())
	once := false
	failing := readerFunc(func([]byte) (int, error) {
		if once {
			return 0, io.EOF // an error that does not stay
		}
		once = true
		return 0, broken
	})
	_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		got, err := io.ReadAll(r.Body)
		assert.Equal(t, `{"model":"x","mess`, string(got))
		return nil, errors.Join(err, r.Body.Close())
	})).RoundTrip(post(t, io.MultiReader(strings.NewReader(`{"model":"x","mess`), failing)))
	require.ErrorIs(t, err, broken)
	assert.Zero(t, router.Stats().Pools[0].Requests.Failed, "that is the client's doing")
}

func TestPeekingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, four())
		cause := errors.New("too slow")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		reader, writer := io.Pipe()
		req := post(t, reader).WithContext(ctx)
		start := time.Now()
		_, err := router.Transport(roundTripper(nil)).RoundTrip(req)
		require.ErrorIs(t, err, cause)
		assert.Equal(t, time.Second, time.Since(start))
		synctest.Wait()
		_, err = writer.Write([]byte("x"))
		require.ErrorIs(t, err, io.ErrClosedPipe, "the body is closed")
		assert.Zero(t, inFlight(t, router))
	})
}

// A key function may ask for whatever it likes, in any order.
func TestKeyThatAsksForTheModelFirst(t *testing.T) {
	var got []string
	key := func(r *affinity.Request) affinity.Key {
		got = []string{r.Field("model"), r.Field("metadata.chat"), r.Field("model"), r.Field("none"), r.Field("last")}
		return affinity.Key{Session: r.Field("model") + "/" + r.Field("metadata.chat")}
	}
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Model: "m"}}, warmroute.WithKey(key))
	base := &sink{t: t}
	body := `{"model":"m","messages":["` + strings.Repeat("x", 100_000) + `"],"metadata":{"chat":"c1"},"last":"l"}`
	_, err := router.Transport(base).RoundTrip(post(t, struct{ io.Reader }{strings.NewReader(body)}))
	require.NoError(t, err)
	assert.Equal(t, []string{"m", "c1", "m", "", "l"}, got)
	assert.True(t, body == base.body, "byte for byte")
}

// A body that was looked into must not be held for as long as the answer takes.
func TestBodiesAreNotHeldDuringTheAnswer(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	router := newRouter(t, at(server.URL))
	transport := router.Transport(nil)
	before := heap()
	const streams, size = 20, 1 << 20
	for range streams {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		xs := readerFunc(func(p []byte) (int, error) { // holds nothing itself
			for i := range p {
				p[i] = 'x'
			}
			return len(p), nil
		})
		body := io.MultiReader(strings.NewReader(`{"p":"`), io.LimitReader(xs, size), strings.NewReader(`"}`))
		req := post(t, body).WithContext(ctx)
		req.ContentLength = size + 8
		_, err := transport.RoundTrip(req)
		require.NoError(t, err)
	}
	assert.Less(t, int64(heap())-int64(before), int64(streams*size/4))
	assert.Equal(t, streams, inFlight(t, router))
}

func TestUserInfoStaysBehind(t *testing.T) {
	router := newRouter(t, four())
	base := &sink{t: t}
	req, err := http.NewRequest(http.MethodGet, "http://user:secret@model/v1/models", nil)
	require.NoError(t, err)
	_, err = router.Transport(base).RoundTrip(req)
	require.NoError(t, err)
	assert.NotContains(t, base.last.URL.String(), "secret")
}

func TestKeyFunctionThatPanicsLeavesNoBodyOpen(t *testing.T) {
	router := newRouter(t, four(), warmroute.WithKey(func(*affinity.Request) affinity.Key { panic("key") }))
	body := tracked("{}")
	assert.Panics(t, func() { _, _ = router.Transport(&sink{t: t}).RoundTrip(post(t, body)) })
	assert.Equal(t, int32(1), body.closes.Load())
}

func TestExactlyOneRankHeaderLeaves(t *testing.T) {
	for name, tc := range map[string]struct {
		endpoint warmroute.Endpoint
		client   http.Header
		opts     []warmroute.Option
		want     []string
	}{
		"ours":                 {endpoint: warmroute.Endpoint{URL: "http://a", Ranks: 1024}, want: []string{"0"}},
		"the client's":         {endpoint: warmroute.Endpoint{URL: "http://a", Ranks: 4}, client: http.Header{"X-Data-Parallel-Rank": {"2"}}, want: []string{"2"}},
		"the first of two":     {endpoint: warmroute.Endpoint{URL: "http://a", Ranks: 4}, client: http.Header{"X-Data-Parallel-Rank": {"2", "3"}}, want: []string{"2"}},
		"not canonical":        {endpoint: warmroute.Endpoint{URL: "http://a", Ranks: 4}, client: http.Header{"x-data-parallel-rank": {"2"}}, want: []string{"2"}},
		"empty":                {endpoint: warmroute.Endpoint{URL: "http://a", Ranks: 4}, client: http.Header{"x-data-parallel-rank": {}}, want: []string{"0"}},
		"not a number":         {endpoint: warmroute.Endpoint{URL: "http://a", Ranks: 4}, client: http.Header{"X-Data-Parallel-Rank": {"x"}}, want: []string{"0"}},
		"dropped":              {endpoint: warmroute.Endpoint{URL: "http://a", Ranks: 4}, client: http.Header{"X-Data-Parallel-Rank": {"2"}}, opts: []warmroute.Option{warmroute.WithClientRank(warmroute.DropClientRank)}, want: []string{"0"}},
		"single rank":          {endpoint: warmroute.Endpoint{URL: "http://a", Ranks: 1}, client: http.Header{"X-Data-Parallel-Rank": {"0"}}},
		"single rank, another": {endpoint: warmroute.Endpoint{URL: "http://a", Ranks: 1}, client: http.Header{"X-Data-Parallel-Rank": {"3"}}},
		"ranks not known":      {endpoint: warmroute.Endpoint{URL: "http://a"}, client: http.Header{"X-Data-Parallel-Rank": {" 3"}}, want: []string{"3"}},
		"not known, none":      {endpoint: warmroute.Endpoint{URL: "http://a"}},
		"not known, garbage":   {endpoint: warmroute.Endpoint{URL: "http://a"}, client: http.Header{"x-Data-parallel-rank": {"x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			router := newRouter(t, []warmroute.Endpoint{tc.endpoint}, tc.opts...)
			base := &sink{t: t}
			req := post(t, nil)
			for k, v := range tc.client {
				req.Header[k] = v
			}
			before := req.Header.Clone()
			_, err := router.Transport(base).RoundTrip(req)
			require.NoError(t, err)
			var sent []string
			for k, v := range base.last.Header {
				if strings.EqualFold(k, "x-data-parallel-rank") {
					sent = append(sent, v...)
				}
			}
			assert.Equal(t, tc.want, sent)
			assert.Equal(t, before, req.Header)
		})
	}
}

func TestDebugHeaders(t *testing.T) {
	router := newRouter(t, four(), warmroute.WithDebugHeaders(true))
	req := post(t, nil)
	req.Header.Set("X-Session-Id", "s")
	var name string
	for i, outcome := range []string{"placed", "sticky"} {
		resp, err := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200}, nil
		})).RoundTrip(req)
		require.NoError(t, err)
		assert.Equal(t, outcome, resp.Header.Get(warmroute.OutcomeHeader))
		if i == 1 {
			assert.Equal(t, name, resp.Header.Get(warmroute.ReplicaHeader))
		}
		name = resp.Header.Get(warmroute.ReplicaHeader)
		assert.Regexp(t, `^a:80@[0-3]$`, name)
	}
}

// dialer is a base transport for which some hosts cannot be reached.
type dialer struct {
	down map[string]bool
	got  []string
}

func (d *dialer) RoundTrip(r *http.Request) (*http.Response, error) {
	d.got = append(d.got, r.URL.Host)
	if d.down[r.URL.Host] {
		if r.Body != nil {
			_ = r.Body.Close() // as http.Transport does
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	if r.Body != nil {
		got, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		return answer(200, io.NopCloser(strings.NewReader(string(got)))), nil
	}
	return answer(200, http.NoBody), nil
}

func TestFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b"}, {URL: "http://c"}}, warmroute.WithDebugHeaders(true))
		base := &dialer{down: map[string]bool{}}
		send := func() *http.Response {
			body := tracked(`{"x":1}`)
			req := post(t, body)
			req.Header.Set("X-Session-Id", "s")
			resp, err := router.Transport(base).RoundTrip(req)
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, `{"x":1}`, string(got), "the whole body, once")
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, int32(1), body.closes.Load())
			assert.Zero(t, inFlight(t, router))
			return resp
		}
		home := send().Header.Get(warmroute.ReplicaHeader)
		host, _, _ := strings.Cut(home, ":")
		base.down[host] = true
		base.got = nil
		moved := send()
		assert.Equal(t, "placed", moved.Header.Get(warmroute.OutcomeHeader))
		assert.NotEqual(t, home, moved.Header.Get(warmroute.ReplicaHeader))
		assert.Len(t, base.got, 2, "each endpoint is tried once")
		assert.Equal(t, uint64(1), replicaStats(t, router, home).Failed, "each attempt counts on its own replica")
		assert.Equal(t, "down", string(replicaStats(t, router, home).State))
		base.got = nil
		again := send()
		assert.Equal(t, "sticky", again.Header.Get(warmroute.OutcomeHeader))
		assert.Equal(t, moved.Header.Get(warmroute.ReplicaHeader), again.Header.Get(warmroute.ReplicaHeader), "it is at home there now")
		assert.Len(t, base.got, 1)

		base.down[host] = false
		time.Sleep(time.Minute)
		assert.Equal(t, moved.Header.Get(warmroute.ReplicaHeader), send().Header.Get(warmroute.ReplicaHeader), "the old home does not pull it back")
	})
}

func TestAllDown(t *testing.T) {
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b"}})
	base := &dialer{down: map[string]bool{"a": true, "b": true}}
	for range 3 {
		base.got = nil
		_, err := router.Transport(base).RoundTrip(post(t, strings.NewReader("{}")))
		require.ErrorIs(t, err, warmroute.ErrNoReplica)
		var op *net.OpError
		require.ErrorAs(t, err, &op, "and why")
		assert.Len(t, base.got, 2, "down or not, each is tried once: never a refusal of our own making")
	}
	base.down["b"] = false
	resp, err := router.Transport(base).RoundTrip(post(t, strings.NewReader("{}")))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Zero(t, inFlight(t, router))
	assert.Equal(t, "up", string(replicaStats(t, router, "b:80").State))
}

func TestNoFailoverAfterAByteWasRead(t *testing.T) {
	for _, closes := range []bool{true, false} {
		router := newRouter(t, at("http://a", "http://b"))
		tries := 0
		_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
			tries++
			_, _ = r.Body.Read(make([]byte, 1))
			if closes {
				_ = r.Body.Close()
			}
			return nil, &net.OpError{Op: "dial", Err: errors.New("odd")}
		})).RoundTrip(post(t, strings.NewReader("{}")))
		require.Error(t, err)
		assert.Equal(t, 1, tries)
	}
}

func TestFailoverCanBeSwitchedOff(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"), warmroute.WithFailover(false))
	base := &dialer{down: map[string]bool{"a": true, "b": false}}
	var errs int
	for range 2 {
		if resp, err := router.Transport(base).RoundTrip(post(t, nil)); err != nil {
			require.ErrorIs(t, err, warmroute.ErrNoReplica)
			errs++
		} else {
			require.NoError(t, resp.Body.Close())
		}
	}
	assert.Equal(t, 1, errs)
	assert.Len(t, base.got, 2)
}

// What a transport still reads of a body after its attempt has failed must not
// take from the next attempt.
func TestABodyBelongsToOneAttempt(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	var first io.Reader
	_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		if first == nil {
			first = r.Body
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		}
		n, err := first.Read(make([]byte, 8))
		assert.Zero(t, n)
		assert.Error(t, err)
		got, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, "{}", string(got))
		return answer(200, nil), r.Body.Close()
	})).RoundTrip(post(t, strings.NewReader("{}")))
	require.NoError(t, err)
}

func TestACancelledDialIsNotTheReplicas(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		tries++
		cancel()
		return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
	})).RoundTrip(post(t, nil).WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, tries)
	for _, m := range router.Stats().Pools[0].Replicas {
		assert.Equal(t, "up", string(m.State))
		assert.Zero(t, m.Failed)
	}
}

// One connection that could not be made says nothing of the conversations'
// caches: with nowhere else to go they stay.
func TestAFailedDialScattersNobody(t *testing.T) {
	router := newRouter(t, four())
	homes := map[string]string{}
	for i := range 40 {
		s := fmt.Sprint("s", i)
		homes[s], _ = turn(t, router, s)
	}
	router.Replicas()[0].Unreachable(time.Now())
	for s, home := range homes {
		name, outcome := turn(t, router, s)
		assert.Equal(t, home, name)
		assert.Equal(t, warmroute.Sticky, outcome)
	}
}

// A conversation moves when another replica has answered it, not before.
func TestAConversationMovesByAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a", "http://b"))
		home, _ := turn(t, router, "s")
		down := func() {
			for _, m := range router.Replicas() {
				if m.Name() == home {
					m.Unreachable(time.Now())
				}
			}
		}
		down()
		lease := route(t, router, warmroute.Request{Session: "s"})
		assert.Equal(t, warmroute.Placed, lease.Outcome())
		require.NotEqual(t, home, lease.Replica().Name())
		lease.Done(warmroute.Result{Err: errors.New("reset")})
		time.Sleep(time.Minute)
		name, outcome := turn(t, router, "s")
		assert.Equal(t, warmroute.Sticky, outcome)
		assert.Equal(t, home, name, "the cache is still there")
		down()
		moved, _ := turn(t, router, "s")
		require.NotEqual(t, home, moved)
		time.Sleep(time.Minute)
		name, outcome = turn(t, router, "s")
		assert.Equal(t, moved, name, "it lives there now")
		assert.Equal(t, warmroute.Sticky, outcome)
	})
}

// Drain, then stop: nobody dials what is gone.
func TestADrainedReplicaThatIsDownIsLeft(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	home, _ := turn(t, router, "s")
	require.NoError(t, router.Drain(home))
	for _, m := range router.Replicas() {
		if m.Name() == home {
			m.Unreachable(time.Now())
		}
	}
	name, outcome := turn(t, router, "s")
	assert.NotEqual(t, home, name)
	assert.Equal(t, warmroute.Placed, outcome)
}

func TestEachRequestCountsOnce(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	turn(t, router, "s")
	base := &dialer{down: map[string]bool{"a": true, "b": true}}
	req := post(t, nil)
	req.Header.Set("X-Session-Id", "s")
	_, err := router.Transport(base).RoundTrip(req)
	require.ErrorIs(t, err, warmroute.ErrNoReplica)
	s := router.Stats().Pools[0]
	assert.Equal(t, warmroute.RequestStats{Placed: 2, Failed: 1}, s.Requests, "by where it was tried last")
	assert.Equal(t, uint64(1), s.Replicas[0].Failed, "attempts")
	assert.Equal(t, uint64(1), s.Replicas[1].Failed)
	assert.Zero(t, s.InFlight)
}

// Whoever answers with an error has not read the prompt.
func TestAnErrorBindsNobody(t *testing.T) {
	for status, sessions := range map[int]int{200: 1, 400: 0, 404: 0, 503: 0} {
		router := newRouter(t, four())
		req := post(t, nil)
		req.Header.Set("X-Session-Id", "s")
		resp, err := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
			return answer(status, io.NopCloser(strings.NewReader("x"))), nil
		})).RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, sessions, router.Stats().Pools[0].Sessions, "%d", status)
	}
}

// registered is a context that tells of callbacks that were never taken back.
type registered struct {
	context.Context
	pending atomic.Int64
}

func (c *registered) AfterFunc(f func()) func() bool {
	c.pending.Add(1)
	stop := context.AfterFunc(c.Context, f)
	return func() bool {
		c.pending.Add(-1)
		return stop()
	}
}

func TestNothingStaysRegisteredWithALongLivedContext(t *testing.T) {
	router := newRouter(t, four())
	inner, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx := &registered{Context: inner}
	for range 10 {
		resp, err := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
			return answer(200, io.NopCloser(strings.NewReader("x"))), nil
		})).RoundTrip(post(t, nil).WithContext(ctx))
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	assert.Zero(t, ctx.pending.Load())
}

func TestWhatCountsAsUnmeasured(t *testing.T) {
	for _, tc := range []struct {
		method, path string
		unmeasured   uint64
	}{
		{http.MethodPost, "/v1/chat/completions", 1},
		{http.MethodPost, "/v1/completions", 1},
		{http.MethodPost, "/v1/messages", 1},
		{http.MethodPost, "/v1/responses", 1},
		{http.MethodPost, "/prefix/v1/messages", 1},
		{http.MethodPost, "/tokenize", 0},
		{http.MethodPost, "/v1/messages/count_tokens", 0},
		{http.MethodPost, "/v1/load_lora_adapter", 0},
		{http.MethodGet, "/v1/models", 0},
	} {
		router := newRouter(t, four())
		req, err := http.NewRequest(tc.method, "http://model"+tc.path, nil)
		require.NoError(t, err)
		resp, err := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
			resp := answer(200, io.NopCloser(strings.NewReader(`{"x":1}`)))
			resp.Header.Set("Content-Type", "application/json")
			return resp, nil
		})).RoundTrip(req)
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, tc.unmeasured, router.Stats().Pools[0].Tokens.UnmeasuredRequests, tc.path)
	}
	// One that was given up says nothing of the engine.
	router := newRouter(t, four())
	resp, err := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
		resp := answer(200, io.NopCloser(strings.NewReader("data: {}\n\n")))
		resp.Header.Set("Content-Type", "text/event-stream")
		return resp, nil
	})).RoundTrip(post(t, nil))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Zero(t, router.Stats().Pools[0].Tokens.UnmeasuredRequests)
}

func TestRealConnectionRefused(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer up.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	router := newRouter(t, at(gone.URL, up.URL))
	client := &http.Client{Transport: router.Transport(nil)}
	for range 4 {
		resp, err := client.Post("http://model/v1/completions", "application/json", struct{ io.Reader }{strings.NewReader("{}")})
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, "{}", string(got))
	}
	assert.Zero(t, inFlight(t, router))
}
