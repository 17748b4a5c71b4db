package warmroute_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
)

// four are the ranks of one endpoint.
func four() []warmroute.Endpoint { return []warmroute.Endpoint{{URL: "http://a", Ranks: 4}} }

func route(t *testing.T, r *warmroute.Router, req warmroute.Request) warmroute.Lease {
	t.Helper()
	lease, err := r.Route(t.Context(), req)
	require.NoError(t, err)
	return lease
}

// turn routes a request of a session, answers it and returns where it went.
func turn(t *testing.T, r *warmroute.Router, session string) (string, warmroute.Outcome) {
	t.Helper()
	lease := route(t, r, warmroute.Request{Session: session})
	lease.Answered()
	lease.Done(warmroute.Result{})
	return lease.Replica().Name(), lease.Outcome()
}

func replicaStats(t *testing.T, r *warmroute.Router, name string) warmroute.ReplicaStats {
	t.Helper()
	for _, p := range r.Stats().Pools {
		for _, m := range p.Replicas {
			if m.Name == name {
				return m
			}
		}
	}
	require.Fail(t, "no such replica", name)
	return warmroute.ReplicaStats{}
}

func TestConversationStays(t *testing.T) {
	router := newRouter(t, four())
	homes := map[string]string{}
	for n := range 10 {
		for i := range 40 {
			session := fmt.Sprint("s", i)
			name, outcome := turn(t, router, session)
			if n == 0 {
				assert.Equal(t, warmroute.Placed, outcome)
				homes[session] = name
				continue
			}
			require.Equal(t, warmroute.Sticky, outcome)
			require.Equal(t, homes[session], name)
		}
	}
	s := router.Stats().Pools[0]
	assert.Equal(t, warmroute.RequestStats{Placed: 40, Sticky: 360}, s.Requests)
	assert.InDelta(t, 0.9, *s.StickyShare, 1e-9)
	assert.Equal(t, 40, s.Sessions)
	for _, m := range s.Replicas {
		assert.Equal(t, 10, m.Sessions, "one after another they spread evenly: %s", m.Name)
		assert.Equal(t, uint64(10), m.Placed)
		assert.Equal(t, uint64(90), m.Sticky)
	}
}

func TestBurstSpreads(t *testing.T) {
	router := newRouter(t, four())
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			_, err := router.Route(context.Background(), warmroute.Request{Session: fmt.Sprint(i)})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	for _, m := range router.Stats().Pools[0].Replicas {
		assert.Equal(t, 50, m.InFlight, "pick and count are one step")
	}
}

func TestUnkeyedIsPlacedByLoad(t *testing.T) {
	router := newRouter(t, four())
	for range 40 {
		lease := route(t, router, warmroute.Request{})
		assert.Equal(t, warmroute.Unkeyed, lease.Outcome())
	}
	for range 4 {
		lease := route(t, router, warmroute.Request{Session: strings.Repeat("x", 513)})
		assert.Equal(t, warmroute.Unkeyed, lease.Outcome(), "a key too long is none")
	}
	for _, m := range router.Stats().Pools[0].Replicas {
		assert.Equal(t, 11, m.InFlight, "never hashed to one replica")
		assert.Equal(t, uint64(11), m.Unkeyed)
	}
	assert.Zero(t, router.Stats().Pools[0].Sessions)
}

func TestFirstRequestsOfAConversationGoTogether(t *testing.T) {
	router := newRouter(t, four(), warmroute.WithPicker(balance.RoundRobin))
	for round := range 300 {
		session := fmt.Sprint("s", round)
		var ready, wg sync.WaitGroup
		var mu sync.Mutex
		names := map[string]int{}
		outcomes := map[warmroute.Outcome]int{}
		var leases []warmroute.Lease
		ready.Add(16)
		for range 16 {
			wg.Go(func() {
				ready.Done()
				ready.Wait()
				lease, err := router.Route(context.Background(), warmroute.Request{Session: session})
				assert.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				names[lease.Replica().Name()]++
				outcomes[lease.Outcome()]++
				leases = append(leases, lease)
			})
		}
		wg.Wait()
		for _, lease := range leases {
			lease.Done(warmroute.Result{})
		}
		require.Len(t, names, 1)
		require.Equal(t, map[warmroute.Outcome]int{warmroute.Placed: 1, warmroute.Sticky: 15}, outcomes)
	}
}

