package selector_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/integrations/selector"
)

func newRouter(t *testing.T, endpoints []warmroute.Endpoint, opts ...warmroute.Option) *warmroute.Router {
	t.Helper()
	router, err := warmroute.New(endpoints, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, router.Close()) })
	return router
}

func header(session string) http.Header { return http.Header{"X-Session-Id": {session}} }

func TestSelect(t *testing.T) {
	router := newRouter(t, []warmroute.Endpoint{
		{URL: "http://a/base", Model: "m", Ranks: 4}, {URL: "http://b", Model: "n"},
	})
	tests := []struct {
		name    string
		request selector.Request
		url     string
		ranked  bool
		err     error
	}{
		{name: "by model", request: selector.Request{Model: "m"}, url: "http://a/base/v1/chat/completions", ranked: true},
		{name: "by body", request: selector.Request{Body: []byte(`{"model":"n"}`)}, url: "http://b/v1/chat/completions"},
		{name: "model before body", request: selector.Request{Model: "m", Body: []byte(`{"model":"n"}`)}, url: "http://a/base/v1/chat/completions", ranked: true},
		{name: "path", request: selector.Request{Model: "n", Path: "/v1/messages"}, url: "http://b/v1/messages"},
		{name: "client's rank", request: selector.Request{Model: "m", Header: http.Header{"X-Data-Parallel-Rank": {"2"}}}, url: "http://a/base/v1/chat/completions", ranked: true},
		{name: "unknown model", request: selector.Request{Model: "other"}, err: warmroute.ErrUnknownModel},
		{name: "none of those", request: selector.Request{Model: "m", Among: []string{"http://b"}}, err: warmroute.ErrNoReplica},
		{name: "one of those", request: selector.Request{Model: "m", Among: []string{"http://a/base", "http://z"}}, url: "http://a/base/v1/chat/completions", ranked: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sel, err := selector.New(router).Select(t.Context(), test.request)
			if test.err != nil {
				require.ErrorIs(t, err, test.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.url, sel.URL.String())
			if test.ranked {
				assert.Len(t, sel.Set["X-Data-Parallel-Rank"], 1)
				assert.Empty(t, sel.Remove)
			} else {
				assert.Empty(t, sel.Set)
				assert.Equal(t, []string{"X-Data-Parallel-Rank"}, sel.Remove)
			}
			if want := test.request.Header.Get("X-Data-Parallel-Rank"); want != "" {
				assert.Equal(t, want, sel.Set.Get("X-Data-Parallel-Rank"))
			}
			assert.Equal(t, 1, sel.Replica().InFlight())
			sel.Done(selector.Outcome{Status: 200})
			assert.Zero(t, sel.Replica().InFlight())
		})
	}
}

// done keeps what became of the requests.
type done struct {
	mu      sync.Mutex
	results []warmroute.Result
}

func (d *done) OnDone(_ context.Context, e warmroute.DoneEvent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.results = append(d.results, e.Result)
}

func TestDone(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	reset := errors.New("reset")
	usage := warmroute.Usage{Prompt: 10, Cached: 8, Completion: 1, Known: true, Measured: true}
	tests := []struct {
		name    string
		outcome selector.Outcome
		want    warmroute.Result
		bound   bool
	}{
		{"whole", selector.Outcome{Status: 200, Usage: usage}, warmroute.Result{Usage: usage}, true},
		{"unmeasured", selector.Outcome{Status: 200}, warmroute.Result{}, true},
		{"client left", selector.Outcome{Status: 200, Err: context.Canceled}, warmroute.Result{NoTokens: true}, true},
		{"broken", selector.Outcome{Status: 200, Err: reset}, warmroute.Result{Err: reset, NoTokens: true}, true},
		{"refused by the engine", selector.Outcome{Status: 400}, warmroute.Result{NoTokens: true}, false},
		{"no connection", selector.Outcome{Err: refused}, warmroute.Result{Err: refused, Unreachable: true, NoTokens: true}, false},
		{"no answer", selector.Outcome{Err: reset}, warmroute.Result{Err: reset, NoTokens: true}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			seen := new(done)
			router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}}, warmroute.WithHooks(seen))
			selects := selector.New(router)
			sel, err := selects.Select(t.Context(), selector.Request{Header: header("s"), Path: "/openai/v1/completions"})
			require.NoError(t, err)
			var wg sync.WaitGroup
			wg.Go(func() { sel.Done(test.outcome) })
			wg.Wait()
			sel.Done(selector.Outcome{Status: 500})
			test.want.API = "/v1/completions"
			assert.Equal(t, []warmroute.Result{test.want}, seen.results)
			assert.Zero(t, router.Stats().Pools[0].InFlight)
			assert.Equal(t, test.bound, router.Stats().Pools[0].Sessions == 1)
		})
	}
	t.Run("failed", func(t *testing.T) {
		router := newRouter(t, []warmroute.Endpoint{{URL: "http://a"}})
		sel, err := selector.New(router).Select(t.Context(), selector.Request{})
		require.NoError(t, err)
		sel.Done(selector.Outcome{Status: 503})
		assert.Equal(t, uint64(1), router.Stats().Pools[0].Requests.Failed)
	})
}

func TestAnotherEndpointAfterAFailedOne(t *testing.T) {
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b", Ranks: 2}})
	selects := selector.New(router)
	first, err := selects.Select(t.Context(), selector.Request{Header: header("s")})
	require.NoError(t, err)
	first.Done(selector.Outcome{Err: &net.OpError{Op: "dial", Err: errors.New("refused")}})
	second, err := selects.Select(t.Context(), selector.Request{Header: header("s"), Tried: []*selector.Selection{first}})
	require.NoError(t, err)
	defer second.Done(selector.Outcome{})
	assert.False(t, first.Replica().SameEndpoint(second.Replica()))
	_, err = selects.Select(t.Context(), selector.Request{Tried: []*selector.Selection{first, second}})
	require.ErrorIs(t, err, warmroute.ErrNoReplica)
}

func TestEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, []warmroute.Endpoint{{URL: "http://a"}})
		for _, answered := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			sel, err := selector.New(router).Select(ctx, selector.Request{Header: header("s")})
			require.NoError(t, err)
			if answered {
				_, err := sel.Answered(200, nil).Write([]byte("{"))
				require.NoError(t, err)
			}
			assert.Equal(t, 1, router.Stats().Pools[0].InFlight)
			cancel()
			synctest.Wait()
			assert.Zero(t, router.Stats().Pools[0].InFlight)
			assert.Zero(t, router.Stats().Pools[0].Requests.Failed)
			_, err = selector.New(router).Select(ctx, selector.Request{})
			require.ErrorIs(t, err, context.Canceled)
		}
	})
}

// A gateway's context may be that of its whole life.
func TestNothingIsLeftInTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a"}})
	for name, end := range map[string]func(*selector.Selection){
		"done":     func(s *selector.Selection) { s.Done(selector.Outcome{Status: 200}) },
		"observed": func(s *selector.Selection) { s.Answered(200, nil).End(nil) },
		"observed, then done": func(s *selector.Selection) {
			s.Answered(200, nil).End(nil)
			s.Done(selector.Outcome{Status: 200})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ended := func() weak.Pointer[selector.Selection] {
				sel, err := selector.New(router).Select(ctx, selector.Request{Header: header("s")})
				require.NoError(t, err)
				end(sel)
				return weak.Make(sel)
			}()
			runtime.GC()
			assert.Nil(t, ended.Value())
			assert.Zero(t, router.Stats().Pools[0].InFlight)
		})
	}
}
