package warmroute_test

import (
	"context"
	"io"
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

// The comments that keep a stream alive while it waits for its engine are no
// answer: not a first byte, and no sign that a replica works again.
func TestCommentsAreNoFirstByte(t *testing.T) {
	for name, pieces := range map[string][]string{
		"whole":    {": keep-alive\n\n", ":\r\n\r\n", ":\n"},
		"in parts": {":", " keep", "-alive\n", "\n", ": data: x\r", "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hook := &results{}
				router := newRouter(t, at("http://a"), warmroute.WithHooks(hook),
					steadyBreaker(replica.BreakerConfig{Consecutive: 1, OpenFor: time.Second}))
				answers := true
				transport := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
					reader, writer := io.Pipe()
					context.AfterFunc(r.Context(), func() { _ = writer.CloseWithError(r.Context().Err()) })
					go func() {
						for _, piece := range pieces {
							time.Sleep(time.Second)
							if _, err := io.WriteString(writer, piece); err != nil {
								return
							}
						}
						time.Sleep(time.Second)
						if answers {
							_, _ = io.WriteString(writer, goodStream) // the reader may be gone
							_ = writer.Close()
						}
					}()
					return reply(200, "text/event-stream", reader), nil
				}))
				_, err := ask(t, transport, "")
				require.NoError(t, err)
				assert.Equal(t, time.Duration(len(pieces)+1)*time.Second, hook.only(t).FirstByte)

				lease := route(t, router, warmroute.Request{})
				lease.Done(warmroute.Result{Err: errReset})
				time.Sleep(time.Second)
				answers = false
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				resp, err := transport.RoundTrip(post(t, strings.NewReader(`{}`)).WithContext(ctx))
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, resp.Body)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NoError(t, resp.Body.Close())
				synctest.Wait() // the end of the context may have been first
				assert.Equal(t, replica.BreakerHalfOpen, router.Replicas()[0].Breaker(time.Now()), "nothing was shown")
				assert.Zero(t, inFlight(t, router))
			})
		})
	}
}