func TestBindingIsMadeByAnAnswer(t *testing.T) {
	router := newRouter(t, four())
	lease := route(t, router, warmroute.Request{Session: "s"})
	lease.Done(warmroute.Result{Err: errors.New("reset")})
	assert.Zero(t, router.Stats().Pools[0].Sessions, "nothing of it is cached anywhere")
	_, outcome := turn(t, router, "s")
	assert.Equal(t, warmroute.Placed, outcome)
	_, outcome = turn(t, router, "s")
	assert.Equal(t, warmroute.Sticky, outcome)
	assert.Equal(t, uint64(1), router.Stats().Pools[0].Requests.Failed)
}

func TestSubAgentGoesToItsParentsReplica(t *testing.T) {
	router := newRouter(t, four())
	for i := range 7 {
		turn(t, router, fmt.Sprint("other", i))
	}
	home, _ := turn(t, router, "main")
	child := route(t, router, warmroute.Request{Session: "main/sub", Parent: "main"})
	assert.Equal(t, warmroute.Placed, child.Outcome())
	assert.Equal(t, home, child.Replica().Name())
	assert.Equal(t, 8+1, router.Stats().Pools[0].Sessions, "it is a conversation of its own")
}

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

func TestAffinityCanBeSwitchedLive(t *testing.T) {
	router := newRouter(t, four(), warmroute.WithAffinity(false), warmroute.WithPicker(func() balance.Picker { return balance.RoundRobin() }))
	names := map[string]bool{}
	var last string
	for range 4 {
		name, outcome := turn(t, router, "s")
		assert.Equal(t, warmroute.Placed, outcome)
		names[name] = true
		last = name
	}
	assert.Len(t, names, 4)
	assert.Equal(t, 1, router.Stats().Pools[0].Sessions)
	require.NoError(t, router.SetAffinity("", true))
	for range 4 {
		name, outcome := turn(t, router, "s")
		assert.Equal(t, warmroute.Sticky, outcome)
		assert.Equal(t, last, name, "its home is where it was last")
	}
	require.ErrorIs(t, router.SetAffinity("x", true), warmroute.ErrUnknownModel)
}

func TestModels(t *testing.T) {
	endpoints := []warmroute.Endpoint{{URL: "http://a", Model: "x"}, {URL: "http://b", Model: "x"}, {URL: "http://c", Model: "y"}}
	router := newRouter(t, endpoints, warmroute.WithPool("y", warmroute.WithAffinity(false), warmroute.WithSpill(3)))
	for range 4 {
		assert.Equal(t, "c:80", route(t, router, warmroute.Request{Model: "y", Session: "s"}).Replica().Name())
		assert.NotEqual(t, "c:80", route(t, router, warmroute.Request{Model: "x", Session: "s"}).Replica().Name())
		assert.NotEqual(t, "c:80", route(t, router, warmroute.Request{}).Replica().Name(), "no model: the first pool")
	}
	_, err := router.Route(t.Context(), warmroute.Request{Model: "z"})
	require.ErrorIs(t, err, warmroute.ErrUnknownModel)
	assert.ErrorContains(t, err, `"z"`)
	stats := router.Stats().Pools
	require.Len(t, stats, 2)
	assert.Equal(t, "x", stats[0].Model)
	assert.True(t, stats[0].Affinity)
	assert.False(t, stats[1].Affinity)
	assert.Equal(t, warmroute.Threshold{Value: 3, Source: "fixed"}, stats[1].Spill)

	require.NoError(t, router.Add(warmroute.Endpoint{URL: "http://d"}))
	for _, model := range []string{"", "z"} {
		assert.Equal(t, "d:80", route(t, router, warmroute.Request{Model: model}).Replica().Name(), "the default pool takes the rest")
	}
}

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

func TestDrainKeepsConversations(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	homes := map[string]string{}
	for i := range 10 {
		s := fmt.Sprint("s", i)
		homes[s], _ = turn(t, router, s)
	}
	require.NoError(t, router.Drain("http://a"))
	assert.Equal(t, "draining", string(replicaStats(t, router, "a:80").State))
	for s, home := range homes {
		name, outcome := turn(t, router, s)
		assert.Equal(t, warmroute.Sticky, outcome)
		assert.Equal(t, home, name)
	}
	for i := range 10 {
		name, _ := turn(t, router, fmt.Sprint("new", i))
		assert.Equal(t, "b:80", name)
	}
	require.NoError(t, router.Resume("a:80"))
	for i := range 10 {
		turn(t, router, fmt.Sprint("newer", i))
	}
	assert.Equal(t, 15, replicaStats(t, router, "a:80").Sessions)

	require.NoError(t, router.Drain("a:80"))
	require.NoError(t, router.Drain("b:80"))
	_, err := router.Route(t.Context(), warmroute.Request{Session: "nobody takes it"})
	require.ErrorIs(t, err, warmroute.ErrNoReplica)
	require.ErrorIs(t, router.Drain("c:80"), warmroute.ErrUnknownReplica)
}

