package warmroute_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

func TestClientRank(t *testing.T) {
	endpoints := []warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b", Ranks: 4}, {URL: "http://c", Ranks: 1}}
	t.Run("honoured", func(t *testing.T) {
		router := newRouter(t, endpoints)
		for range 4 {
			lease := route(t, router, warmroute.Request{ClientRank: " 3 "})
			assert.Equal(t, warmroute.Pinned, lease.Outcome())
			assert.Equal(t, "b:80@3", lease.Replica().Name())
			value, ok := lease.RankHeader()
			assert.True(t, ok)
			assert.Equal(t, "3", value)
		}
		names := map[string]int{}
		for range 4 {
			names[route(t, router, warmroute.Request{ClientRank: "1"}).Replica().Name()]++
		}
		assert.Equal(t, map[string]int{"a:80@1": 2, "b:80@1": 2}, names, "by load where several have it")
		assert.Equal(t, uint64(8), router.Stats().Pools[0].Requests.Pinned)
	})
	t.Run("of a conversation", func(t *testing.T) {
		router := newRouter(t, endpoints)
		lease := route(t, router, warmroute.Request{Session: "s", ClientRank: "2"})
		lease.Answered()
		lease.Done(warmroute.Result{})
		name, outcome := turn(t, router, "s")
		assert.Equal(t, "b:80@2", name, "the first pin makes a home")
		assert.Equal(t, warmroute.Sticky, outcome)
		lease = route(t, router, warmroute.Request{Session: "s", ClientRank: "3"})
		assert.Equal(t, "b:80@3", lease.Replica().Name(), "a pin beats the home")
		lease.Answered()
		lease.Done(warmroute.Result{})
		name, _ = turn(t, router, "s")
		assert.Equal(t, "b:80@2", name, "which stays")
	})
	t.Run("of a conversation, on several endpoints", func(t *testing.T) {
		router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 4}, {URL: "http://b", Ranks: 4}})
		names := map[string]int{}
		for i := range 10 {
			turn(t, router, fmt.Sprint("other", i)) // makes load differ
			lease := route(t, router, warmroute.Request{Session: "s", ClientRank: "2"})
			lease.Answered()
			lease.Done(warmroute.Result{})
			names[lease.Replica().Name()]++
		}
		assert.Len(t, names, 1, "it stays with the one that has its prefix")
	})
	t.Run("some ranks are not known", func(t *testing.T) {
		router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 4}, {URL: "http://b"}})
		for range 4 {
			assert.Equal(t, "a:80@3", route(t, router, warmroute.Request{ClientRank: "3"}).Replica().Name(), "who has it comes first")
		}
		assert.Equal(t, "b:80", route(t, router, warmroute.Request{ClientRank: "7"}).Replica().Name(), "who may have it after")
		_, err := router.Route(t.Context(), warmroute.Request{ClientRank: "-5"})
		require.ErrorIs(t, err, warmroute.ErrClientRank)
	})
	t.Run("nobody has it", func(t *testing.T) {
		router := newRouter(t, endpoints)
		for _, rank := range []string{"4", "-1", "99999"} {
			_, err := router.Route(t.Context(), warmroute.Request{ClientRank: rank, Session: "s"})
			require.ErrorIs(t, err, warmroute.ErrClientRank)
			assert.ErrorContains(t, err, rank)
		}
		assert.Equal(t, uint64(3), router.Stats().Pools[0].Requests.Refused)
	})
	t.Run("not a number", func(t *testing.T) {
		router := newRouter(t, endpoints)
		assert.Equal(t, warmroute.Unkeyed, route(t, router, warmroute.Request{ClientRank: "x"}).Outcome(), "ignored, as vLLM does")
	})
	t.Run("single ranks have none to choose", func(t *testing.T) {
		router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 1}, {URL: "http://b", Ranks: 1}})
		lease := route(t, router, warmroute.Request{ClientRank: "3"})
		assert.Equal(t, warmroute.Unkeyed, lease.Outcome())
		_, ok := lease.RankHeader()
		assert.False(t, ok)
	})
	t.Run("ranks not known yet", func(t *testing.T) {
		router := newRouter(t, at("http://a"))
		lease := route(t, router, warmroute.Request{ClientRank: "3"})
		assert.Equal(t, warmroute.Pinned, lease.Outcome())
		value, ok := lease.RankHeader()
		assert.True(t, ok)
		assert.Equal(t, "3", value, "the client may know better")
	})
	t.Run("a draining rank", func(t *testing.T) {
		router := newRouter(t, four())
		require.NoError(t, router.Drain("a:80@1"))
		assert.Equal(t, "a:80@1", route(t, router, warmroute.Request{ClientRank: "1"}).Replica().Name())
	})
	t.Run("dropped", func(t *testing.T) {
		router := newRouter(t, four(), warmroute.WithClientRank(warmroute.DropClientRank))
		for range 4 {
			assert.Equal(t, warmroute.Unkeyed, route(t, router, warmroute.Request{ClientRank: "1"}).Outcome())
		}
		assert.Equal(t, 1, replicaStats(t, router, "a:80@1").InFlight)
	})
	t.Run("refused", func(t *testing.T) {
		router := newRouter(t, four(), warmroute.WithClientRank(warmroute.RefuseClientRank))
		_, err := router.Route(t.Context(), warmroute.Request{ClientRank: "1"})
		require.ErrorIs(t, err, warmroute.ErrClientRank)
	})
}
