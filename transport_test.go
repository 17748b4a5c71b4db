package warmroute_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

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
