package sdktest_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
	"github.com/warmroute/warmroute/internal/gatewaytest"
)

// fleet is two simulated engines of two ranks, a router, and an SDK that
// reaches them.
type fleet struct {
	engines []*fakevllm.Server
	faults  *faults
	router  *warmroute.Router
	sdk     client
}

// quick is an engine that takes no time to speak of, slow one that takes a
// second for a hundred tokens.
const (
	quick = time.Nanosecond
	slow  = 10 * time.Millisecond
)

// each runs a test for every SDK, with the router's transport in the SDK's
// client and behind a gateway. In the end every count is zero and no goroutine
// is left.
func each(t *testing.T, step time.Duration, test func(*testing.T, sdk, *fleet)) {
	for _, s := range sdks {
		for _, way := range []string{"transport", "gateway"} {
			t.Run(s.name+" by "+way, func(t *testing.T) {
				before := runtime.NumGoroutine()
				t.Cleanup(func() {
					gatewaytest.Eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
				})
				test(t, s, newFleet(t, s, way == "gateway", step))
			})
		}
	}
}

func newFleet(t *testing.T, s sdk, gateway bool, step time.Duration) *fleet {
	t.Helper()
	f := &fleet{faults: new(faults)}
	var endpoints []warmroute.Endpoint
	for range 2 {
		engine, err := fakevllm.New(fakevllm.Config{
			Ranks: 2, Version: "0.33.0", StepTime: step, ContextCost: 1, PrefillRate: 1e9, AnswerTokens: 1 << 20,
		})
		require.NoError(t, err)
		server := httptest.NewServer(f.faults.before(engine))
		t.Cleanup(func() {
			server.Close()
			assert.NoError(t, engine.Close())
		})
		f.engines = append(f.engines, engine)
		endpoints = append(endpoints, warmroute.Endpoint{URL: server.URL, Ranks: 2})
	}
	router, err := warmroute.New(endpoints)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, router.Close()) })
	f.router = router
	if !gateway {
		f.sdk = s.client("http://vllm", &http.Client{Transport: router.Transport(nil)})
	} else {
		proxy := httptest.NewServer(&httputil.ReverseProxy{
			Rewrite:       func(p *httputil.ProxyRequest) { p.SetXForwarded(); p.Out.Host = "" },
			Transport:     router.Transport(nil),
			ErrorHandler:  warmroute.ErrorHandler,
			FlushInterval: -1,
		})
		t.Cleanup(proxy.Close)
		transport := &http.Transport{MaxIdleConnsPerHost: 100}
		t.Cleanup(transport.CloseIdleConnections)
		f.sdk = s.client(proxy.URL, &http.Client{Transport: transport})
	}
	t.Cleanup(func() {
		gatewaytest.Eventually(t, "nothing is in flight", func() bool { return f.pool().InFlight == 0 })
		for _, replica := range f.pool().Replicas {
			assert.Zero(t, replica.InFlight, replica.Name)
		}
	})
	return f
}

func (f *fleet) pool() warmroute.PoolStats { return f.router.Stats().Pools[0] }

// counts adds up the engines' counters.
func (f *fleet) counts() fakevllm.Counts { return gatewaytest.Sum(f.engines) }

// faults stands before the engines and has their next answers fail.
type faults struct {
	mu       sync.Mutex
	next     []int    // statuses; 0 is a connection that is reset
	attempts []string // replicas that were tried
}

// have makes the next requests fail, and forgets the attempts so far.
func (f *faults) have(statuses ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next, f.attempts = statuses, nil
}

// tried are the replicas that requests came to since.
func (f *faults) tried() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attempts
}

func (f *faults) before(engine http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.attempts = append(f.attempts, r.Host+"@"+r.Header.Get("X-Data-Parallel-Rank"))
		status := http.StatusOK
		if len(f.next) > 0 {
			status, f.next = f.next[0], f.next[1:]
		}
		f.mu.Unlock()
		switch status {
		case http.StatusOK:
			engine.ServeHTTP(w, r)
		case 0:
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After-Ms", "1") // which both vendors' SDKs go by
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"error":{"message":"not now","type":"x","code":1}}`))
		}
	})
}

// text is a message of some length that no other conversation has.
func text(session string, turn int) string {
	return strings.Repeat(session+" says: tell me more about part "+string(rune('a'+turn))+". ", 30)
}
