package warmroute_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
)

// of is a large turn of a tenant's.
func of(tenant, session string) warmroute.Request {
	req := large(session)
	req.Tenant = tenant
	return req
}

// TestATenantThatFillsTheQueueMakesWay has one tenant fill the queue and another
// come, and all be served who were not pushed out.
func TestATenantThatFillsTheQueueMakesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		r := tight(t, at("http://a"), warmroute.WithMaxQueue(4), warmroute.WithHooks(d), warmroute.WithSessionTTL(time.Minute),
			warmroute.WithScrapeClient(metricsClient(func(string) string { return "" })))
		first := route(t, r, large("first"))
		var many, few []*routing
		for i := range 4 {
			many = append(many, begin(t.Context(), t, r, of("many", fmt.Sprint(i))))
			require.True(t, many[i].waits())
		}
		time.Sleep(3 * time.Second)
		d.router = r
		d.take()
		enter := func(who, tenant, session string) *routing {
			return begin(as(t.Context(), who), t, r, of(tenant, session))
		}

		refused := enter("fifth", "many", "4")
		require.ErrorIs(t, refused.failed(), warmroute.ErrOverloaded)
		assert.Equal(t, []string{`fifth refused "": overloaded: overloaded: 4 wait already`}, d.take())

		few = append(few, enter("one", "few", "few 1"))
		require.True(t, few[0].waits())
		require.EqualError(t, many[3].failed(), refused.err.Error(), "as if it had come too late")
		require.ErrorIs(t, many[3].err, warmroute.ErrOverloaded)
		require.Equal(t, warmroute.Lease{}, many[3].lease)
		assert.ElementsMatch(t, []string{
			"one waits as 4 for 5m0s keyed true", "pushed_out after 3s", `refused "": overloaded: overloaded: 4 wait already`,
		}, d.take())
		assert.Equal(t, 4, queue(r).Waiting)
		assert.Equal(t, uint64(2), queue(r).Overloaded)
		assert.Equal(t, uint64(2), r.Stats().Pools[0].Requests.Refused)

		few = append(few, enter("two", "few", "few 2"))
		require.True(t, few[1].waits())
		require.ErrorIs(t, many[2].failed(), warmroute.ErrOverloaded)
		d.take()
		for _, again := range []string{"many", "few"} { // they have two each
			require.ErrorIs(t, enter("again", again, "2").failed(), warmroute.ErrOverloaded)
		}
		assert.Equal(t, uint64(5), queue(r).Overloaded)
		require.Len(t, d.take(), 2, "nobody else is told of that")

		serve(first, 0)
		for _, w := range []*routing{many[0], few[0], many[1], few[1]} {
			time.Sleep(time.Second)
			serve(w.went(), 0)
		}
		time.Sleep(time.Second)
		serve(route(t, r, of("many", "3")), 0) // it may come again
		idleAgain(t, r)
		time.Sleep(2 * time.Minute)
		noSessionInUse(t, r)
	})
}

// TestAHomeOutlivesBeingPushedOut has a conversation come home after a turn of it
// was pushed out of the queue.
func TestAHomeOutlivesBeingPushedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a", "http://b"), warmroute.WithMaxQueue(2))
		lease := route(t, r, of("many", "s"))
		home := lease.Replica()
		serve(lease, 0)
		var busy []warmroute.Lease
		for i := range 2 {
			time.Sleep(time.Minute) // its place lapses
			busy = append(busy, route(t, r, large(fmt.Sprint("busy ", i))))
		}
		one, two := begin(t.Context(), t, r, of("many", "other")), begin(t.Context(), t, r, of("many", "s"))
		require.True(t, one.waits() && two.waits())
		few := begin(t.Context(), t, r, of("few", "few"))
		require.ErrorIs(t, two.failed(), warmroute.ErrOverloaded)
		require.Equal(t, 3, r.Stats().Pools[0].Sessions, "s is at home yet")
		for _, l := range busy {
			serve(l, 0)
		}
		time.Sleep(time.Second)
		serve(one.went(), 0)
		serve(few.went(), 0)
		time.Sleep(time.Minute)
		lease = route(t, r, of("many", "s"))
		assert.Equal(t, home, lease.Replica())
		assert.Equal(t, warmroute.Sticky, lease.Outcome())
		serve(lease, 900)
		idleAgain(t, r)
	})
}

// TestWhatWaitedForOneThatIsPushedOutGoes has there be room for a turn that may not
// overtake one that is pushed out for a third.
func TestWhatWaitedForOneThatIsPushedOutGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a", "http://b"), warmroute.WithMaxQueue(3))
		first := route(t, r, large("first"))
		small := warmroute.Request{Session: "small", PromptTokens: 300, MaxTokens: 10, Tried: []*warmroute.Replica{first.Replica()}}
		second := route(t, r, small)
		onFirst := func(tenant, session string) warmroute.Request {
			req := of(tenant, session)
			req.Tried = []*warmroute.Replica{second.Replica()}
			return req
		}
		onSecond := of("many", "2")
		onSecond.Tried = small.Tried
		one, two := begin(t.Context(), t, r, onFirst("many", "1")), begin(t.Context(), t, r, onSecond)
		time.Sleep(10 * time.Second) // by then each has its replica kept for it
		small.Session, small.Priority = "later", 1
		later := begin(t.Context(), t, r, small)
		require.True(t, one.waits() && two.waits() && later.waits())
		few := begin(t.Context(), t, r, onFirst("few", "few"))
		require.ErrorIs(t, two.failed(), warmroute.ErrOverloaded)
		serve(later.went(), 0)
		serve(second, 0)
		serve(first, 0)
		for _, w := range []*routing{one, few} {
			time.Sleep(time.Second)
			serve(w.went(), 0)
		}
		idleAgain(t, r)
	})
}

