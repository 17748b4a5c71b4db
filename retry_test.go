package warmroute_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

func TestRetries(t *testing.T) {
	sent := warmroute.RetryPolicy{RetrySent: true}
	hangs := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	for _, tc := range []struct {
		name     string
		opts     []warmroute.Option
		hosts    int                                         // that fail; one more does not
		fails    func(*http.Request) (*http.Response, error) // nil: they cannot be reached
		attempts int
		status   int // 0: an error
	}{
		{"by default what was sent is not sent again", nil, 1, reset, 1, 0},
		{"by default a 503 is passed on", nil, 1, status(503), 1, 503},
		{"by default what was not sent goes everywhere", nil, 3, nil, 4, 200},
		{"reset before the answer", []warmroute.Option{warmroute.WithRetry(sent)}, 1, reset, 2, 200},
		{"502", []warmroute.Option{warmroute.WithRetry(sent)}, 1, status(502), 2, 200},
		{"503", []warmroute.Option{warmroute.WithRetry(sent)}, 1, status(503), 2, 200},
		{"500 may be the request's fault", []warmroute.Option{warmroute.WithRetry(sent)}, 1, status(500), 1, 500},
		{"504", []warmroute.Option{warmroute.WithRetry(sent)}, 1, status(504), 1, 504},
		{"429", []warmroute.Option{warmroute.WithRetry(sent)}, 1, status(429), 1, 429},
		{"400", []warmroute.Option{warmroute.WithRetry(sent)}, 1, status(400), 1, 400},
		{"a header timeout", []warmroute.Option{warmroute.WithRetry(sent), warmroute.WithResponseHeaderTimeout(time.Second)}, 1, hangs, 2, 200},
		{"an answer that has begun", []warmroute.Option{warmroute.WithRetry(sent)}, 1, streamed("data: {"), 1, 200},
		{"two engines at the most", []warmroute.Option{warmroute.WithRetry(sent)}, 3, status(503), 2, 503},
		{"and their error as it is", []warmroute.Option{warmroute.WithRetry(sent)}, 3, reset, 2, 0},
		{"more if the policy says so", []warmroute.Option{warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true, MaxAttempts: 4})}, 3, status(503), 4, 200},
		{"less for what was not sent", []warmroute.Option{warmroute.WithRetry(warmroute.RetryPolicy{MaxAttempts: 2})}, 3, nil, 2, 0},
		{"one", []warmroute.Option{warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true, MaxAttempts: 1})}, 1, status(503), 1, 503},
		{"without failover", []warmroute.Option{warmroute.WithRetry(sent), warmroute.WithFailover(false)}, 1, status(503), 1, 503},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &fleet{down: map[string]bool{}}
				var urls []string
				for i := range tc.hosts + 1 {
					host := fmt.Sprintf("h%d", i)
					urls = append(urls, "http://"+host)
					if i < tc.hosts {
						base.set(host, tc.fails)
						base.down[host] = tc.fails == nil
					}
				}
				router := newRouter(t, at(urls...), append(tc.opts, warmroute.WithBreaker(replica.BreakerConfig{Off: true}))...)
				transport := router.Transport(base)
				body := tracked(`{"model":"m","x":1}`)
				req := post(t, body)
				// The well one has the most to do, so that it is chosen last.
				well := router.Replicas()[tc.hosts]
				for range 4 {
					well.Begin()
				}
				resp, err := transport.RoundTrip(req)
				if tc.status == 0 {
					require.Error(t, err)
				} else {
					require.NoError(t, err)
					assert.Equal(t, tc.status, resp.StatusCode)
					_, err = io.Copy(io.Discard, resp.Body)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
				}
				for range 4 {
					well.End()
				}
				got := base.sent()
				assert.Len(t, got, tc.attempts)
				seen := map[string]bool{}
				for _, host := range got {
					assert.False(t, seen[host], "each once")
					seen[host] = true
				}
				s := router.Stats().Pools[0]
				assert.Equal(t, uint64(tc.attempts-1), s.Requests.Retries)
				assert.Equal(t, uint64(1), s.Requests.Unkeyed, "one request")
				assert.Equal(t, int32(1), body.closes.Load())
				assert.Zero(t, inFlight(t, router))
				for i, m := range s.Replicas[:tc.hosts] {
					failed := uint64(0)
					if seen[fmt.Sprintf("h%d", i)] && tc.status != 400 && tc.status != 429 {
						failed = 1
					}
					assert.Equal(t, failed, m.Failed, "each attempt on its own replica")
				}
			})
		})
	}
}

