package faulttest_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

var chaosSeed = flag.Uint64("seed", 1, "of the chaos tests: the same one has the same faults, requests and cancels at the same times; an even one has the default picker wrapped")

// chaosEngine is small enough that the conversations do not all fit.
func chaosEngine(ranks int, seed uint64) fakevllm.Config {
	return fakevllm.Config{
		Ranks: ranks, CountHeader: idHeader, Seed: seed, Blocks: 300, MaxNumSeqs: 8,
		StepTime: 50 * time.Millisecond, PrefillRate: 20_000,
	}
}

// TestChaosInVirtualTime is an hour among engines and clients at their worst, and
// a quarter of one with a picker that looks at what the router has in hand.
// At its end all counts are exactly what is there.
func TestChaosInVirtualTime(t *testing.T) {
	for i, length := range []time.Duration{time.Hour, 15 * time.Minute} {
		seed := *chaosSeed + uint64(i)
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaosFor(t, seed, length) })
		})
	}
}

func chaosFor(t *testing.T, seed uint64, length time.Duration) {
	f := &fleet{t: t, engines: map[string]*fakevllm.Server{}}
	c := &chaos{t: t, unit: time.Second, seed: seed}
	var endpoints []warmroute.Endpoint
	for i := range chaosReplicas {
		host := fmt.Sprintf("engine%d:8000", i)
		c.engines = append(c.engines, f.put(host, chaosEngine(1+i%2, uint64(i))))
		c.urls = append(c.urls, "http://"+host)
		endpoints = append(endpoints, warmroute.Endpoint{URL: "http://" + host})
	}
	router, err := warmroute.New(endpoints, c.options(f)...)
	require.NoError(t, err)
	c.router, c.transport = router, router.Transport(f)
	running := make(chan error, 1)
	go func() { running <- router.Run(context.WithoutCancel(t.Context())) }()

	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	c.run(ctx)
	c.heal()
	time.Sleep(3 * time.Minute) // what is left out comes back, and patience ends
	synctest.Wait()
	c.checkQuiet()
	c.convince()
	c.checkRequests()
	c.checkPrefills()

	if length < time.Hour {
		c.checkForgotten()
	}
	require.NoError(t, router.Close())
	assert.NoError(t, <-running)
	for _, e := range c.engines {
		assert.NoError(t, e.Close())
	}
	// The bubble's end sees to it that no goroutine is left.
}

// checkForgotten checks that what nobody uses is forgotten, to the last.
func (c *chaos) checkForgotten() {
	time.Sleep(65 * time.Minute)
	assert.Zero(c.t, c.router.Stats().Pools[0].Sessions)
	for range 2 * chaosReplicas { // the residents are looked through as turns come
		c.checkPrefills()
		lease, err := c.router.Route(c.t.Context(), warmroute.Request{PromptTokens: 10})
		require.NoError(c.t, err)
		lease.Done(warmroute.Result{})
		time.Sleep(2 * time.Second)
	}
	for _, m := range c.router.Stats().Pools[0].Replicas {
		if assert.NotNil(c.t, m.Residents, m.Name) {
			assert.Zero(c.t, *m.Residents, m.Name)
		}
	}
}
