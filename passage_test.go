package warmroute_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

// What goes where its response is kept counts with the breaker there as any other
// request does.
func TestRequestsThatContinueAResponseCountWithTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouter(t, at("http://a", "http://b"), steadyBreaker(replica.BreakerConfig{Consecutive: 3, OpenFor: time.Second, Probes: 1}))
		first := route(t, r, warmroute.Request{Session: "s"})
		home := first.Replica()
		first.Answered()
		first.Produced("resp_1")
		first.Done(warmroute.Result{})
		next := warmroute.Request{PreviousResponse: "resp_1"}
		for range 3 {
			lease := route(t, r, next)
			require.Equal(t, home, lease.Replica())
			lease.Done(warmroute.Result{Err: errors.New("broke off")})
		}
		require.Equal(t, replica.BreakerOpen, home.Breaker(time.Now()))

		// One probe, not one each.
		time.Sleep(time.Second + time.Millisecond)
		probe := route(t, r, next)
		assert.Equal(t, home, probe.Replica())
		assert.False(t, home.Allows(time.Now()), "no more than it may have")
		probe.Done(warmroute.Result{})
		assert.Equal(t, replica.BreakerClosed, home.Breaker(time.Now()), "which shows that it works")
		assert.Zero(t, inFlight(t, r))
	})
}

// Every way in which a request is routed, and what it is then counted by.
func TestEveryRequestCountsWithTheBreaker(t *testing.T) {
	const failures = 3
	for name, tc := range map[string]struct {
		opts []warmroute.Option
		req  func(i int) warmroute.Request
	}{
		"at home":     {nil, func(int) warmroute.Request { return warmroute.Request{Session: "s"} }},
		"new":         {nil, func(i int) warmroute.Request { return warmroute.Request{Session: fmt.Sprint("new", i)} }},
		"unkeyed":     {nil, func(int) warmroute.Request { return warmroute.Request{} }},
		"continues":   {nil, func(int) warmroute.Request { return warmroute.Request{PreviousResponse: "resp_1"} }},
		"with a rank": {nil, func(int) warmroute.Request { return warmroute.Request{ClientRank: "0"} }},
		"admitted at home": {
			[]warmroute.Option{warmroute.WithResidency(100_000)},
			func(int) warmroute.Request { return warmroute.Request{Session: "s"} },
		},
		"admitted": {
			[]warmroute.Option{warmroute.WithResidency(100_000)},
			func(i int) warmroute.Request { return warmroute.Request{Session: fmt.Sprint("new", i)} },
		},
		"without affinity": {
			[]warmroute.Option{warmroute.WithAffinity(false)},
			func(int) warmroute.Request { return warmroute.Request{Session: "s"} },
		},
		"over the spill threshold": {
			[]warmroute.Option{warmroute.WithSpill(1)},
			func(int) warmroute.Request { return warmroute.Request{Session: "s"} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 1}},
					append(tc.opts, steadyBreaker(replica.BreakerConfig{Consecutive: failures, OpenFor: time.Second}))...)
				first := route(t, r, warmroute.Request{Session: "s"})
				first.Answered()
				first.Produced("resp_1")
				first.Done(warmroute.Result{})
				leases := make([]warmroute.Lease, failures)
				for i := range leases {
					leases[i] = route(t, r, tc.req(i))
				}
				for _, lease := range leases {
					lease.Done(warmroute.Result{Err: errors.New("broke off")})
				}
				a := r.Replicas()[0]
				require.Equal(t, replica.BreakerOpen, a.Breaker(time.Now()))
				time.Sleep(time.Second + time.Millisecond)
				probe := route(t, r, tc.req(failures))
				assert.False(t, a.Allows(time.Now()), "it is the one probe")
				probe.Done(warmroute.Result{})
				assert.Equal(t, replica.BreakerClosed, a.Breaker(time.Now()))
				assert.Zero(t, inFlight(t, r))
			})
		})
	}
}

// A probe that ends without saying anything leaves its place to another at once,
// also for turns that wait for room.
func TestAProbeThatSaysNothingIsFollowedByAnother(t *testing.T) {
	for name, end := range map[string]func(warmroute.Lease){
		"given up": func(l warmroute.Lease) { l.Done(warmroute.Result{GivenUp: true, NoTokens: true}) },
		"fails":    func(l warmroute.Lease) { l.Done(warmroute.Result{Err: errors.New("broke off")}) },
		"answers":  func(l warmroute.Lease) { l.Done(warmroute.Result{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRouter(t, at("http://a", "http://b"), warmroute.WithResidency(100_000), warmroute.WithSlowStart(0),
					steadyBreaker(replica.BreakerConfig{Consecutive: 1, OpenFor: time.Second}))
				find(t, r, "b:80", replica.Down)
				turn := func() warmroute.Lease {
					lease, err := r.TryRoute(warmroute.Request{Session: fmt.Sprint(time.Now().UnixNano()), PromptTokens: 10, MaxTokens: 10})
					require.NoError(t, err)
					time.Sleep(time.Millisecond)
					return lease
				}
				first := turn()
				require.Equal(t, "a:80", first.Replica().Name())
				first.Done(warmroute.Result{Err: errors.New("broke off")})
				find(t, r, "b:80", replica.Up)
				time.Sleep(time.Second)
				// One goes to each: to a as a probe.
				probe, other := turn(), turn()
				if probe.Replica().Name() != "a:80" {
					probe, other = other, probe
				}
				require.Equal(t, "a:80", probe.Replica().Name())
				require.Equal(t, "b:80", other.Replica().Name())
				assert.Equal(t, "b:80", turn().Replica().Name(), "a has its probe")
				end(probe)
				next := turn().Replica()
				assert.Equal(t, name != "fails", next.Name() == "a:80", "%v", next)
			})
		})
	}
}

// A hook that panics when a turn's wait is over keeps no probe.
func TestAPanickingQueueHookKeepsNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stumbling{}
		r := tight(t, at("http://a"), warmroute.WithHooks(s), warmroute.WithMaxWait(time.Minute),
			steadyBreaker(replica.BreakerConfig{Consecutive: 1, OpenFor: time.Second}))
		a := r.Replicas()[0]
		first, err := r.Route(t.Context(), large("1"))
		require.NoError(t, err)
		require.NoError(t, r.Add(warmroute.Endpoint{URL: "http://b"}))
		full, err := r.Route(t.Context(), large("2"))
		require.NoError(t, err)
		require.Equal(t, "b:80", full.Replica().Name())
		first.Done(warmroute.Result{Err: errors.New("broke off")})
		require.Equal(t, replica.BreakerOpen, a.Breaker(time.Now()))
		s.dequeue = true
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			_, _ = r.Route(t.Context(), large("3"))
		}()
		synctest.Wait()
		require.Equal(t, 1, queue(r).Waiting)
		time.Sleep(5 * time.Second)
		assert.Equal(t, "dequeue hook", <-panicked)
		assert.Equal(t, replica.BreakerHalfOpen, a.Breaker(time.Now()))
		assert.True(t, a.Allows(time.Now()), "the next can be one")
		serve(full, 0)
		idleAgain(t, r)
	})
}
