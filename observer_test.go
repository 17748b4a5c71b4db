package warmroute_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

const (
	wholeChat  = `{"id":"c","choices":[],"usage":{"prompt_tokens":120,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":96}}}`
	streamChat = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n" +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":10,\"prompt_tokens_details\":{\"cached_tokens\":96}}}\n\n" +
		"data: [DONE]\n\n"
)

var measured = warmroute.Usage{Prompt: 120, Cached: 96, Completion: 10, Known: true, Measured: true}

// results keeps what became of the requests.
type results struct {
	mu   sync.Mutex
	done []warmroute.Result
}

func (r *results) OnDone(_ context.Context, e warmroute.DoneEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = append(r.done, e.Result)
}

func (r *results) only(t *testing.T) warmroute.Result {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Len(t, r.done, 1, "ended once")
	return r.done[0]
}

func TestObserver(t *testing.T) {
	broken := errors.New("reset")
	canceled := fmt.Errorf("client: %w", context.Canceled)
	tests := []struct {
		name, contentType, body string
		status                  int
		end                     error
		usage                   warmroute.Usage
		failed                  bool // counted as the replica's failure
		noTokens, forgotten     bool
	}{
		{name: "whole", status: 200, contentType: "application/json", body: wholeChat, usage: measured},
		{name: "whole to EOF", status: 200, contentType: "application/json", body: wholeChat, end: io.EOF, usage: measured},
		{name: "streamed", status: 200, contentType: "text/event-stream; charset=utf-8", body: streamChat, usage: measured},
		{name: "client leaves at the end mark", status: 200, contentType: "text/event-stream", body: streamChat, end: canceled, usage: measured},
		{name: "client leaves before", status: 200, contentType: "text/event-stream", body: streamChat[:60], end: canceled, noTokens: true},
		{name: "broken", status: 200, contentType: "text/event-stream", body: streamChat[:60], end: broken, failed: true, noTokens: true},
		{name: "error in the stream", status: 200, contentType: "text/event-stream", body: "data: {\"error\":{\"message\":\"x\",\"code\":500}}\n\ndata: [DONE]\n\n", failed: true},
		{name: "refused", status: 400, contentType: "application/json", body: `{"error":{}}`, noTokens: true, forgotten: true},
		{name: "failed", status: 500, noTokens: true, failed: true, forgotten: true},
		{name: "not measured", status: 200, contentType: "application/json", body: `{}`},
	}
	for _, test := range tests {
		for _, how := range []string{"written", "byte by byte", "read"} {
			t.Run(test.name+"/"+how, func(t *testing.T) {
				seen := new(results)
				router := newRouter(t, four(), warmroute.WithHooks(seen))
				req := post(t, nil)
				lease := route(t, router, warmroute.Request{Session: "s"})
				observer := lease.Observe(req, test.status, http.Header{"Content-Type": {test.contentType}})
				switch how {
				case "written":
					n, err := observer.Write([]byte(test.body))
					require.NoError(t, err)
					require.Equal(t, len(test.body), n)
				case "byte by byte":
					for i := range len(test.body) {
						_, err := observer.Write([]byte(test.body[i : i+1]))
						require.NoError(t, err)
					}
				case "read":
					rest := io.Reader(strings.NewReader(test.body))
					if test.end != nil && test.end != io.EOF {
						rest = io.MultiReader(rest, iotest.ErrReader(test.end))
					}
					if errors.Is(test.end, context.Canceled) {
						rest = strings.NewReader(test.body + "never read")
					}
					body := observer.Reader(io.NopCloser(rest))
					if errors.Is(test.end, context.Canceled) {
						_, err := io.ReadFull(body, make([]byte, len(test.body)))
						require.NoError(t, err)
					} else {
						got, err := io.ReadAll(body)
						assert.Equal(t, test.body, string(got))
						if test.end == broken {
							assert.Equal(t, broken, err)
						}
					}
					require.NoError(t, body.Close())
				}
				if how != "read" {
					if !strings.Contains(test.body, "[DONE]") { // by which the answer is over
						assert.Equal(t, 1, inFlight(t, router))
					}
					observer.End(test.end)
				}
				observer.End(errors.New("too late"))
				_, err := observer.Write([]byte(streamChat))
				require.NoError(t, err)

				assert.Zero(t, inFlight(t, router))
				result := seen.only(t)
				assert.Equal(t, test.usage, result.Usage)
				assert.Equal(t, test.failed, result.Err != nil, "%v", result.Err)
				assert.Equal(t, test.noTokens, result.NoTokens)
				assert.Equal(t, "/v1/chat/completions", result.API)
				_, outcome := turn(t, router, "s")
				if test.forgotten {
					assert.Equal(t, warmroute.Placed, outcome)
				} else {
					assert.Equal(t, warmroute.Sticky, outcome)
				}
			})
		}
	}
}

func TestObserverEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := new(results)
		router := newRouter(t, four(), warmroute.WithHooks(seen))
		ctx, cancel := context.WithCancel(t.Context())
		lease := route(t, router, warmroute.Request{Session: "s"})
		observer := lease.Observe(post(t, nil).WithContext(ctx), 200, http.Header{"Content-Type": {"text/event-stream"}})
		time.Sleep(time.Second)
		_, err := observer.Write([]byte(streamChat[:60]))
		require.NoError(t, err)
		cancel()
		synctest.Wait()
		assert.Zero(t, inFlight(t, router))
		result := seen.only(t)
		assert.NoError(t, result.Err)
		assert.Equal(t, time.Second, result.FirstByte)
		observer.End(nil)
		seen.only(t)
	})
}

func TestObserverOfTheZeroLease(t *testing.T) {
	observer := warmroute.Lease{}.Observe(post(t, nil), 200, nil)
	_, err := observer.Write([]byte(wholeChat))
	require.NoError(t, err)
	observer.End(nil)
	got, err := io.ReadAll(observer.Reader(io.NopCloser(strings.NewReader("x"))))
	require.NoError(t, err)
	assert.Equal(t, "x", string(got))
}

// TestObserverConcurrently is for the race detector: the end of the client may
// be noticed elsewhere than where the answer is read.
func TestObserverConcurrently(t *testing.T) {
	seen := new(results)
	router := newRouter(t, four(), warmroute.WithHooks(seen))
	lease := route(t, router, warmroute.Request{Session: "s"})
	observer := lease.Observe(post(t, nil), 200, http.Header{"Content-Type": {"text/event-stream"}})
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 100 {
			_, _ = observer.Write([]byte(streamChat))
		}
		observer.End(nil)
	})
	wg.Go(func() { observer.End(context.Canceled) })
	wg.Wait()
	seen.only(t)
	assert.Zero(t, inFlight(t, router))
}

// What is shown to an observer whose lease was ended past it is nobody else's.
func TestObserverOfAnEndedLease(t *testing.T) {
	p := new(seen)
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}}, warmroute.WithPicker(newSeen(p)))
	pending := func() (tokens int) {
		lease := route(t, router, warmroute.Request{})
		defer lease.Done(warmroute.Result{})
		for _, c := range p.candidates {
			tokens += c.PendingPrefill
		}
		return tokens
	}
	for range 20 { // what a lease had is used again, mostly
		ended := route(t, router, warmroute.Request{PromptTokens: 1000})
		observer := ended.Observe(post(t, http.NoBody), 200, http.Header{"Content-Type": {"text/event-stream"}})
		ended.Done(warmroute.Result{})
		other := route(t, router, warmroute.Request{PromptTokens: 500})
		_, err := io.WriteString(observer, streamChat)
		require.NoError(t, err)
		assert.Equal(t, 500, pending())
		other.Done(warmroute.Result{})
		require.Zero(t, pending())
	}
}

// Neither is it where turns are admitted: the other's first byte is to come.
func TestObserverOfAnEndedTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, []warmroute.Endpoint{{URL: "http://a"}}, warmroute.WithResidency(1<<20))
		start := func() (warmroute.Lease, *warmroute.Observer) {
			lease := route(t, router, warmroute.Request{Session: "s", PromptTokens: 1000})
			return lease, lease.Observe(post(t, http.NoBody), 200, http.Header{"Content-Type": {"text/event-stream"}})
		}
		var wg sync.WaitGroup
		for range 50 {
			lease, observer := start()
			wg.Go(func() { lease.Done(warmroute.Result{}) })
			wg.Go(func() { _, _ = io.WriteString(observer, streamChat) })
		}
		wg.Wait()
		assert.Zero(t, router.Stats().Pools[0].InFlight)
	})
}
