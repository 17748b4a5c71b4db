package warmroute_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

// diary writes down what happens to requests, one line an event, and asks for the
// stats each time, which it could not with a lock held.
type diary struct {
	router *warmroute.Router

	mu    sync.Mutex
	lines []string
}

func (d *diary) write(ctx context.Context, format string, args ...any) {
	if d.router != nil {
		d.router.Stats()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	who, _ := ctx.Value(callerKey{}).(string)
	d.lines = append(d.lines, strings.TrimSpace(who+" "+fmt.Sprintf(format, args...)))
}

// take returns the lines since the last call.
func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

type callerKey struct{}

func as(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}

func (d *diary) OnRoute(ctx context.Context, e warmroute.RouteEvent) {
	d.write(ctx, "routed %s to %s after %s", e.Outcome, e.Replica, e.Waited)
}

func (d *diary) OnDone(ctx context.Context, e warmroute.DoneEvent) {
	d.write(ctx, "done %d final %t failed %t", e.Result.StatusCode, e.Final, e.Result.Err != nil)
}

func (d *diary) OnEnqueue(ctx context.Context, e warmroute.EnqueueEvent) {
	d.write(ctx, "waits as %d for %s keyed %t", e.Waiting, e.Bound, e.Keyed)
}

func (d *diary) OnDequeue(ctx context.Context, e warmroute.DequeueEvent) {
	d.write(ctx, "%s after %s", e.Reason, e.Waited.Round(time.Second))
}

func (d *diary) OnRefuse(ctx context.Context, e warmroute.RefuseEvent) {
	d.write(ctx, "refused %q: %s: %v", e.Model, e.Reason, e.Err)
}

func TestQueueHooks(t *testing.T) {
	for _, tc := range []struct {
		name string
		// leave has the turn of session 2, which waits behind that of session 1, leave
		// the queue.
		leave func(r *warmroute.Router, first warmroute.Lease, cancel func()) error
		want  []string
	}{
		{"admitted", func(_ *warmroute.Router, first warmroute.Lease, _ func()) error {
			serve(first, 0)
			return nil
		}, []string{"done 0 final true failed false", "two admitted after 3s", "two routed placed to a:80 after 3s"}},
		{"at its bound", func(*warmroute.Router, warmroute.Lease, func()) error {
			time.Sleep(time.Minute)
			return nil
		}, []string{"two max_wait after 20s", "two routed placed to a:80 after 20s"}},
		{"affinity off", func(r *warmroute.Router, _ warmroute.Lease, _ func()) error {
			return r.SetAffinity("", false)
		}, []string{"two released after 3s", "two routed placed to a:80 after 3s"}},
		{"no replica is left", func(r *warmroute.Router, _ warmroute.Lease, _ func()) error {
			return r.Remove("http://a")
		}, []string{"two released after 3s", `two refused "": no_replica: no replica available for model ""`}},
		{"cancelled", func(_ *warmroute.Router, _ warmroute.Lease, cancel func()) error {
			cancel()
			return nil
		}, []string{"two cancelled after 3s"}},
		{"closed", func(r *warmroute.Router, _ warmroute.Lease, _ func()) error {
			return r.Close()
		}, []string{"two closed after 3s", `two refused "": closed: router is closed`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &diary{}
				r := tight(t, at("http://a"), warmroute.WithHooks(d), warmroute.WithMaxWait(20*time.Second))
				d.router = r
				first, err := r.Route(t.Context(), large("1"))
				require.NoError(t, err)
				d.take()
				ctx, cancel := context.WithCancel(as(t.Context(), "two"))
				defer cancel()
				w := begin(ctx, t, r, large("2"))
				require.True(t, w.waits())
				assert.Equal(t, []string{"two waits as 1 for 20s keyed true"}, d.take())
				time.Sleep(3 * time.Second)
				require.NoError(t, tc.leave(r, first, cancel))
				require.False(t, w.waits())
				got := d.take()
				// The turn that ends and the one that it makes room for are told of at
				// the same time.
				slices.SortStableFunc(got, func(a, b string) int {
					return cmp.Compare(strings.Index(a, "two"), strings.Index(b, "two"))
				})
				assert.Equal(t, tc.want, got)
			})
		})
	}
}

func TestRefuseHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &diary{}
		r := tight(t, at("http://a"), warmroute.WithHooks(full), warmroute.WithMaxQueue(1))
		full.router = r
		_, err := r.Route(t.Context(), large("1"))
		require.NoError(t, err)
		full.take()
		_, err = r.TryRoute(large("2"))
		require.ErrorIs(t, err, warmroute.ErrOverloaded)
		assert.Equal(t, []string{`refused "": overloaded: overloaded: no replica has room`}, full.take())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begin(ctx, t, r, large("2"))
		full.take()
		_, err = r.Route(t.Context(), large("3"))
		require.ErrorIs(t, err, warmroute.ErrOverloaded)
		assert.Equal(t, []string{`refused "": overloaded: overloaded: 1 wait already`}, full.take())
		cancel()
		synctest.Wait()

		d := &diary{}
		named := newRouter(t, []warmroute.Endpoint{{URL: "http://b", Ranks: 2, Model: "m"}}, warmroute.WithHooks(d))
		d.router = named
		for _, tc := range []struct {
			req  warmroute.Request
			want string
		}{
			{warmroute.Request{Model: "other"}, `me refused "other": unknown_model: unknown model "other"`},
			{warmroute.Request{ClientRank: "7"}, `me refused "m": client_rank: data-parallel rank refused: no replica has rank 7`},
		} {
			_, err := named.Route(as(t.Context(), "me"), tc.req)
			require.Error(t, err)
			assert.Equal(t, []string{tc.want}, d.take())
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = named.Route(gone, warmroute.Request{})
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, d.take(), "who gives up is not refused")
		require.NoError(t, named.Close())
		_, err = named.Route(t.Context(), warmroute.Request{})
		require.ErrorIs(t, err, warmroute.ErrClosed)
		assert.Equal(t, []string{`refused "": closed: router is closed`}, d.take())
	})
}

// An attempt at an endpoint that cannot be connected to is not the last one.
func TestHooksOfARequestThatFailsOver(t *testing.T) {
	d := &diary{}
	r := newRouter(t, at("http://a", "http://b"), warmroute.WithHooks(d))
	d.router = r
	status := http.StatusTeapot
	transport := r.Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.URL.Host == "a" || status == 0 {
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		}
		return answer(status, tracked("x")), nil
	}))
	send := func() (*http.Response, error) {
		return transport.RoundTrip(post(t, strings.NewReader("{}")).WithContext(as(t.Context(), "me")))
	}
	resp, err := send()
	require.NoError(t, err)
	assert.Equal(t, []string{
		"me routed unkeyed to a:80 after 0s", "me done 0 final false failed true", "me routed unkeyed to b:80 after 0s",
	}, d.take())
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, []string{"me done 418 final true failed false"}, d.take())

	status = http.StatusBadGateway
	resp, err = send()
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, []string{"me routed unkeyed to b:80 after 0s", "me done 502 final true failed true"}, d.take())

	status = 0
	_, err = send()
	require.ErrorIs(t, err, warmroute.ErrNoReplica)
	lines := d.take()
	assert.Equal(t, "me done 0 final true failed true", lines[len(lines)-1], "the last attempt, and no refusal after it")
}

// stumbling panics in the queue's hooks when told to.
type stumbling struct{ enqueue, dequeue bool }

func (s *stumbling) OnEnqueue(context.Context, warmroute.EnqueueEvent) {
	if s.enqueue {
		panic("enqueue hook")
	}
}

func (s *stumbling) OnDequeue(context.Context, warmroute.DequeueEvent) {
	if s.dequeue {
		panic("dequeue hook")
	}
}

func TestAPanickingQueueHookKeepsNoPlace(t *testing.T) {
	for _, which := range []string{"enqueue", "dequeue"} {
		t.Run(which, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stumbling{}
				r := tight(t, at("http://a"), warmroute.WithHooks(s), warmroute.WithSessionTTL(time.Minute),
					warmroute.WithScrapeClient(metricsClient(func(string) string { return "" })))
				first, err := r.Route(t.Context(), large("1"))
				require.NoError(t, err)
				s.enqueue, s.dequeue = which == "enqueue", which == "dequeue"
				panicked := make(chan any, 1)
				go func() {
					defer func() { panicked <- recover() }()
					_, _ = r.Route(t.Context(), large("2"))
				}()
				synctest.Wait()
				serve(first, 0)
				assert.Equal(t, which+" hook", <-panicked)
				*s = stumbling{}
				idleAgain(t, r)
				assert.Zero(t, r.Stats().Pools[0].Queue.Waiting)
				time.Sleep(5 * time.Second)
				lease, err := r.TryRoute(large("3"))
				require.NoError(t, err, "the room is free")
				serve(lease, 0)
				time.Sleep(2 * time.Minute)
				noSessionInUse(t, r)
			})
		})
	}
}

// A hook that would not be called for want of the right signature is refused.
func TestHooksOfAnotherSignature(t *testing.T) {
	for _, tc := range []struct {
		hook    warmroute.Hook
		value   string
		allowed string
	}{
		{oldRouteHook{}, "warmroute_test.oldRouteHook", "one whose method is OnRoute(context.Context, RouteEvent)"},
		{struct{}{}, "struct {}", "a RouteHook, DoneHook, EnqueueHook, DequeueHook, RefuseHook, ScrapeHook or ReplicaStateHook"},
		{nil, "nil", "a value with a hook's method"},
	} {
		_, err := warmroute.New(at("http://a"), warmroute.WithHooks(tc.hook))
		var refused *warmroute.ConfigError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, &warmroute.ConfigError{Field: "hook", Value: tc.value, Allowed: tc.allowed}, refused)
	}
}

// oldRouteHook has one method that is right and one that is not.
type oldRouteHook struct{}