func TestRemoveWhileInFlight(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	for i := range 10 {
		turn(t, router, fmt.Sprint("s", i))
	}
	var onA warmroute.Lease
	for onA.Replica() == nil || onA.Replica().Name() != "a:80" {
		onA = route(t, router, warmroute.Request{Session: "live"})
		onA.Answered()
		if onA.Replica().Name() != "a:80" {
			onA.Done(warmroute.Result{})
			require.NoError(t, router.Remove("http://b"))
			require.NoError(t, router.Add(warmroute.Endpoint{URL: "http://b"}))
		}
	}
	require.NoError(t, router.Remove("http://a"))
	assert.Equal(t, 1, router.Stats().Pools[0].InFlight, "it goes on to its end")
	name, outcome := turn(t, router, "live")
	assert.Equal(t, "b:80", name)
	assert.Equal(t, warmroute.Placed, outcome)
	require.NoError(t, router.Add(warmroute.Endpoint{URL: "http://a"}))
	back := replicaStats(t, router, "a:80")
	assert.Zero(t, back.InFlight)
	assert.Zero(t, back.Placed, "who comes back starts at zero")
	onA.Done(warmroute.Result{})
	assert.Zero(t, replicaStats(t, router, "a:80").InFlight, "and does not go negative")
	assert.Zero(t, router.Stats().Pools[0].InFlight)
	for i := range 10 {
		name, _ := turn(t, router, fmt.Sprint("s", i))
		home, _ := turn(t, router, fmt.Sprint("s", i))
		assert.Equal(t, name, home)
	}
	require.ErrorIs(t, router.Remove("http://z"), warmroute.ErrUnknownReplica)
	require.ErrorIs(t, router.Add(warmroute.Endpoint{URL: "http://a"}), warmroute.ErrDuplicate)
	require.NoError(t, router.Remove("http://a"))
	require.NoError(t, router.Remove("http://b"))
	_, err := router.Route(t.Context(), warmroute.Request{})
	require.ErrorIs(t, err, warmroute.ErrNoReplica)
}

func TestDoneOnce(t *testing.T) {
	router := newRouter(t, at("http://a"))
	lease := route(t, router, warmroute.Request{Session: "s"})
	again := lease
	lease.Done(warmroute.Result{Err: errors.New("x")})
	// The ticket may serve another request now; a late Done must not end that.
	var others []warmroute.Lease
	for range 100 {
		others = append(others, route(t, router, warmroute.Request{}))
	}
	for range 3 {
		lease.Done(warmroute.Result{Err: errors.New("x")})
		again.Done(warmroute.Result{Err: errors.New("x")})
	}
	assert.Equal(t, 100, inFlight(t, router))
	assert.Equal(t, uint64(1), router.Stats().Pools[0].Requests.Failed)
	for _, o := range others {
		o.Done(warmroute.Result{})
	}
	assert.Zero(t, inFlight(t, router))

	var zero warmroute.Lease
	zero.Answered()
	zero.Done(warmroute.Result{})
	assert.Nil(t, zero.Replica())
	_, ok := zero.RankHeader()
	assert.False(t, ok)
}

func TestRouteHonoursItsContext(t *testing.T) {
	router := newRouter(t, at("http://a"))
	cause := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err := router.Route(ctx, warmroute.Request{})
	require.ErrorIs(t, err, cause)
	assert.Zero(t, inFlight(t, router))
}

func TestSessionTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, four(), warmroute.WithSessionTTL(time.Minute))
		turn(t, router, "s")
		time.Sleep(time.Minute - 1)
		_, outcome := turn(t, router, "s")
		assert.Equal(t, warmroute.Sticky, outcome)
		time.Sleep(time.Minute)
		_, outcome = turn(t, router, "s")
		assert.Equal(t, warmroute.Placed, outcome)
		live := route(t, router, warmroute.Request{Session: "s"})
		time.Sleep(time.Hour)
		_, outcome = turn(t, router, "s")
		assert.Equal(t, warmroute.Sticky, outcome, "never while one is in flight")
		live.Done(warmroute.Result{})
	})
}

func TestVeryLongTTLs(t *testing.T) {
	for _, ttl := range []time.Duration{200 * 365 * 24 * time.Hour, 1<<62 - 1, 1<<63 - 1} {
		router := newRouter(t, four(), warmroute.WithSessionTTL(ttl))
		turn(t, router, "s")
		_, outcome := turn(t, router, "s")
		assert.Equal(t, warmroute.Sticky, outcome)
	}
}

