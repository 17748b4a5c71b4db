package faulttest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// Callers that give up at the very moment at which they are given their place:
// some take it, some do not, and none leaves anything in hand.
func TestGivingUpWhenItsTurnComes(t *testing.T) {
	virtual(t, []int{1}, func(t *testing.T, f *fleet) {
		large := func(session string) warmroute.Request {
			return warmroute.Request{Session: session, PromptTokens: 900, MaxTokens: 50}
		}
		served := warmroute.Result{Usage: warmroute.Usage{Prompt: 900, Completion: 50, Known: true, Measured: true}}
		gaveUp, took := 0, 0
		for range 60 {
			holder, err := f.router.Route(t.Context(), large("holder"))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			var mu sync.Mutex
			var all sync.WaitGroup
			for _, session := range []string{"x", "y", "z"} {
				all.Go(func() {
					lease, err := f.router.Route(ctx, large(session))
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						assert.ErrorIs(t, err, context.DeadlineExceeded)
						gaveUp++
						return
					}
					took++
					lease.Answered()
					lease.Done(served)
				})
			}
			time.Sleep(time.Second)
			holder.Answered()
			holder.Done(served)
			all.Wait()
			cancel()
			f.quiet()
			time.Sleep(time.Minute)
		}
		assert.Positive(t, gaveUp)
		t.Log("gave up:", gaveUp, "took their place:", took)
	}, warmroute.WithResidency(1000))
}