// TestWhatDoesNotWaitPushesNobodyOut has turns come to a full queue that go at
// once, or are not to wait.
func TestWhatDoesNotWaitPushesNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a"), warmroute.WithMaxQueue(2))
		first := route(t, r, large("first"))
		one, two := begin(t.Context(), t, r, of("many", "1")), begin(t.Context(), t, r, of("many", "2"))
		_, err := r.TryRoute(of("few", "few"))
		require.ErrorIs(t, err, warmroute.ErrOverloaded)
		again, err := r.TryRoute(of("few", "first"))
		require.NoError(t, err, "it is at home")
		urgent := of("few", "few")
		urgent.Priority = 1
		_, err = r.Route(t.Context(), urgent)
		require.ErrorIs(t, err, warmroute.ErrOverloaded, "those that wait are more urgent")
		require.True(t, one.waits() && two.waits())
		assert.Equal(t, uint64(2), queue(r).Overloaded)
		serve(again, 0)
		serve(first, 0)
		for _, w := range []*routing{one, two} {
			time.Sleep(time.Second)
			serve(w.went(), 0)
		}
		idleAgain(t, r)
	})
}

// TestPushingOutBesideAllElse has tenants fill the queue while callers give up,
// replicas come and go, affinity is switched and the router closed.
func TestPushingOutBesideAllElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a", "http://b"), warmroute.WithMaxQueue(4), warmroute.WithMaxWait(3*time.Second))
		var all sync.WaitGroup
		var mu sync.Mutex
		refused, served := map[string]int{}, map[string]int{}
		for i := range 40 {
			tenant := map[bool]string{true: "few", false: "many"}[i%20 == 0]
			all.Go(func() {
				for n := range 40 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(500+100*(i%20))*time.Millisecond)
					lease, err := r.Route(ctx, of(tenant, fmt.Sprint(i, n/4)))
					cancel()
					mu.Lock()
					switch {
					case err == nil:
						served[tenant]++
					case assert.True(t, errors.Is(err, warmroute.ErrOverloaded) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, warmroute.ErrNoReplica), err):
						refused[tenant]++
					}
					mu.Unlock()
					if err == nil {
						time.Sleep(100 * time.Millisecond)
						serve(lease, 0)
					}
					time.Sleep(time.Duration(i) * 5 * time.Millisecond)
				}
			})
		}
		for range 10 {
			time.Sleep(400 * time.Millisecond)
			require.NoError(t, r.Remove("http://b"))
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, r.Add(warmroute.Endpoint{URL: "http://b"}))
			require.NoError(t, r.SetAffinity("", false))
			require.NoError(t, r.SetAffinity("", true))
			assert.LessOrEqual(t, queue(r).Waiting, 4)
		}
		all.Wait()
		idleAgain(t, r)
		assert.Positive(t, refused["many"])
		t.Log("served", served, "refused", refused)
		part := func(tenant string) float64 {
			return float64(refused[tenant]) / float64(refused[tenant]+served[tenant])
		}
		assert.Less(t, part("few"), part("many"))
	})
}

// TestATenantIsNotRefusedForAnothers sends the same requests through the transport
// with and without tenants.
func TestATenantIsNotRefusedForAnothers(t *testing.T) {
	for name, opts := range map[string][]warmroute.Option{"alike": nil, "by tenant": {warmroute.WithTenant(affinity.Header("X-Tenant"))}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := tight(t, at("http://a"), append(opts, warmroute.WithMaxQueue(3))...)
				transport := r.Transport(roundTripper(func(*http.Request) (*http.Response, error) { return answer(200, tracked("x")), nil }))
				send := func(tenant string) (wait func() error) {
					done := make(chan error, 1)
					req := post(t, strings.NewReader(`{"x":"`+strings.Repeat("x", 3600)+`"}`))
					req.Header.Set("X-Tenant", tenant)
					go func() {
						resp, err := transport.RoundTrip(req)
						if err == nil {
							_, err = io.Copy(io.Discard, resp.Body)
							assert.NoError(t, resp.Body.Close())
						}
						done <- err
					}()
					synctest.Wait()
					return func() error { return <-done }
				}
				first := route(t, r, large("first"))
				many := []func() error{send("many"), send("many"), send("many")}
				few := send("few")
				serve(first, 0)
				require.NoError(t, many[0]())
				require.NoError(t, many[1]())
				lost, kept := few, many[2]
				if opts != nil {
					lost, kept = kept, lost
				}
				require.NoError(t, kept())
				require.ErrorIs(t, lost(), warmroute.ErrOverloaded)
				idleAgain(t, r)
			})
		})
	}
}