func TestKeyAsTheTransportFindsIt(t *testing.T) {
	router := newRouter(t, four(), warmroute.WithSessionHeader("x-chat"))
	assert.Equal(t, "c", router.Key(http.Header{"X-Chat": {"c"}, "X-Session-Id": {"s"}}, nil).Session)
	field := map[string]string{"metadata.user_id": `{"session_id":"b"}`}
	assert.Equal(t, "b", router.Key(nil, func(path string) string { return field[path] }).Session)
}

func TestRouteAroundWhatWasTried(t *testing.T) {
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b"}})
	var tried []*warmroute.Replica
	for range 2 {
		lease, err := router.Route(t.Context(), warmroute.Request{Tried: tried})
		require.NoError(t, err)
		for _, before := range tried {
			assert.False(t, lease.Replica().SameEndpoint(before))
		}
		tried = append(tried, lease.Replica())
		lease.Done(warmroute.Result{Err: errors.New("refused"), Unreachable: true})
		assert.Equal(t, "down", string(replicaStats(t, router, lease.Replica().Name()).State))
	}
	_, err := router.Route(t.Context(), warmroute.Request{Tried: tried})
	require.ErrorIs(t, err, warmroute.ErrNoReplica)
}

func TestMaxSessions(t *testing.T) {
	router := newRouter(t, four(), warmroute.WithMaxSessions(10))
	for i := range 100 {
		turn(t, router, fmt.Sprint(i))
	}
	assert.Equal(t, 10, router.Stats().Pools[0].Sessions)
}

// brokenPicker fails in every way a picker can.
type brokenPicker struct{ n int }

func (p *brokenPicker) Pick(*balance.Request, []balance.Candidate) (int, error) {
	p.n++
	switch p.n % 4 {
	case 0:
		return 0, errors.New("broken")
	case 1:
		return -1, nil
	case 2:
		return 99, nil
	}
	panic("picker")
}

func TestABrokenPickerFailsNoRequest(t *testing.T) {
	router := newRouter(t, four(), warmroute.WithPicker(func() balance.Picker { return &brokenPicker{n: 3} }))
	for range 3 {
		route(t, router, warmroute.Request{Session: "s"}).Done(warmroute.Result{})
	}
	assert.Equal(t, uint64(3), router.Stats().Pools[0].Requests.PickerErrors)
	assert.Panics(t, func() { _, _ = router.Route(t.Context(), warmroute.Request{Session: "s"}) })
	assert.Zero(t, inFlight(t, router))
	route(t, router, warmroute.Request{Session: "s"}).Done(warmroute.Result{})
	assert.Zero(t, router.Stats().Pools[0].Sessions, "a panic leaves no lock, no count and no conversation in use")
}

// seen notes what a picker is told.
type seen struct {
	requests   []balance.Request
	candidates []balance.Candidate
}

func (p *seen) Pick(req *balance.Request, candidates []balance.Candidate) (int, error) {
	p.requests = append(p.requests, *req)
	p.candidates = append(p.candidates[:0], candidates...)
	return len(candidates) - 1, nil
}

func TestWhatAPickerIsTold(t *testing.T) {
	p := new(seen)
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2, Model: "m"}}, warmroute.WithPicker(newSeen(p)), warmroute.WithAffinity(false))
	turn(t, router, "parent")
	route(t, router, warmroute.Request{Session: "parent", PromptTokens: 7})
	route(t, router, warmroute.Request{Session: "child", Parent: "parent"})
	route(t, router, warmroute.Request{})
	require.Len(t, p.requests, 4)
	first, second, child, unkeyed := p.requests[0], p.requests[1], p.requests[2], p.requests[3]
	assert.Equal(t, "m", first.Model)
	assert.NotZero(t, first.Session)
	assert.Equal(t, -1, first.Home)
	assert.Equal(t, -1, first.ParentHome)
	assert.False(t, first.Now.IsZero())
	assert.Equal(t, 1, second.Home)
	assert.Equal(t, 7, second.PromptTokens)
	assert.Equal(t, first.Session, second.Session)
	assert.Equal(t, first.Session, child.Parent)
	assert.Equal(t, 1, child.ParentHome)
	assert.Zero(t, unkeyed.Session)
	require.Len(t, p.candidates, 2)
	c := p.candidates[1]
	assert.Equal(t, "a:80@1", c.Replica.Name())
	assert.Equal(t, 2, c.InFlight)
	assert.Equal(t, 2, c.Sessions)
	assert.Equal(t, balance.Unknown, c.Running, "never scraped is not zero")
	assert.Equal(t, balance.Unknown, c.Waiting)
	assert.InDelta(t, balance.Unknown, c.KVUsage, 0)
}

// newSeen gives a pool the picker itself.
func newSeen(p *seen) func() balance.Picker { return func() balance.Picker { return p } }
