package warmroute_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

func TestCloseAnswersTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a"))
		first := route(t, r, large("first"))
		var all []*routing
		for i := range 5 {
			all = append(all, begin(t.Context(), t, r, large(fmt.Sprint(i))))
			require.True(t, all[i].waits())
		}
		require.NoError(t, r.Close())
		for _, w := range all {
			require.ErrorIs(t, w.failed(), warmroute.ErrClosed)
		}
		serve(first, 0)
		idleAgain(t, r)
		assert.Zero(t, r.Stats().Pools[0].Requests.Refused)
		_, err := r.Route(t.Context(), large("late"))
		require.ErrorIs(t, err, warmroute.ErrClosed)
	})
}

func TestTryRouteNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a"))
		first, err := r.TryRoute(large("first"))
		require.NoError(t, err)
		start := time.Now()
		_, err = r.TryRoute(large("second"))
		require.ErrorIs(t, err, warmroute.ErrOverloaded)
		require.ErrorContains(t, err, "no replica has room")
		assert.Zero(t, time.Since(start))
		assert.Equal(t, uint64(1), queue(r).Overloaded)
		assert.Equal(t, uint64(1), r.Stats().Pools[0].Requests.Refused)
		again, err := r.TryRoute(large("first"))
		require.NoError(t, err, "a conversation that has a turn in flight has its room")
		serve(first, 0)
		serve(again, 0)
		idleAgain(t, r)
		require.NoError(t, r.Remove("http://a"))
		_, err = r.TryRoute(large("first"))
		require.ErrorIs(t, err, warmroute.ErrNoReplica)
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a"), warmroute.WithMaxQueue(2))
		first := route(t, r, large("first"))
		one, two := begin(t.Context(), t, r, large("1")), begin(t.Context(), t, r, large("2"))
		_, err := r.Route(t.Context(), large("3"))
		require.ErrorIs(t, err, warmroute.ErrOverloaded)
		assert.Equal(t, 2, queue(r).Waiting)
		assert.Equal(t, 2, queue(r).MaxWaiting)
		assert.Equal(t, uint64(1), queue(r).Overloaded)
		serve(first, 0)
		time.Sleep(time.Second)
		serve(one.went(), 0)
		time.Sleep(time.Second)
		serve(two.went(), 0)
		serve(route(t, r, large("2")), 900)
		idleAgain(t, r)
	})
}

// A turn waits for its bound and no longer, whoever else is served meanwhile.
func TestEveryWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, slack = 10 * time.Second, 300 * time.Millisecond
		r := tight(t, at("http://a", "http://b"), warmroute.WithMaxWait(bound), warmroute.WithTurnover(0))
		first, other := route(t, r, large("first")), route(t, r, large("other"))
		var all []*routing
		for i := range 20 {
			time.Sleep(100 * time.Millisecond)
			all = append(all, begin(t.Context(), t, r, large(fmt.Sprint(i))))
		}
		time.Sleep(bound - 2100*time.Millisecond)
		for _, w := range all {
			require.True(t, w.waits())
		}
		assert.InDelta(t, bound.Seconds(), queue(r).MaxWait, 1e-9)
		time.Sleep(2*time.Second + slack)
		for _, w := range all {
			w.went()
		}
		assert.LessOrEqual(t, queue(r).Waits.Sum, 20*(bound+slack).Seconds())
		assert.Equal(t, 11, first.Replica().InFlight(), "to the least loaded, room or none")
		for _, w := range all {
			serve(w.lease, 0)
		}
		serve(first, 0)
		serve(other, 0)
		idleAgain(t, r)
	})
}

func TestRequestsOfOneConversationGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a", "http://b", "http://c"))
		var all []*routing
		for range 8 {
			all = append(all, begin(t.Context(), t, r, large("s")))
		}
		for i, w := range all {
			lease := w.went()
			assert.Equal(t, all[0].lease.Replica(), lease.Replica())
			assert.Equal(t, i == 0, lease.Outcome() == warmroute.Placed, "%d is %s", i, lease.Outcome())
			assert.Zero(t, queue(r).Waits.Sum)
		}
		for _, w := range all {
			serve(w.lease, 0)
		}
		idleAgain(t, r)
	})
}

func TestUnkeyedTurnsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a"))
		first := route(t, r, large(""))
		assert.Equal(t, warmroute.Unkeyed, first.Outcome())
		w := begin(t.Context(), t, r, large(""))
		require.True(t, w.waits())
		serve(first, 0)
		lease := w.went()
		assert.Equal(t, warmroute.Unkeyed, lease.Outcome(), "nobody keeps a place for a conversation that nobody knows")
		serve(lease, 0)
		assert.Zero(t, *replicaStats(t, r, "a:80").Residents)
		idleAgain(t, r)
	})
}

func TestAWaitIsNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e events
		r := tight(t, at("http://a"), warmroute.WithHooks(&e))
		e.forget()
		serve(route(t, r, large("s")), 0)
		time.Sleep(50 * time.Second)
		other := route(t, r, large("other"))
		w := begin(t.Context(), t, r, large("s"))
		require.True(t, w.waits())
		time.Sleep(30 * time.Second)
		serve(other, 0)
		time.Sleep(time.Second)
		lease := w.went()
		assert.Equal(t, warmroute.Sticky, lease.Outcome())
		serve(lease, 900)
		assert.InDelta(t, 30.5, e.done[2].Waited.Seconds(), 0.6)
		assert.Equal(t, warmroute.Verified, e.done[2].Verdict)
		gaps := r.Stats().Pools[0].Gaps
		assert.Zero(t, gaps[1].Turns, "up to a minute")
		assert.Equal(t, uint64(1), gaps[2].Turns, "the cache was asked for after the wait")
	})
}

// So does one that others come before.
func TestAWaitIsBoundedWhateverComesBefore(t *testing.T) {
	for name, before := range map[string]func(*warmroute.Request, int){
		"more urgent":   func(req *warmroute.Request, _ int) { req.Priority = -1 },
		"other tenants": func(req *warmroute.Request, i int) { req.Tenant = fmt.Sprint(i) },
	} {
		synctest.Test(t, func(t *testing.T) {
			const bound = 10 * time.Second
			r := tight(t, at("http://a"), warmroute.WithMaxWait(bound), warmroute.WithTurnover(0))
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				for i := range 40 { // twice what there is room for
					all.Go(func() {
						req := large(fmt.Sprint("before", i))
						before(&req, i)
						if lease, err := r.Route(ctx, req); err == nil {
							time.Sleep(2 * time.Second)
							serve(lease, 0)
						}
					})
					time.Sleep(time.Second)
				}
			})
			time.Sleep(3500 * time.Millisecond)
			var late []*routing
			for i := range 5 {
				late = append(late, begin(t.Context(), t, r, large(fmt.Sprint("late", i))))
			}
			start := time.Now()
			for _, w := range late {
				for w.waits() {
					time.Sleep(100 * time.Millisecond)
				}
				w.went()
			}
			assert.LessOrEqual(t, time.Since(start), bound+500*time.Millisecond, name)
			cancel()
			all.Wait()
			for _, w := range late {
				serve(w.lease, 0)
			}
			idleAgain(t, r)
		})
	}
}
