package faulttest_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// Callers that give up at the very moment at which they are given their place:
// some take it, some do not, and none leaves anything in hand.
func TestGivingUpWhenItsTurnComes(t *testing.T) {
	waited, gaveUp, took := 0, 0, 0
	for i := range 300 {
		synctest.Test(t, func(t *testing.T) {
			w, g, k := giveUp(t, i)
			waited, gaveUp, took = waited+w, gaveUp+g, took+k
		})
	}
	t.Log("waited:", waited, "gave up:", gaveUp, "took their place:", took)
	assert.Positive(t, waited)
	assert.Positive(t, gaveUp)
	assert.Positive(t, took)
}

func giveUp(t *testing.T, i int) (waited, gaveUp, took int) {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a", Ranks: 1}}, warmroute.WithResidency(1000))
	require.NoError(t, err)
	defer router.Close()
	large := func(session string) warmroute.Request {
		return warmroute.Request{Session: session, PromptTokens: 900, MaxTokens: 50}
	}
	end := func(lease warmroute.Lease) {
		lease.Answered()
		lease.Done(warmroute.Result{Usage: warmroute.Usage{Prompt: 900, Completion: 50, Known: true, Measured: true}})
	}
	for range 70 { // the router learns what turns are like
		lease, err := router.Route(t.Context(), large(""))
		require.NoError(t, err)
		end(lease)
	}
	holder, err := router.Route(t.Context(), large(""))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, session := range []string{"x", "y", "z"} {
		all.Go(func() {
			lease, err := router.Route(ctx, large(session))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				assert.ErrorIs(t, err, context.Canceled)
				gaveUp++
				return
			}
			took++
			end(lease)
		})
	}
	synctest.Wait()
	waited = router.Stats().Pools[0].Queue.Waiting
	switch i % 3 { // at the same time, as nearly as can be
	case 0:
		cancel()
		end(holder)
	case 1:
		go cancel()
		runtime.Gosched()
		end(holder)
	case 2:
		go end(holder)
		runtime.Gosched()
		cancel()
	}
	all.Wait()
	cancel()
	synctest.Wait()
	s := router.Stats().Pools[0]
	require.Zero(t, s.InFlight)
	require.Zero(t, s.Replicas[0].InFlight)
	require.Zero(t, s.Queue.Waiting)
	return waited, gaveUp, took
}
