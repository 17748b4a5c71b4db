package faulttest_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
	"github.com/warmroute/warmroute/replica"
)

// TestAFaultThatLasts has the home of a conversation misbehave for long. What
// counts as its failure opens its breaker: the conversation goes elsewhere and
// stays there, and the home is used again when it works. What does not count
// changes nothing.
func TestAFaultThatLasts(t *testing.T) {
	for _, c := range faults() {
		if c.moves {
			continue // it was left at once
		}
		t.Run(c.name, func(t *testing.T) {
			virtual(t, []int{1, 1, 1}, func(t *testing.T, f *fleet) {
				home := f.ok(ask{session: "s"}).replica
				others := map[string]string{}
				for _, session := range []string{"t", "u"} {
					others[session] = f.ok(ask{session: session}).replica
				}
				require.NoError(t, f.engineOf(home).SetFault(c.fault))
				met := 0
				var got seen
				for range 2 * replica.DefaultBreakerConsecutive {
					id := f.newID()
					got = c.ask(f, id)
					met += f.engineOf(home).Delivery(id).Seen
				}
				f.quiet()
				state := string(f.replicas()[home].State)
				at := home
				if c.failed > 0 {
					assert.Equal(t, replica.DefaultBreakerConsecutive, met)
					assert.Contains(t, []string{"open", "probing"}, state)
					require.NoError(t, got.err)
					at = got.replica
					assert.NotEqual(t, home, at)
				} else {
					assert.Equal(t, 2*replica.DefaultBreakerConsecutive, met)
					assert.NotContains(t, []string{"open", "probing"}, state)
				}
				for session, replica := range others {
					got := f.ok(ask{session: session, turn: 1})
					assert.Equal(t, [2]string{replica, "sticky"}, [2]string{got.replica, got.outcome})
				}
				assert.Equal(t, 3, f.sessions())

				require.NoError(t, f.engineOf(home).SetFault(fakevllm.Fault{}))
				time.Sleep(time.Minute)
				next := f.ok(ask{session: "s", turn: 2})
				assert.Equal(t, [2]string{at, "sticky"}, [2]string{next.replica, next.outcome})
				for i := range 20 { // one is a probe; then it starts slowly
					f.ok(ask{session: fmt.Sprint("first", i)})
					time.Sleep(3 * time.Second)
				}
				used := 0
				for i := range 60 {
					if f.ok(ask{session: fmt.Sprint("new", i)}).replica == home {
						used++
					}
				}
				assert.Equal(t, "up", string(f.replicas()[home].State))
				assert.InDelta(t, 20, used, 12, "it takes its part again")
				for name, m := range f.replicas() {
					if name != home {
						assert.Zero(t, m.Failed, name)
					}
				}
			}, c.opts...)
		})
	}
}

// All breakers open: what comes is sent all the same, and what the engines say is
// passed on. The router makes no refusals of its own.
func TestAllBreakersAreOpen(t *testing.T) {
	for _, status := range []int{500, 502, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			virtual(t, []int{1, 2, 1}, func(t *testing.T, f *fleet) {
				home := f.ok(ask{session: "s"}).replica
				for _, e := range f.all() {
					require.NoError(t, e.SetFault(fakevllm.Fault{Kind: fakevllm.Status, Status: status}))
				}
				for i := range 60 {
					got := f.do(ask{session: fmt.Sprint("new", i%20)})
					require.NoError(t, got.err)
					require.Equal(t, status, got.status)
				}
				for name, m := range f.replicas() {
					assert.Contains(t, []string{"open", "probing"}, string(m.State), name)
				}
				for range 20 {
					got := f.do(ask{session: "s", turn: 1})
					require.NoError(t, got.err)
					assert.Equal(t, status, got.status)
				}
				r := f.router.Stats().Pools[0].Requests
				assert.Zero(t, r.Refused)
				assert.Equal(t, uint64(80), r.Failed)
				require.NoError(t, f.engineOf(home).SetFault(fakevllm.Fault{}))
				worked := false
				for range 100 { // until it is probed, at the latest
					got := f.do(ask{session: "s", turn: 1})
					require.NoError(t, got.err)
					worked = worked || got.status == 200
					time.Sleep(time.Second)
				}
				assert.True(t, worked)
				assert.Equal(t, "up", string(f.replicas()[home].State))
			})
		})
	}
}

// A fault that a policy has sent again elsewhere: the client sees none of it, and
// two engines have seen the request, each once.
func TestAFaultIsRetried(t *testing.T) {
	retried := []string{
		"502", "503", "resets before the first byte", "resets before the first byte, not streamed",
		"accepts and hangs, and there is a timeout", "an HTML page and 502", "headers without end",
	}
	for _, c := range faults() {
		if c.moves {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			opts := append([]warmroute.Option{warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true})}, c.opts...)
			virtual(t, []int{1, 1, 1}, func(t *testing.T, f *fleet) {
				home := f.ok(ask{session: "s"}).replica
				require.NoError(t, f.engineOf(home).SetFault(c.fault))
				id := "asked, perhaps twice" // and so not among those that may be seen once
				got := c.ask(f, id)
				total := 0
				for _, e := range f.all() {
					d := e.Delivery(id)
					assert.LessOrEqual(t, d.Seen, 1)
					total += d.Seen
				}
				if slices.Contains(retried, c.name) {
					require.NoError(t, got.err)
					assert.Equal(t, 200, got.status)
					assert.NotEqual(t, home, got.replica)
					assert.Equal(t, 2, total)
				} else {
					assert.Equal(t, 1, total)
					assert.Equal(t, c.status, got.status)
				}
				assert.Equal(t, c.failed, f.replicas()[home].Failed)
				for name, m := range f.replicas() {
					if name != home {
						assert.Zero(t, m.Failed, name)
					}
				}
				require.NoError(t, f.engineOf(home).SetFault(fakevllm.Fault{}))
			}, opts...)
		})
	}
}

// When everything fails, the load that retries add stays within their budget.
func TestRetriesStayWithinTheirBudget(t *testing.T) {
	virtual(t, []int{1, 1, 1, 1}, func(t *testing.T, f *fleet) {
		for _, e := range f.all() {
			require.NoError(t, e.SetFault(fakevllm.Fault{Kind: fakevllm.ResetEarly}))
		}
		const n = 500
		total := 0
		for i := range n {
			id := fmt.Sprint("retried-", i)
			got := read(f.transport.RoundTrip(ask{session: fmt.Sprint("s", i%50)}.request(id)))
			require.Error(t, got.err)
			require.False(t, errors.Is(got.err, warmroute.ErrNoReplica), "%v", got.err)
			for _, e := range f.all() {
				total += e.Delivery(id).Seen
			}
		}
		assert.LessOrEqual(t, total-n, n/10+20)
		assert.Greater(t, total-n, 5)
		f.quiet()
		for _, e := range f.all() {
			require.NoError(t, e.SetFault(fakevllm.Fault{}))
		}
	}, warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true}))
}
