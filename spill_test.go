package warmroute_test

import (
	"fmt"
	"testing"
	"time"

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

func TestSpillThresholdIsFound(t *testing.T) {
	waiting := func(running string) string {
		return pageOf(map[int]engine{0: {running: running, waiting: "2"}})
	}
	t.Run("from server_info", func(t *testing.T) {
		pages := newPages(map[string]string{"a": idle(0), "a/server_info": `{"vllm_config":{"scheduler_config":{"max_num_seqs":48}}}`})
		scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
			assert.Equal(t, warmroute.Threshold{Value: 12, Source: "server_info"}, r.Stats().Pools[0].Spill)
		})
	})
	t.Run("learned", func(t *testing.T) {
		pages := newPages(map[string]string{"a": pageOf(map[int]engine{0: {running: "90", waiting: "0"}})})
		scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
			assert.Equal(t, warmroute.Threshold{Value: 64, Source: "default"}, r.Stats().Pools[0].Spill, "nobody waits: that is not the limit")
			pages.set("a", waiting("3"))
			time.Sleep(2 * time.Second)
			assert.Equal(t, warmroute.Threshold{Value: 4, Source: "learned"}, r.Stats().Pools[0].Spill, "three may be all the cache holds")
			pages.set("a", waiting("48"))
			time.Sleep(2 * time.Second)
			assert.Equal(t, warmroute.Threshold{Value: 12, Source: "learned"}, r.Stats().Pools[0].Spill)
			pages.set("a", waiting("20"))
			time.Sleep(2 * time.Second)
			assert.Equal(t, warmroute.Threshold{Value: 12, Source: "learned"}, r.Stats().Pools[0].Spill, "the most ever seen")
			require.NoError(t, r.SetSpill("", 3))
			require.NoError(t, r.SetSpill("", warmroute.Auto))
			assert.Equal(t, warmroute.Threshold{Value: 12, Source: "learned"}, r.Stats().Pools[0].Spill, "kept while a number was set")
		})
	})
	t.Run("configured comes first", func(t *testing.T) {
		pages := newPages(map[string]string{"a": waiting("48"), "a/server_info": `{"vllm_config":{"scheduler_config":{"max_num_seqs":48}}}`})
		scraped(t, pages, at("http://a"), []warmroute.Option{warmroute.WithMaxNumSeqs(100)}, func(t *testing.T, r *warmroute.Router) {
			assert.Equal(t, warmroute.Threshold{Value: 25, Source: "max_num_seqs"}, r.Stats().Pools[0].Spill)
		})
	})
}
