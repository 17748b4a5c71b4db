package bench

import (
	"context"
	"errors"
	"fmt"
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

// ordered calls f in a bubble with an order.
func ordered(t *testing.T, f func(t *testing.T, o *order)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := newOrder()
		defer o.close()
		f(t, o)
	})
}

func TestOrderOfOneMoment(t *testing.T) {
	t.Parallel()
	ordered(t, func(t *testing.T, o *order) {
		began := time.Now()
		var events []string // of one goroutine at a time, or the race detector says so
		does := func(at mark, what string, then ...string) {
			go func() {
				time.Sleep(time.Second)
				o.pass(at)
				events = append(events, what)
				for _, next := range then {
					done := make(chan struct{})
					go func() {
						events = append(events, next)
						close(done)
					}()
					<-done
				}
			}()
		}
		does(mark{request: 2}, "2", "2 has", "come to", "its end")
		does(mark{request: 10}, "10")
		does(mark{name: "b"}, "b")
		does(mark{name: "a"}, "a")
		does(mark{request: 1}, "1")
		time.AfterFunc(time.Second, func() { events = append(events, "timer") })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"timer", "a", "b", "1", "2", "2 has", "come to", "its end", "10"}, events)
		assert.Equal(t, began.Add(2*time.Second), time.Now())
	})
}

// What somebody brings about may come before those who waited already.
func TestOrderTakesInWhatIsBroughtAbout(t *testing.T) {
	t.Parallel()
	ordered(t, func(t *testing.T, o *order) {
		var events []int
		for _, n := range []uint64{5, 3} {
			go func() {
				time.Sleep(time.Second)
				o.pass(mark{request: n})
				events = append(events, int(n))
				if n == 3 {
					go func() {
						o.pass(mark{request: 4})
						events = append(events, 4)
					}()
				}
			}()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, []int{3, 4, 5}, events)
	})
}

func TestOrderKeepsRequestsApart(t *testing.T) {
	t.Parallel()
	ordered(t, func(t *testing.T, o *order) {
		began := time.Now()
		var sent []string
		through := &entrance{o, roundTripFunc(func(req *http.Request) (*http.Response, error) {
			sent = append(sent, fmt.Sprint(req.Header.Get(conversationHeader), " ", time.Since(began), " ", req.Context().Value(orderKey{})))
			return nil, errors.New("nobody there")
		})}
		for _, name := range []string{"c", "a", "b"} {
			go func() {
				time.Sleep(time.Second)
				_, err := through.RoundTrip(requestOf(t.Context(), name))
				assert.Error(t, err)
			}()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"a 1s 1", "b 1.000000001s 2", "c 1.000000002s 3"}, sent)
	})
}

// However many pieces the answers of a moment come in, and whatever is between a
// client and them, one is read before the next.
func TestOrderOfAnswers(t *testing.T) {
	t.Parallel()
	ordered(t, func(t *testing.T, o *order) {
		out := &exit{o, "0", roundTripFunc(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			r, w := io.Pipe()
			go func() {
				time.Sleep(time.Second)
				for _, piece := range []string{"x", "y", "z"} {
					_, err := io.WriteString(w, piece)
					assert.NoError(t, err)
				}
				assert.NoError(t, w.Close())
			}()
			return &http.Response{Body: r}, nil
		})}
		var read []string
		for _, name := range []string{"c", "a", "b"} {
			go func() {
				resp, err := out.RoundTrip(requestOf(t.Context(), name))
				if !assert.NoError(t, err) {
					return
				}
				read = append(read, name)
				body, err := io.ReadAll(resp.Body)
				assert.NoError(t, err)
				read = append(read, name+string(body))
			}()
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b", "c", "axyz", "bxyz", "cxyz"}, read)

		empty := &exit{o, "0", roundTripFunc(func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: http.NoBody}, nil
		})}
		resp, err := empty.RoundTrip(requestOf(t.Context(), "d"))
		require.NoError(t, err)
		assert.Equal(t, http.NoBody, resp.Body, "as net/http marks it")
	})
}

func TestOrderOfTurnsThatWaitedForRoom(t *testing.T) {
	t.Parallel()
	ordered(t, func(t *testing.T, o *order) {
		var events []uint64
		for _, n := range []uint64{3, 1, 2} {
			go func() {
				o.OnDequeue(context.WithValue(t.Context(), orderKey{}, n), warmroute.DequeueEvent{})
				events = append(events, n)
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, []uint64{1, 2, 3}, events)
	})
}

func TestOrderLetsAllGoAtItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOrder()
		o.close()
		o.pass(mark{request: 1}) // else the bubble is stuck
		assert.Nil(t, context.Cause(t.Context()))
	})
}

func requestOf(ctx context.Context, conversation string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/v1/chat/completions", strings.NewReader("{}"))
	if err != nil {
		panic(err) // of the test
	}
	req.Header.Set(conversationHeader, conversation)
	return req
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