func TestARetryHasTheWholeBody(t *testing.T) {
	const text = `{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}`
	getBody := func(req *http.Request) {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	}
	for _, tc := range []struct {
		name    string
		change  func(*http.Request)
		opts    []warmroute.Option
		repeats bool
	}{
		{"held by the peek", func(*http.Request) {}, nil, true},
		{"GetBody", func(req *http.Request) { getBody(req); req.Header.Set("Content-Type", "text/plain") }, nil, true},
		{"GetBody and a key in the header", func(req *http.Request) { getBody(req); req.Header.Set("X-Session-Id", "s") }, nil, true},
		{"neither", func(req *http.Request) { req.Header.Set("Content-Type", "text/plain") }, nil, false},
		{"longer than the limit", func(*http.Request) {}, []warmroute.Option{warmroute.WithPeekLimit(8)}, false},
		{"usage asked for", func(*http.Request) {}, []warmroute.Option{warmroute.WithStreamUsage(true)}, true},
		{"none", func(req *http.Request) { req.Body, req.ContentLength = nil, 0 }, nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			router := newRouter(t, at("http://a", "http://b"), append(tc.opts, warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true, Backoff: 1}))...)
			body := tracked(text)
			req := post(t, body)
			tc.change(req)
			resp, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
				read := ""
				if r.Body != nil {
					all, err := io.ReadAll(r.Body)
					require.NoError(t, err)
					require.NoError(t, r.Body.Close())
					read = string(all)
				}
				if got = append(got, read); len(got) == 1 {
					return nil, errReset
				}
				return reply(200, "text/event-stream", strings.NewReader(goodStream)), nil
			})).RoundTrip(req)
			if !tc.repeats {
				require.ErrorIs(t, err, errReset)
				assert.Len(t, got, 1)
			} else {
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Len(t, got, 2)
				assert.Equal(t, got[0], got[1])
			}
			if req.Body != nil {
				assert.Equal(t, int32(1), body.closes.Load())
				assert.True(t, strings.HasPrefix(got[0], text[:len(text)-1]))
			}
			assert.Zero(t, inFlight(t, router))
		})
	}
}

// A body that was had again is closed too, also if nothing comes of it.
func TestARetrysBodyIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []*trackedBody
		first := tracked("x")
		req := post(t, first)
		req.Header.Set("Content-Type", "text/plain")
		req.GetBody = func() (io.ReadCloser, error) {
			bodies = append(bodies, tracked("x"))
			return bodies[len(bodies)-1], nil
		}
		base := &fleet{down: map[string]bool{"c": true, "d": true}}
		base.set("a", reset)
		base.set("b", reset)
		router := newRouter(t, at("http://a", "http://b", "http://c", "http://d"), warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true, MaxAttempts: 9}))
		_, err := router.Transport(base).RoundTrip(req)
		require.Error(t, err)
		assert.Equal(t, int32(1), first.closes.Load())
		require.NotEmpty(t, bodies)
		for _, b := range bodies {
			assert.Equal(t, int32(1), b.closes.Load())
		}
		assert.Zero(t, inFlight(t, router))

		req = post(t, tracked("x"))
		req.Header.Set("Content-Type", "text/plain")
		gone := errors.New("gone")
		req.GetBody = func() (io.ReadCloser, error) { return nil, gone }
		_, err = newRouter(t, at("http://a", "http://b"), warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true})).Transport(base).RoundTrip(req)
		require.ErrorIs(t, err, gone)
	})
}

