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