func (oldRouteHook) OnDone(context.Context, warmroute.DoneEvent) {}
func (oldRouteHook) OnRoute(warmroute.RouteEvent)                {}

// counting is a hook as cheap as one can be.
type counting struct{ routed, done int }

func (c *counting) OnRoute(context.Context, warmroute.RouteEvent) { c.routed++ }
func (c *counting) OnDone(context.Context, warmroute.DoneEvent)   { c.done++ }

func TestHooksCostNoAllocation(t *testing.T) {
	var c counting
	router := eight(t, warmroute.WithHooks(&c))
	bind(t, router, "s")
	ctx := as(t.Context(), "me")
	assertAllocs(t, 0, "sticky with hooks", func() {
		lease, err := router.Route(ctx, warmroute.Request{Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		lease.Done(warmroute.Result{})
	})
	assert.Equal(t, c.routed, c.done)
	assert.Greater(t, c.routed, 1000)
}

// patience tells how long requests wait, by the reason that they wait no longer.
type patience struct{}

func (patience) OnEnqueue(_ context.Context, e warmroute.EnqueueEvent) {
	fmt.Println("waits, number", e.Waiting, "in the queue, at most", e.Bound)
}

func (patience) OnDequeue(_ context.Context, e warmroute.DequeueEvent) {
	fmt.Println("waits no longer:", e.Reason)
}

func (patience) OnRefuse(_ context.Context, e warmroute.RefuseEvent) {
	fmt.Println("refused:", e.Reason)
}

// A hook has the methods of what it wants to be told.
func ExampleWithHooks() {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://10.0.0.1:8000"}},
		warmroute.WithResidency(1000), warmroute.WithHooks(patience{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()
	for range learned { // nobody waits before it is known what turns are like
		lease, err := router.Route(context.Background(), large(""))
		if err != nil {
			fmt.Println(err)
			return
		}
		serve(lease, 0)
	}

	if _, err = router.Route(context.Background(), large("one")); err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = router.Route(ctx, large("two"))
	fmt.Println(err)
	_, err = router.TryRoute(large("three"))
	fmt.Println(err)
	// Output:
	// waits, number 1 in the queue, at most 5m0s
	// waits no longer: cancelled
	// context deadline exceeded
	// refused: overloaded
	// overloaded: no replica has room
}

// TestAPanickingHookKeepsNoProbe has the turn that a hook loses be the one that
// was to try a replica again: another must be able to.
func TestAPanickingHookKeepsNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stumbling{}
		r := tight(t, at("http://a", "http://b"), warmroute.WithHooks(s), steadyBreaker(replica.BreakerConfig{}), warmroute.WithSlowStart(0))
		first := route(t, r, large("1"))
		broken := first.Replica()
		first.Done(warmroute.Result{Err: errReset})
		for replicaStats(t, r, broken.Name()).State == replica.Up {
			lease := route(t, r, large(""))
			if lease.Replica() != broken {
				serve(lease, 0)
				continue
			}
			lease.Done(warmroute.Result{Err: errReset})
		}
		require.Equal(t, replica.Open, replicaStats(t, r, broken.Name()).State)
		time.Sleep(200 * time.Millisecond)
		other := begin(t.Context(), t, r, large("2")).went()
		require.NotEqual(t, broken, other.Replica())
		s.dequeue = true
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			_, _ = r.Route(context.Background(), large("3"))
		}()
		time.Sleep(1500 * time.Millisecond) // the breaker lets one through
		require.Equal(t, "dequeue hook", <-panicked)
		s.dequeue = false
		assert.True(t, broken.Allows(time.Now()), "nobody is trying it")
		probe, err := r.TryRoute(large("4"))
		require.NoError(t, err)
		assert.Equal(t, broken, probe.Replica())
		serve(probe, 0)
		serve(other, 0)
		assert.Equal(t, replica.Up, replicaStats(t, r, broken.Name()).State)
		idleAgain(t, r)
	})
}

// A request whose first attempt took longer than it may wait does not wait for
// another, and its bound is not in the past.
func TestASecondAttemptAfterTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		r := tight(t, at("http://a", "http://b"), warmroute.WithHooks(d), warmroute.WithMaxWait(2*time.Second))
		d.router = r
		busy := route(t, r, large("busy"))
		transport := r.Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == busy.Replica().URL().Host {
				return answer(200, tracked("x")), nil
			}
			time.Sleep(3 * time.Second)
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		}))
		d.take()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		time.AfterFunc(2990*time.Millisecond, func() { // those that are overdue are looked for
			_, err := r.Route(ctx, large("other"))
			assert.ErrorIs(t, err, context.Canceled)
		})
		req := post(t, strings.NewReader(`{"x":"`+strings.Repeat("x", 3600)+`"}`)).WithContext(as(t.Context(), "me"))
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		leave()
		synctest.Wait()
		assert.Contains(t, d.take(), "me waits as 2 for 0s keyed false")
		serve(busy, 0)
		idleAgain(t, r)
	})
}
