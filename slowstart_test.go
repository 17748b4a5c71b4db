package warmroute_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

// newcomers places conversations, one every 50 ms, each of which has a turn in
// flight from then on until placed is read again, and returns how many of them
// went to the replica in each of the seconds.
func newcomers(t *testing.T, router *warmroute.Router, name string, seconds int) []int {
	t.Helper()
	var got []int
	var open []warmroute.Lease
	for second := range seconds {
		n := 0
		for i := range 20 {
			lease := route(t, router, warmroute.Request{Session: fmt.Sprint(t.Name(), time.Now().UnixNano(), second, i)})
			lease.Answered()
			if lease.Replica().Name() == name {
				n++
			}
			if open = append(open, lease); len(open) > 8 {
				open[0].Done(warmroute.Result{})
				open = open[1:]
			}
			time.Sleep(50 * time.Millisecond)
		}
		got = append(got, n)
	}
	for _, lease := range open {
		lease.Done(warmroute.Result{})
	}
	return got
}

func sum(n []int) (all int) {
	for _, v := range n {
		all += v
	}
	return all
}

func TestSlowStart(t *testing.T) {
	for _, residency := range []warmroute.Residency{warmroute.ResidencyOff, 1 << 20} {
		for name, returns := range map[string]func(*testing.T, *warmroute.Router){
			"joins": func(t *testing.T, r *warmroute.Router) {
				require.NoError(t, r.Add(warmroute.Endpoint{URL: "http://d"}))
			},
			"its breaker closes": func(t *testing.T, r *warmroute.Router) {
				require.NoError(t, r.Add(warmroute.Endpoint{URL: "http://d"}))
				time.Sleep(time.Minute)
				d := r.Replicas()[3]
				for range 5 {
					p, _ := d.Admit(time.Now())
					d.Failed(p, replica.OwnFailure, time.Now())
				}
				time.Sleep(10 * time.Second)
				p, ok := d.Admit(time.Now())
				require.True(t, ok)
				require.True(t, d.Succeeded(p, time.Now()))
			},
			"can be reached again": func(t *testing.T, r *warmroute.Router) {
				require.NoError(t, r.Add(warmroute.Endpoint{URL: "http://d"}))
				time.Sleep(time.Minute)
				r.Replicas()[3].Unreachable(time.Now())
				for range 3 { // it has the least to do
					defer route(t, r, warmroute.Request{}).Done(warmroute.Result{GivenUp: true})
				}
				time.Sleep(time.Second)
				_, err := ask(t, r.Transport(&fleet{}), "")
				require.NoError(t, err)
				require.Equal(t, time.Now().UnixNano(), r.Replicas()[3].Returned().UnixNano())
			},
		} {
			t.Run(fmt.Sprint(name, ", residency ", residency), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					router := newRouter(t, at("http://a", "http://b", "http://c"), warmroute.WithResidency(residency), steadyBreaker(replica.BreakerConfig{}))
					newcomers(t, router, "", 2)
					returns(t, router)
					got := newcomers(t, router, "d:80", 40)
					// An equal share is 5 a second.
					assert.LessOrEqual(t, sum(got[:5]), 4, "at first: %v", got)
					assert.Greater(t, sum(got[:10]), 0, "%v", got)
					assert.Greater(t, sum(got[20:30]), 2*sum(got[:10]), "then more: %v", got)
					assert.LessOrEqual(t, sum(got[:30]), 30*5*6/10, "%v", got)
					assert.GreaterOrEqual(t, sum(got[30:]), 10*5-5, "and then all: %v", got)
				})
			})
		}
	}
}

func TestSlowStartOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a", "http://b"), warmroute.WithSlowStart(0))
		newcomers(t, router, "", 2)
		require.NoError(t, router.Add(warmroute.Endpoint{URL: "http://d"}))
		got := newcomers(t, router, "d:80", 2)
		assert.GreaterOrEqual(t, got[0], 6, "it has the least load")
	})
}

// A replica in its slow start is better than one over the threshold, or none.
func TestSlowStartGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a", "http://b"), warmroute.WithSpill(2))
		require.NoError(t, router.Add(warmroute.Endpoint{URL: "http://d"}))
		var leases []warmroute.Lease
		for range 9 {
			leases = append(leases, route(t, router, warmroute.Request{}))
		}
		for i, l := range leases {
			assert.Equal(t, i >= 6, l.Replica().Name() == "d:80", "once the others are over it")
		}
		for _, l := range leases {
			l.Done(warmroute.Result{})
		}
		require.NoError(t, router.Drain("a:80"))
		require.NoError(t, router.Drain("b:80"))
		lease := route(t, router, warmroute.Request{})
		assert.Equal(t, "d:80", lease.Replica().Name())
		lease.Done(warmroute.Result{})
	})
}

// Ranks that are found after their endpoint has joined are as new as it is, and
// those that were there from the start are not.
func TestSlowStartOfRanks(t *testing.T) {
	pages := newPages(map[string]string{"a": idle(0, 1), "b": idle(0, 1)})
	scraped(t, pages, at("http://a"), nil, func(t *testing.T, router *warmroute.Router) {
		for _, r := range router.Replicas() {
			assert.True(t, r.Returned().IsZero())
		}
		require.NoError(t, router.Add(warmroute.Endpoint{URL: "http://b"}))
		time.Sleep(3 * time.Second)
		require.Len(t, router.Replicas(), 4)
		for _, r := range router.Replicas()[2:] {
			assert.False(t, r.Returned().IsZero())
		}
	})
}

// The whole way: a replica's engine dies and comes back with nothing cached. Who
// moved stays; who was idle and is at home there is placed anew once its page
// tells; nobody is pulled back.
func TestAReplicaThatReturnsPullsNobodyBack(t *testing.T) {
	simulate(t, 1, nil, func(t *testing.T, s *simulated) {
		require.NoError(t, s.router.Add(warmroute.Endpoint{URL: "http://b", Ranks: 1}))
		time.Sleep(time.Minute)
		var moves, idles string
		for i := 0; moves == "" || idles == ""; i++ {
			name := fmt.Sprint("s", i)
			if s.turn(name, -1, 1000, 0).Replica().Name() == "a:80" {
				moves, idles = name, moves
			}
		}
		time.Sleep(2 * time.Second)
		base := &fleet{down: map[string]bool{"a": true}}
		transport := s.router.Transport(base)
		_, err := ask(t, transport, moves)
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b"}, base.sent())
		s.restart()
		base.down["a"] = false
		time.Sleep(2 * time.Second)
		for range 5 {
			_, err := ask(t, transport, moves)
			require.NoError(t, err)
			time.Sleep(10 * time.Second)
		}
		assert.NotContains(t, base.sent(), "a", "it stays where it moved")
		assert.False(t, s.router.Replicas()[0].Returned().IsZero(), "its page says that it restarted")
		lease := route(t, s.router, warmroute.Request{Session: idles})
		assert.Equal(t, warmroute.Placed, lease.Outcome(), "its cache is gone")
		lease.Done(warmroute.Result{})
	})
}
