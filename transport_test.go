package warmroute_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
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

func TestGetBodyIsKeptOrRebuilt(t *testing.T) {
	router := newRouter(t, four())
	base := &sink{t: t}
	const text = `{"a":1}`
	whole := post(t, struct{ io.Reader }{strings.NewReader(text)})
	whole.ContentLength = int64(len(text)) // as a server's request has it
	for name, req := range map[string]*http.Request{
		"kept":    post(t, strings.NewReader(text)),
		"rebuilt": whole,
	} {
		_, err := router.Transport(base).RoundTrip(req)
		require.NoError(t, err)
		require.NotNil(t, base.last.GetBody, name)
		for range 2 {
			body, err := base.last.GetBody()
			require.NoError(t, err)
			got, err := io.ReadAll(body)
			require.NoError(t, err)
			assert.Equal(t, text, string(got), name)
		}
	}
	long := post(t, struct{ io.Reader }{strings.NewReader(`{"a":"` + strings.Repeat("x", 1<<20))})
	_, err := newRouter(t, four(), warmroute.WithPeekLimit(10)).Transport(base).RoundTrip(long)
	require.NoError(t, err)
	assert.Nil(t, base.last.GetBody, "not all of it is there")
	assert.Len(t, base.body, 1<<20+6)
}

func TestAnErrorInTheBodyComesWhereItWas(t *testing.T) {
	broken := errors.New("client went away")
	router := newRouter(t, four())
	_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		got, err := io.ReadAll(r.Body)
		assert.Equal(t, `{"model":"x","mess`, string(got))
		return nil, errors.Join(err, r.Body.Close())
	})).RoundTrip(post(t, io.MultiReader(strings.NewReader(`{"model":"x","mess`), readerFunc(func([]byte) (int, error) { return 0, broken }))))
	require.ErrorIs(t, err, broken)
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
	router := newRouter(t, at("http://a", "http://b"))
	tries := 0
	_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		tries++
		_, _ = r.Body.Read(make([]byte, 1))
		return nil, errors.Join(&net.OpError{Op: "dial", Err: errors.New("odd")}, r.Body.Close())
	})).RoundTrip(post(t, strings.NewReader("{}")))
	require.Error(t, err)
	assert.Equal(t, 1, tries)
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
