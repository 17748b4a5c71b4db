package faulttest_test

import (
	"context"
	"flag"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

var chaosTime = flag.Duration("chaos", 5*time.Second, "how long TestChaosOverSockets goes on")

// TestChaosOverSockets is the same as TestChaosInVirtualTime in real time, fifty
// times as fast, with connections that are really refused, reset and left
// hanging.
func TestChaosOverSockets(t *testing.T) {
	before := goroutines()
	seed := *chaosSeed
	t.Log("seed", seed)
	c := &chaos{t: t, unit: 20 * time.Millisecond, seed: seed}
	var sockets []*fakevllm.Socket
	var endpoints []warmroute.Endpoint
	for i := range chaosReplicas {
		cfg := chaosEngine(1+i%2, uint64(i))
		cfg.StepTime, cfg.ContextCost, cfg.PrefillRate = time.Millisecond, 1, 1e6
		e, err := fakevllm.New(cfg)
		require.NoError(t, err)
		k, err := e.Listen()
		require.NoError(t, err)
		sockets = append(sockets, k)
		c.engines, c.urls = append(c.engines, e), append(c.urls, k.URL())
		endpoints = append(endpoints, warmroute.Endpoint{URL: k.URL()})
	}
	pages := &http.Transport{}
	router, err := warmroute.New(endpoints, c.options(pages)...)
	require.NoError(t, err)
	c.router, c.transport = router, router.Transport(nil)
	running := make(chan error, 1)
	go func() { running <- router.Run(context.WithoutCancel(t.Context())) }()

	ctx, cancel := context.WithTimeout(t.Context(), *chaosTime)
	defer cancel()
	c.run(ctx)
	c.heal()
	for _, k := range sockets {
		require.NoError(t, k.AwaitListening(10*time.Second))
	}
	idle := func() bool {
		if p := router.Stats().Pools[0]; p.InFlight > 0 || p.Queue.Waiting > 0 {
			return false
		}
		for _, e := range c.engines {
			for rank := range 4 {
				if n := e.Rank(rank); n.Running+n.Waiting > 0 {
					return false
				}
			}
		}
		return true
	}
	require.Eventually(t, idle, 20*time.Second, 10*time.Millisecond)
	c.checkQuiet()
	c.convince()
	c.checkRequests()
	require.Eventually(t, idle, 20*time.Second, 10*time.Millisecond)
	c.checkPrefills()

	require.NoError(t, router.Close())
	require.NoError(t, <-running)
	pages.CloseIdleConnections()
	for i, k := range sockets {
		assert.Eventually(t, func() bool { return k.Connections() == 0 }, 10*time.Second, 10*time.Millisecond, "connections of engine %d: %d", i, k.Connections())
		assert.NoError(t, k.Close())
		assert.NoError(t, c.engines[i].Close())
	}
	if !assert.Eventually(t, func() bool { return goroutines() <= before }, 10*time.Second, 10*time.Millisecond) {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
	}
}

// goroutines counts those that are there, but for the one that asks on behalf of
// Eventually and what the runtime keeps for itself.
func goroutines() int {
	buf := make([]byte, 1<<20)
	stacks := string(buf[:runtime.Stack(buf, true)])
	n := 0
	for _, stack := range strings.Split(stacks, "\n\n") {
		if !strings.Contains(stack, "faulttest_test.goroutines") && !strings.Contains(stack, "testify/assert.Eventually") {
			n++
		}
	}
	return n
}
