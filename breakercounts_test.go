package warmroute_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

func TestWhatCountsAgainstAReplica(t *testing.T) {
	event := func(s string) func(*http.Request) (*http.Response, error) {
		return streamed("data: " + s + "\n\ndata: [DONE]\n\n")
	}
	cancelled := func(t *testing.T, transport http.RoundTripper) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := transport.RoundTrip(post(t, nil).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
	}
	for _, tc := range []struct {
		name    string
		answers func(*http.Request) (*http.Response, error)
		send    func(*testing.T, http.RoundTripper) // nil: ask
		failed  uint64                              // of five
		state   replica.State
	}{
		{name: "good", answers: streamed(goodStream), state: replica.Up},
		{name: "reset before the answer", answers: reset, failed: 5, state: replica.Open},
		{name: "500", answers: status(500), failed: 5, state: replica.Open},
		{name: "501", answers: status(501), failed: 5, state: replica.Up},
		{name: "502", answers: status(502), failed: 5, state: replica.Open},
		{name: "503", answers: status(503), failed: 5, state: replica.Open},
		{name: "400", answers: status(400), state: replica.Up},
		{name: "404", answers: status(404), state: replica.Up},
		{name: "429", answers: status(429), state: replica.Up},
		{name: "a redirect", answers: status(307), state: replica.Up},
		{name: "an error event", answers: event(`{"error":{"type":"InternalServerError","code":500}}`), failed: 5, state: replica.Open},
		{name: "a rank out of range", answers: event(`{"error":{"type":"BadRequestError","code":400}}`), state: replica.Up},
		{name: "aborted", answers: event(`{"choices":[{"delta":{},"finish_reason":"abort"}]}`), failed: 5, state: replica.Open},
		{name: "no end mark", answers: streamed(`data: {"choices":[]}` + "\n\n"), failed: 5, state: replica.Open},
		{name: "an empty stream", answers: streamed(""), failed: 5, state: replica.Open},
		{name: "a cut object", answers: func(*http.Request) (*http.Response, error) {
			return reply(200, "application/json", strings.NewReader(`{"id":`)), nil
		}, failed: 5, state: replica.Open},
		{name: "a page", answers: func(*http.Request) (*http.Response, error) {
			return reply(200, "text/html; charset=utf-8", strings.NewReader("<html>")), nil
		}, failed: 5, state: replica.Open},
		{name: "a stream that breaks", answers: func(*http.Request) (*http.Response, error) {
			return reply(200, "text/event-stream", brokenReader{strings.NewReader(strings.TrimSuffix(goodStream, "data: [DONE]\n\n"))}), nil
		}, failed: 5, state: replica.Open},
		{name: "a stream that breaks behind its end mark", answers: func(*http.Request) (*http.Response, error) {
			return reply(200, "text/event-stream", brokenReader{strings.NewReader(goodStream)}), nil
		}, state: replica.Up},
		{name: "a compressed stream", answers: func(*http.Request) (*http.Response, error) {
			resp := reply(200, "text/event-stream", strings.NewReader("\x1f\x8b"))
			resp.Header.Set("Content-Encoding", "gzip")
			return resp, nil
		}, state: replica.Up},
		{name: "the caller cancels before", answers: reset, send: cancelled, state: replica.Up},
		{name: "the caller cancels meanwhile", answers: func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, send: func(t *testing.T, transport http.RoundTripper) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := transport.RoundTrip(post(t, nil).WithContext(ctx))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}, state: replica.Up},
		{name: "the caller's body breaks", answers: reset, send: func(t *testing.T, transport http.RoundTripper) {
			req := post(t, brokenReader{strings.NewReader("x")})
			req.Header.Set("X-Session-Id", "s")
			_, err := transport.RoundTrip(req)
			require.ErrorIs(t, err, errReset)
		}, state: replica.Up},
		{name: "the caller reads nothing", answers: streamed(goodStream), send: func(t *testing.T, transport http.RoundTripper) {
			resp, err := transport.RoundTrip(post(t, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}, state: replica.Up},
		{name: "500 on messages", answers: status(500), send: func(t *testing.T, transport http.RoundTripper) {
			req := post(t, nil)
			req.URL.Path = "/v1/messages"
			resp, err := transport.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}, failed: 5, state: replica.Up},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &fleet{}
				base.set("a", tc.answers)
				router := newRouter(t, at("http://a"), steadyBreaker(replica.BreakerConfig{}))
				transport := router.Transport(base)
				for range 5 {
					if tc.send != nil {
						tc.send(t, transport)
					} else {
						_, _ = ask(t, transport, "") // what comes of it is counted
					}
				}
				s := replicaStats(t, router, "a:80")
				assert.Equal(t, tc.failed, s.Failed)
				assert.Equal(t, tc.state, s.State)
				assert.Equal(t, tc.state == replica.Open, s.BreakerOpens == 1)
				assert.Zero(t, inFlight(t, router))
				if tc.state == replica.Open {
					status, err := ask(t, transport, "")
					assert.NotErrorIs(t, err, warmroute.ErrNoReplica, "there is no other: it is sent all the same")
					assert.True(t, err != nil || status != 0)
				}
			})
		})
	}
}
