package warmroute_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

func TestHeaderTimeout(t *testing.T) {
	for _, honours := range []bool{true, false} { // whether the base minds its context
		synctest.Test(t, func(t *testing.T) {
			router := newRouter(t, at("http://a"), warmroute.WithResponseHeaderTimeout(2*time.Second))
			var cause error
			late := tracked("late")
			transport := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
				if honours {
					<-r.Context().Done()
					cause = context.Cause(r.Context())
					return nil, r.Context().Err()
				}
				time.Sleep(3 * time.Second)
				return answer(200, late), nil
			}))
			start := time.Now()
			_, err := ask(t, transport, "")
			require.ErrorIs(t, err, warmroute.ErrHeaderTimeout)
			var timeout *warmroute.TimeoutError
			require.ErrorAs(t, err, &timeout)
			assert.Equal(t, 2*time.Second, timeout.Limit)
			assert.True(t, timeout.Timeout())
			assert.Equal(t, "response header timeout after 2s", err.Error())
			if honours {
				assert.Equal(t, 2*time.Second, time.Since(start))
				assert.Equal(t, timeout, cause, "the request there is cancelled")
			} else {
				assert.Equal(t, int32(1), late.closes.Load())
			}
			s := replicaStats(t, router, "a:80")
			assert.Equal(t, uint64(1), s.Failed)
			assert.Equal(t, uint64(1), s.HeaderTimeouts)
			assert.Zero(t, s.IdleTimeouts)
			assert.Zero(t, inFlight(t, router))
		})
	}
}

func TestTheCallersDeadlineIsNoTimeoutOfTheReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a"), warmroute.WithResponseHeaderTimeout(2*time.Second), warmroute.WithIdleTimeout(2*time.Second))
		transport := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := transport.RoundTrip(post(t, nil).WithContext(ctx))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, warmroute.ErrHeaderTimeout)
		assert.Zero(t, replicaStats(t, router, "a:80").Failed)
	})
}

func TestIdleTimeout(t *testing.T) {
	for _, tc := range []struct {
		name   string
		pauses []time.Duration // before each event; the stream's end is after them
		reads  time.Duration   // that the client takes to come back
		failed bool
	}{
		{"in time", []time.Duration{1, 2, 2}, 0, false},
		{"before the first byte", []time.Duration{4}, 0, true},
		{"in the middle", []time.Duration{1, 1, 4}, 0, true},
		{"a byte a second for long", make([]time.Duration, 0), 0, false},
		{"a client that is slow", []time.Duration{0, 0, 0}, time.Minute, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pauses := tc.pauses
				if len(pauses) == 0 {
					for range 7200 {
						pauses = append(pauses, 1)
					}
				}
				var ctx context.Context
				router := newRouter(t, at("http://a"), warmroute.WithIdleTimeout(3*time.Second), warmroute.WithResponseHeaderTimeout(time.Second))
				transport := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
					ctx = r.Context()
					reader, writer := io.Pipe()
					go func() {
						for _, pause := range pauses {
							time.Sleep(pause * time.Second)
							if _, err := io.WriteString(writer, ": x\n\n"); err != nil {
								return
							}
						}
						_, _ = io.WriteString(writer, "data: [DONE]\n\n") // the reader may be gone
						_ = writer.Close()
					}()
					resp := answer(200, reader)
					resp.Header.Set("Content-Type", "text/event-stream")
					return resp, nil
				}))
				resp, err := transport.RoundTrip(post(t, nil))
				require.NoError(t, err)
				buf := make([]byte, 64)
				var before time.Time
				for err == nil {
					before = time.Now()
					_, err = resp.Body.Read(buf)
					time.Sleep(tc.reads)
				}
				s := replicaStats(t, router, "a:80")
				if tc.failed {
					require.ErrorIs(t, err, warmroute.ErrIdleTimeout)
					assert.Equal(t, 3*time.Second, time.Since(before), "also of a base that does not mind its context")
					assert.Equal(t, "response idle timeout after 3s", err.Error())
					assert.Equal(t, uint64(1), s.Failed)
					assert.Equal(t, uint64(1), s.IdleTimeouts)
					_, err = resp.Body.Read(buf)
					require.Error(t, err)
				} else {
					require.ErrorIs(t, err, io.EOF)
					assert.Zero(t, s.Failed)
				}
				require.Error(t, ctx.Err(), "let go of")
				require.NoError(t, resp.Body.Close())
				assert.Zero(t, s.HeaderTimeouts)
				assert.Zero(t, inFlight(t, router))
				time.Sleep(time.Minute) // nothing is left to come
			})
		})
	}
}

// Over a real connection the engine sees that nobody waits for it any more.
func TestTimeoutsCancelTheEnginesRequest(t *testing.T) {
	for name, begins := range map[string]bool{"header": false, "idle": true} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // else the server does not look whether the client is gone
				if begins {
					w.Header().Set("Content-Type", "text/event-stream")
					w.WriteHeader(200)
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done()
				close(ended)
			}))
			defer engine.Close()
			router := newRouter(t, at(engine.URL), warmroute.WithResponseHeaderTimeout(200*time.Millisecond), warmroute.WithIdleTimeout(200*time.Millisecond))
			_, err := ask(t, router.Transport(nil), "")
			var timeout *warmroute.TimeoutError
			require.ErrorAs(t, err, &timeout)
			assert.Equal(t, begins, errors.Is(err, warmroute.ErrIdleTimeout))
			<-ended
			assert.Zero(t, inFlight(t, router))
		})
	}
}

func TestTimeoutsOpenABreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &fleet{}
		base.set("a", func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		router := newRouter(t, at("http://a"), warmroute.WithResponseHeaderTimeout(time.Second))
		for range 5 {
			_, err := ask(t, router.Transport(base), "")
			require.ErrorIs(t, err, warmroute.ErrHeaderTimeout)
		}
		assert.Equal(t, replica.Open, replicaStats(t, router, "a:80").State)
		text := get(t, router.Handler(), "/metrics").Body.String()
		for _, sample := range []string{
			`warmroute_timeouts_total{model="",replica="a:80",timeout="header"} 5`, `warmroute_timeouts_total{model="",replica="a:80",timeout="idle"} 0`,
			`warmroute_breaker_state{model="",replica="a:80"} 2`, `warmroute_breaker_opens_total{model="",replica="a:80"} 1`,
			`warmroute_replica_up{model="",replica="a:80"} 0`,
		} {
			assert.Contains(t, text, sample+"\n")
		}
		assert.Contains(t, get(t, router.Handler(), "/stats").Body.String(), `"breaker": "open"`)
	})
}

func TestTimeoutOptions(t *testing.T) {
	for field, o := range map[string]warmroute.Option{
		"response-header-timeout": warmroute.WithResponseHeaderTimeout(-1), "idle-timeout": warmroute.WithIdleTimeout(-1), "slow-start": warmroute.WithSlowStart(-1),
		"breaker probes": warmroute.WithBreaker(replica.BreakerConfig{Probes: -1}),
	} {
		_, err := warmroute.New(at("http://a"), o)
		var refused *warmroute.ConfigError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, field, refused.Field)
	}
	w := httptest.NewRecorder()
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a"), warmroute.WithResponseHeaderTimeout(time.Second))
		req := post(t, nil)
		_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})).RoundTrip(req)
		warmroute.ErrorHandler(w, req, err)
	})
	assert.Equal(t, http.StatusGatewayTimeout, w.Code)
}

// doneErr keeps the failures of finished attempts.
type doneErr struct{ errs []error }

func (d *doneErr) OnDone(e warmroute.DoneEvent) { d.errs = append(d.errs, e.Result.Err) }

func TestStreamErrors(t *testing.T) {
	for _, tc := range []struct {
		name, contentType, body, path string
		want                          *warmroute.StreamError
		text                          string
	}{
		{"error event", "text/event-stream", `data: {"error":{"message":"x","type":"InternalServerError","code":500}}` + "\n\ndata: [DONE]\n\n", "",
			&warmroute.StreamError{Kind: warmroute.StreamErrorEvent, Code: 500, Type: "InternalServerError"}, `answer failed after it had begun: error event 500 "InternalServerError"`},
		{"error event of messages", "text/event-stream", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"internal_error\"}}\n\n", "/v1/messages",
			&warmroute.StreamError{Kind: warmroute.StreamErrorEvent, Type: "internal_error"}, `answer failed after it had begun: error event "internal_error"`},
		{"the client's", "text/event-stream", `data: {"error":{"type":"BadRequestError","code":400}}` + "\n\ndata: [DONE]\n\n", "", nil, ""},
		{"aborted", "application/json", `{"choices":[{"message":{"content":""},"finish_reason":"abort"}]}`, "",
			&warmroute.StreamError{Kind: warmroute.StreamAborted}, "answer failed after it had begun: aborted"},
		{"truncated", "text/event-stream; charset=utf-8", "data: {\"choices\":[]}\n\n", "",
			&warmroute.StreamError{Kind: warmroute.StreamTruncated}, "answer failed after it had begun: truncated"},
		{"truncated messages", "text/event-stream", "event: message_start\ndata: {\"type\":\"message_start\"}\n\n", "/v1/messages",
			&warmroute.StreamError{Kind: warmroute.StreamTruncated}, "answer failed after it had begun: truncated"},
		{"truncated responses", "text/event-stream", "event: response.created\ndata: {}\n\ndata: [DONE", "/v1/responses",
			&warmroute.StreamError{Kind: warmroute.StreamTruncated}, "answer failed after it had begun: truncated"},
		{"a whole response", "text/event-stream", "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n", "/v1/responses", nil, ""},
		{"a page", "Text/HTML", "<html>", "", &warmroute.StreamError{Kind: warmroute.StreamForeign}, "answer failed after it had begun: not an answer"},
		{"a page elsewhere", "text/html", "<html>", "/docs", nil, ""},
		{"events elsewhere", "text/event-stream", "data: x\n\n", "/events", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var d doneErr
			router := newRouter(t, at("http://a", "http://b"), warmroute.WithHooks(&d))
			req := post(t, nil)
			req.Header.Set("X-Session-Id", "s")
			if tc.path != "" {
				req.URL.Path = tc.path
			}
			resp, err := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
				return reply(200, tc.contentType, strings.NewReader(tc.body)), nil
			})).RoundTrip(req)
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, tc.body, string(got), "every byte")
			require.Len(t, d.errs, 1)
			if tc.want == nil {
				require.NoError(t, d.errs[0])
				return
			}
			var failure *warmroute.StreamError
			require.ErrorAs(t, d.errs[0], &failure)
			assert.Equal(t, tc.want, failure)
			assert.Equal(t, tc.text, failure.Error())
		})
	}
}

// What an engine says of itself in an error is quoted where it is shown.
func TestStreamErrorIsOneLine(t *testing.T) {
	err := fmt.Errorf("%w", &warmroute.StreamError{Kind: warmroute.StreamErrorEvent, Type: "a\nb\x1b[31m"})
	assert.NotContains(t, err.Error(), "\n")
	assert.NotContains(t, err.Error(), "\x1b")
}