func TestARetryGoesToAnotherRankIfThereIsNoOtherEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			fails    func(*http.Request) (*http.Response, error)
			attempts int
		}{{reset, 2}, {status(503), 1}} {
			base := &fleet{}
			router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}}, warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true, MaxAttempts: 5}))
			home, _ := turn(t, router, "s")
			base.set("a@"+home[len(home)-1:], tc.fails)
			_, err := ask(t, router.Transport(base), "s")
			require.NoError(t, err)
			assert.Len(t, base.sent(), tc.attempts, "a 503 is the whole endpoint's")
			now, _ := turn(t, router, "s")
			assert.Equal(t, tc.attempts == 2, now != home, "it is at home where it was answered")
		}
	})
}

func TestRetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &fleet{}
		base.set("a", status(503))
		base.set("b", status(503))
		router := newRouter(t, at("http://a", "http://b"), warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true, Budget: 0.1, Backoff: 1}), warmroute.WithBreaker(replica.BreakerConfig{Off: true}))
		transport := router.Transport(base)
		send := func(n int) int {
			for range n {
				code, err := ask(t, transport, "")
				require.NoError(t, err)
				require.Equal(t, 503, code)
			}
			return len(base.sent()) - n
		}
		assert.Equal(t, 10+9, send(100), "ten at once, and one for ten requests")
		assert.Equal(t, 100, send(1000))
		s := router.Stats().Pools[0].Requests
		assert.Equal(t, uint64(119), s.Retries)
		assert.Equal(t, uint64(981), s.RetriesRefused)
		time.Sleep(time.Minute)
		assert.Equal(t, 6+1, send(9), "one every ten seconds whatever the requests are")
		time.Sleep(time.Hour)
		assert.Equal(t, 10+1, send(20), "ten at the most")
	})
}

// However many ask, and however shortly after one another, one in ten seconds is
// made.
func TestTheSteadyPartOfTheRetryBudgetIsGivenUnderAFlood(t *testing.T) {
	for _, pause := range []time.Duration{time.Millisecond, 17 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			base := &fleet{}
			base.set("a", status(503))
			base.set("b", status(503))
			router := newRouter(t, at("http://a", "http://b"), warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true, Budget: 0.0001, Backoff: 1}), warmroute.WithBreaker(replica.BreakerConfig{Off: true}))
			transport := router.Transport(base)
			for start := time.Now(); time.Since(start) < 100*time.Second; time.Sleep(pause) {
				_, err := ask(t, transport, "")
				require.NoError(t, err)
			}
			assert.InDelta(t, 10+10, router.Stats().Pools[0].Requests.Retries, 1, "every %v", pause)
		})
	}
}

func TestRetriesWaitWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &fleet{}
		base.set("a", status(503))
		base.set("b", status(503))
		base.set("c", status(503))
		router := newRouter(t, at("http://a", "http://b", "http://c"), warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true, MaxAttempts: 3, Backoff: time.Second}))
		transport := router.Transport(base)
		start := time.Now()
		_, err := ask(t, transport, "")
		require.NoError(t, err)
		took := time.Since(start)
		assert.True(t, 1500*time.Millisecond <= took && took <= 3*time.Second, took)
		assert.Len(t, base.sent(), 3)

		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		start = time.Now()
		resp, err := transport.RoundTrip(post(t, nil).WithContext(ctx))
		require.NoError(t, err)
		assert.Equal(t, 503, resp.StatusCode, "there is no time for another")
		assert.Zero(t, time.Since(start))
		require.NoError(t, resp.Body.Close())
		assert.Len(t, base.sent(), 1)

		ctx, stop := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		time.AfterFunc(100*time.Millisecond, func() { stop(enough) })
		_, err = transport.RoundTrip(post(t, nil).WithContext(ctx))
		require.ErrorIs(t, err, enough)
		assert.Len(t, base.sent(), 1)
		assert.Zero(t, inFlight(t, router))
	})
}

