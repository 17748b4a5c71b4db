package replica_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/replica"
)

func one(t *testing.T) *replica.Replica {
	t.Helper()
	s, err := replica.NewSet(replica.Endpoint{URL: "http://a"})
	require.NoError(t, err)
	return s.Replicas()[0]
}

func TestRankHeaderIsCanonical(t *testing.T) {
	assert.Equal(t, http.CanonicalHeaderKey(replica.RankHeader), replica.RankHeader)
}

func TestBeginUnlessAbove(t *testing.T) {
	r := one(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	begun := 0
	for range 32 {
		wg.Go(func() {
			for range 100 {
				if r.BeginUnlessAbove(7) {
					mu.Lock()
					begun++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 8, begun, "the eighth finds seven, which is not above")
	assert.Equal(t, 8, r.InFlight())
}

func TestDownAfterUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := replica.NewSet(replica.Endpoint{URL: "http://a", Ranks: 2})
		require.NoError(t, err)
		r := s.Replicas()
		state := func() replica.State { return r[1].State(time.Now()) }
		for _, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			r[0].Unreachable(time.Now())
			r[0].Unreachable(time.Now()) // one of the same moment is the same failure
			assert.Equal(t, replica.Down, state(), "all ranks of the endpoint are")
			time.Sleep(pause*time.Second - time.Millisecond)
			assert.Equal(t, replica.Down, state(), "%d s", pause)
			time.Sleep(time.Millisecond)
			assert.Equal(t, replica.Up, state(), "%d s", pause)
		}
		r[0].Unreachable(time.Now())
		r[1].Reached()
		assert.Equal(t, replica.Up, state())
		r[0].Unreachable(time.Now())
		time.Sleep(time.Second)
		assert.Equal(t, replica.Up, state(), "an answer starts the pauses anew")
	})
}
