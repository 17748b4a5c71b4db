// Package gatewaytest holds what every gateway around a router must do,
// whatever it is made of, as one test: conversations stay home over all APIs,
// tokens pass as they come, a client that leaves ends its run on the engine,
// errors and broken streams reach the client as what they are, and in the end
// every count is zero and no goroutine is left. The engines are simulated and
// everything goes over sockets of the loopback interface.
package gatewaytest

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// Gateway is what is tested.
type Gateway struct {
	// Serve starts the gateway for a router and returns its URL. It takes
	// bodies of at most maxBody bytes, and ends with the test.
	Serve func(t *testing.T, router *warmroute.Router, maxBody int64) (url string)

	// NoticesLate says that the gateway's server finds out that a client has
	// left only when it writes to it.
	NoticesLate bool

	// BodyUnseen says that the gateway knows a request by its headers alone, and
	// so not its model.
	BodyUnseen bool

	// BreaksUnseen says that the gateway is not told whether an answer ended
	// because its engine broke off or because its client left.
	BreaksUnseen bool

	// Except has the tests, by name, that do not hold for what the gateway is
	// built on, each with the reason.
	Except map[string]string
}

// Handler returns the Serve of a gateway that is an http.Handler.
func Handler(gateway func(router *warmroute.Router, maxBody int64) http.Handler) func(*testing.T, *warmroute.Router, int64) string {
	return func(t *testing.T, router *warmroute.Router, maxBody int64) string {
		t.Helper()
		server := httptest.NewServer(gateway(router, maxBody))
		t.Cleanup(server.Close)
		return server.URL
	}
}

// Run tests the gateway.
func Run(t *testing.T, g Gateway) {
	// What a framework starts once, and never ends, is there after the first.
	t.Run("warm up", g.streamsAtOnce)
	before := runtime.NumGoroutine()
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"conversations stay home", g.conversationsStay},
		{"tokens pass as they come", g.streamsAtOnce},
		{"client leaves a stream", g.clientLeavesStream},
		{"client never reads", g.clientNeverReads},
		{"client leaves before the answer", g.clientLeavesEarly},
		{"engine dies in a stream", g.engineDies},
		{"request passes unchanged", g.passesUnchanged},
		{"engine's refusal passes", g.refusalPasses},
		{"no replica", g.noReplica},
		{"unknown model", g.unknownModel},
		{"overloaded", g.overloaded},
		{"body too large", g.bodyTooLarge},
	} {
		if g.Except[test.name] == "" {
			t.Run(test.name, test.run)
		}
	}
	Eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// fleet is a gateway before simulated engines.
type fleet struct {
	t       *testing.T
	engines []*fakevllm.Server
	servers []*httptest.Server
	router  *warmroute.Router
	url     string
	client  *http.Client
}

// maxBody is what the tested gateways take, in bytes.
const maxBody = 1 << 20

// start serves n engines of two ranks each and the gateway. At its end the
// test has every count at zero.
func (g Gateway) start(t *testing.T, n int, cfg fakevllm.Config, opts ...warmroute.Option) *fleet {
	t.Helper()
	f := &fleet{t: t}
	cfg.Ranks, cfg.Version, cfg.LogSize = 2, "0.33.0", 10_000
	if cfg.StepTime == 0 {
		cfg.StepTime = 1
	}
	cfg.ContextCost, cfg.PrefillRate = 1, 1e9
	var endpoints []warmroute.Endpoint
	for range n {
		engine, err := fakevllm.New(cfg)
		require.NoError(t, err)
		server := httptest.NewServer(engine)
		t.Cleanup(func() {
			server.Close()
			assert.NoError(t, engine.Close())
		})
		f.engines, f.servers = append(f.engines, engine), append(f.servers, server)
		endpoints = append(endpoints, warmroute.Endpoint{URL: server.URL, Ranks: cfg.Ranks})
	}
	f.route(g, endpoints, opts...)
	return f
}

// route makes the router and starts the gateway.
func (f *fleet) route(g Gateway, endpoints []warmroute.Endpoint, opts ...warmroute.Option) {
	f.t.Helper()
	router, err := warmroute.New(endpoints, opts...)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { assert.NoError(f.t, router.Close()) })
	f.router = router
	f.url = g.Serve(f.t, router, maxBody)
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	f.client = &http.Client{Transport: transport}
	f.t.Cleanup(func() {
		Eventually(f.t, "nothing is in flight", func() bool { return f.pool().InFlight == 0 })
		transport.CloseIdleConnections()
	})
}

// pool is what the router has counted.
func (f *fleet) pool() warmroute.PoolStats { return f.router.Stats().Pools[0] }

// ranks adds up the engines' counters.
func (f *fleet) ranks() fakevllm.Counts { return Sum(f.engines) }

// Sum adds up what requests have come to on the engines' first two ranks. Those
// that wait are among the Running.
func Sum(engines []*fakevllm.Server) (sum fakevllm.Counts) {
	for _, engine := range engines {
		for rank := range 2 {
			c := engine.Rank(rank)
			sum.Requests += c.Requests
			sum.Running += c.Running + c.Waiting
			sum.Finished += c.Finished
			sum.Aborted += c.Aborted
			sum.CachedTokens += c.CachedTokens
			sum.PromptTokens += c.PromptTokens
		}
	}
	return sum
}

// Eventually waits for something that is only seen from outside. It starts no
// goroutine, since those are counted.
func Eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline.C:
			var stacks bytes.Buffer
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // a buffer takes it all
			t.Errorf("never: %s\n%s", what, &stacks)
			return
		}
	}
}