// TestRetryJitter has three attempts at engines that fail, with pauses of one and
// two seconds less what is left out of them.
func TestRetryJitter(t *testing.T) {
	for jitter, want := range map[float64]time.Duration{
		0: 3 * time.Second, 0.5: 2250 * time.Millisecond, 1: 1500 * time.Millisecond, 7: 1500 * time.Millisecond, -1: 3 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			base := &fleet{}
			for _, host := range []string{"a", "b", "c"} {
				base.set(host, status(503))
			}
			router := newRouter(t, at("http://a", "http://b", "http://c"), warmroute.WithRetry(warmroute.RetryPolicy{
				RetrySent: true, MaxAttempts: 3, Backoff: time.Second, Jitter: func() float64 { return jitter },
			}))
			start := time.Now()
			_, err := ask(t, router.Transport(base), "")
			require.NoError(t, err)
			assert.Equal(t, want, time.Since(start), "jitter %v", jitter)
			assert.Len(t, base.sent(), 3)
		})
	}
}

func TestRetryPolicyIsRefused(t *testing.T) {
	for field, p := range map[string]warmroute.RetryPolicy{
		"retry attempts": {MaxAttempts: -1}, "retry budget": {Budget: 1.5}, "retry backoff": {Backoff: -1},
	} {
		_, err := warmroute.New(at("http://a"), warmroute.WithRetry(p))
		var refused *warmroute.ConfigError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, field, refused.Field)
	}
}

// An engine that closes an idle connection as a request comes leaves it unclear
// whether it has begun to run it. Over real connections, since net/http repeats
// requests by itself.
func TestNoEngineSeesAPostTwice(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"plain":                     func(*http.Request) {},
		"idempotency key":           func(req *http.Request) { req.Header.Set("Idempotency-Key", "k") },
		"the other idempotency key": func(req *http.Request) { req.Header.Set("X-Idempotency-Key", "k") },
		"idempotency key, no body": func(req *http.Request) {
			req.Header.Set("Idempotency-Key", "k")
			req.Body, req.GetBody, req.ContentLength = nil, nil, 0
		},
		"idempotency key, empty body": func(req *http.Request) {
			req.Header.Set("Idempotency-Key", "k")
			req.Body, req.GetBody, req.ContentLength = http.NoBody, nil, 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			var posts atomic.Int32
			var engines []string
			for range 2 {
				engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					if r.Header.Get("X-Warm-Up") == "" {
						posts.Add(1)
						conn, _, err := w.(http.Hijacker).Hijack()
						if err == nil {
							_ = conn.Close()
						}
					}
				}))
				defer engine.Close()
				engines = append(engines, engine.URL)
			}
			router := newRouter(t, at(engines...))
			transport := router.Transport(nil)
			for range 4 { // so that there are idle connections
				req, err := http.NewRequest(http.MethodPost, "http://model/v1/chat/completions", bytes.NewReader([]byte("{}")))
				require.NoError(t, err)
				req.Header.Set("X-Warm-Up", "1")
				resp, err := transport.RoundTrip(req)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			}
			req, err := http.NewRequest(http.MethodPost, "http://model/v1/chat/completions", bytes.NewReader([]byte("{}")))
			require.NoError(t, err)
			change(req)
			_, err = transport.RoundTrip(req)
			require.Error(t, err)
			assert.Equal(t, int32(1), posts.Load())
			assert.Zero(t, inFlight(t, router))
		})
	}
}

// Another engine would say that there is no such response: worse than the error,
// which may pass.
func TestWhatContinuesAResponseIsNotSentElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a", "http://b"), warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true}))
		e := &responder{}
		id, home := continueFrom(t, router, e, "", nil)
		base := &fleet{}
		base.set("a", status(503))
		base.set("b", status(503))
		resp, err := router.Transport(base).RoundTrip(responsesRequest(t, id, nil))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 503, resp.StatusCode)
		assert.Equal(t, []string{strings.TrimSuffix(home, "/")}, base.sent())
		// One that begins a conversation is.
		resp, err = router.Transport(base).RoundTrip(responsesRequest(t, "", nil))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Len(t, base.sent(), 2)
	})
}
