package warmroute_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// A request that was sent once counts once, whatever ends it between two attempts.
func TestARequestThatEndsBetweenTwoAttemptsCountsOnce(t *testing.T) {
	gone := errors.New("gone")
	for name, prepare := range map[string]func(*warmroute.Router, *http.Request) *http.Request{
		"its body is not to be had again": func(_ *warmroute.Router, req *http.Request) *http.Request {
			req.GetBody = func() (io.ReadCloser, error) { return nil, gone }
			return req
		},
		"its caller gives up in the pause": func(_ *warmroute.Router, req *http.Request) *http.Request {
			ctx, cancel := context.WithCancelCause(req.Context())
			time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
			return req.WithContext(ctx)
		},
		"its caller gives up waiting for room": func(r *warmroute.Router, req *http.Request) *http.Request {
			ctx, cancel := context.WithCancelCause(req.Context())
			time.AfterFunc(time.Minute, func() { cancel(gone) })
			return req.WithContext(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := tight(t, at("http://a", "http://b"), warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true, Backoff: time.Second}))
				before := r.Stats().Pools[0].Requests
				full, err := r.Route(t.Context(), large("1"))
				require.NoError(t, err)
				base := &fleet{}
				base.set("a", reset)
				base.set("b", reset)
				body := strings.Repeat("x", 4*900)
				req := post(t, tracked(body))
				req.Header.Set("Content-Type", "text/plain")
				req.Header.Set("X-Session-Id", "2")
				req.ContentLength = int64(len(body))
				req.GetBody = func() (io.ReadCloser, error) { return tracked(body), nil }
				done := make(chan error, 1)
				go func() {
					_, err := r.Transport(base).RoundTrip(prepare(r, req))
					done <- err
				}()
				require.ErrorIs(t, <-done, gone)
				serve(full, 0)
				after := r.Stats().Pools[0].Requests
				assert.Equal(t, uint64(2), after.Placed-before.Placed, "it, and the one before it")
				assert.Len(t, base.sent(), 1)
				idleAgain(t, r)
			})
		})
	}
}
