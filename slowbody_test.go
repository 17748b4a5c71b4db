package warmroute_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

// A client that is slow to send its body is not the replica's fault, however many
// of them there are.
func TestAClientThatSendsTooSlowlyIsNoFailureOfTheReplica(t *testing.T) {
	for _, length := range []int64{-1, 100} {
		synctest.Test(t, func(t *testing.T) {
			router := newRouter(t, at("http://a", "http://b"), warmroute.WithResponseHeaderTimeout(2*time.Second),
				warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true}), warmroute.WithPeekLimit(16))
			transport := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
				read := make(chan error, 1)
				go func() {
					_, err := io.Copy(io.Discard, r.Body)
					read <- err
				}()
				select {
				case err := <-read:
					require.NoError(t, err)
					return answer(200, http.NoBody), nil
				case <-r.Context().Done():
					// http.Transport closes the body when it has returned.
					time.AfterFunc(time.Millisecond, func() { _ = r.Body.Close() })
					return nil, r.Context().Err()
				}
			}))
			for range 10 {
				reader, writer := io.Pipe()
				go func() {
					_, _ = io.WriteString(writer, `{"model":"m","messages":[`) // it may be closed already
				}()
				req := post(t, reader)
				req.ContentLength = length
				req.Header.Set("X-Session-Id", "s")
				start := time.Now()
				_, err := transport.RoundTrip(req)
				require.ErrorIs(t, err, warmroute.ErrHeaderTimeout, "the limit holds for it all the same")
				assert.Equal(t, 2*time.Second, time.Since(start))
			}
			for _, s := range router.Stats().Pools[0].Replicas {
				assert.Zero(t, s.Failed)
				assert.Zero(t, s.HeaderTimeouts)
				assert.Zero(t, s.BreakerOpens)
			}
			assert.Zero(t, router.Stats().Pools[0].Requests.Retries, "it would be as slow elsewhere")
			assert.Zero(t, inFlight(t, router))
		})
	}
}

// One that has sent all of it waits for the replica, whatever the base reads on.
func TestAReplicaThatHasTheBodyAndDoesNotAnswerHasFailed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		length int64
		takes  int64 // of the body that the replica reads
	}{
		{"all of it", 14, 14},
		{"all of it, and the base looks for more", 14, 15},
		{"none of it", 14, 0},
		{"a part of it", 14, 4},
		{"all of it, in chunks", -1, 15},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				router := newRouter(t, at("http://a"), warmroute.WithResponseHeaderTimeout(2*time.Second))
				transport := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
					_, _ = io.CopyN(io.Discard, r.Body, tc.takes) // to its end or not
					<-r.Context().Done()
					_ = r.Body.Close()
					return nil, r.Context().Err()
				}))
				req := post(t, struct{ io.Reader }{strings.NewReader(`{"model": "m"}`)})
				req.ContentLength = tc.length
				_, err := transport.RoundTrip(req)
				require.ErrorIs(t, err, warmroute.ErrHeaderTimeout)
				s := replicaStats(t, router, "a:80")
				assert.Equal(t, [2]uint64{1, 1}, [2]uint64{s.Failed, s.HeaderTimeouts})
			})
		})
	}
}

// overdue is a context whose deadline has passed, which it has not noticed yet.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// A net.Dialer takes its time from the deadline, and may be done before the
// context is.
func TestACallersDeadlineLeavesNoReplicaOut(t *testing.T) {
	for name, err := range map[string]error{
		"while connecting": &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded},
		"afterwards":       &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			router := newRouter(t, at("http://a"))
			transport := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) { return nil, err }))
			_, got := transport.RoundTrip(post(t, nil).WithContext(overdue{t.Context()}))
			require.ErrorIs(t, got, os.ErrDeadlineExceeded)
			s := replicaStats(t, router, "a:80")
			assert.Equal(t, replica.Up, s.State)
			assert.Zero(t, s.Failed)
		})
	}
}

// Both at once: whichever is told of first.
func TestACallerGivesUpJustWhenTheHeaderTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a"), warmroute.WithResponseHeaderTimeout(time.Second))
		transport := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		for range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err := transport.RoundTrip(post(t, strings.NewReader("x")).WithContext(ctx))
			require.Error(t, err)
		}
		synctest.Wait()
		assert.Zero(t, inFlight(t, router))
	})
}
