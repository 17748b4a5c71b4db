package warmroute_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

func TestSpill(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"), warmroute.WithSpill(2))
	home, _ := turn(t, router, "s")
	var leases []warmroute.Lease
	for range 3 {
		lease := route(t, router, warmroute.Request{Session: "s"})
		assert.Equal(t, warmroute.Sticky, lease.Outcome(), "two in flight are not above two")
		assert.Equal(t, home, lease.Replica().Name())
		leases = append(leases, lease)
	}
	spilled := route(t, router, warmroute.Request{Session: "s"})
	assert.Equal(t, warmroute.Spilled, spilled.Outcome())
	assert.NotEqual(t, home, spilled.Replica().Name())
	spilled.Answered()
	spilled.Done(warmroute.Result{})
	assert.Equal(t, 1, replicaStats(t, router, home).Sessions, "it keeps its home")
	assert.Equal(t, uint64(1), replicaStats(t, router, spilled.Replica().Name()).SpilledIn)
	assert.Zero(t, replicaStats(t, router, spilled.Replica().Name()).Sessions)

	leases[0].Done(warmroute.Result{})
	back := route(t, router, warmroute.Request{Session: "s"})
	assert.Equal(t, warmroute.Sticky, back.Outcome())
	assert.Equal(t, home, back.Replica().Name())

	require.NoError(t, router.SetSpill("", 100))
	assert.Equal(t, warmroute.Sticky, route(t, router, warmroute.Request{Session: "s"}).Outcome(), "changed live")
	require.Error(t, router.SetSpill("", 0))
	require.ErrorIs(t, router.SetSpill("x", 1), warmroute.ErrUnknownModel)
}

func TestSpillThatWouldNotPayStays(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"), warmroute.WithSpill(1))
	home, _ := turn(t, router, "s")
	for range 2 {
		route(t, router, warmroute.Request{Session: "s"})
	}
	for range 2 {
		other := route(t, router, warmroute.Request{})
		require.NotEqual(t, home, other.Replica().Name())
	}
	stay := route(t, router, warmroute.Request{Session: "s"})
	assert.Equal(t, warmroute.Sticky, stay.Outcome(), "the other has as many in flight and a cold cache")
	assert.Equal(t, home, stay.Replica().Name())

	alone := newRouter(t, at("http://a"), warmroute.WithSpill(1))
	turn(t, alone, "s")
	for range 5 {
		assert.Equal(t, warmroute.Sticky, route(t, alone, warmroute.Request{Session: "s"}).Outcome(), "nowhere to go")
	}
}

// One hot conversation must not take affinity from the others.
func TestSpillJudgesTheHomeAlone(t *testing.T) {
	router := newRouter(t, four(), warmroute.WithSpill(8))
	homes := map[string]string{}
	for i := range 20 {
		s := fmt.Sprint("s", i)
		homes[s], _ = turn(t, router, s)
	}
	hot, _ := turn(t, router, "hot")
	for range 200 {
		route(t, router, warmroute.Request{Session: "hot"})
	}
	assert.GreaterOrEqual(t, replicaStats(t, router, hot).InFlight, 9)
	stats := router.Stats().Pools[0]
	for _, m := range stats.Replicas {
		assert.InDelta(t, 50, m.InFlight, 1, "the hot one is spread")
	}
	for s, home := range homes {
		lease := route(t, router, warmroute.Request{Session: s})
		if replicaStats(t, router, home).InFlight <= 9 {
			assert.Equal(t, home, lease.Replica().Name())
		}
		lease.Done(warmroute.Result{})
	}
}
