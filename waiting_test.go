package warmroute_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// tight is a router whose replicas have room for one conversation each.
func tight(t *testing.T, endpoints []warmroute.Endpoint, opts ...warmroute.Option) *warmroute.Router {
	t.Helper()
	r := newRouter(t, endpoints, append([]warmroute.Option{warmroute.WithResidency(1000)}, opts...)...)
	learn(t, r)
	return r
}

// learned is how many turns learn routes.
const learned = 70

// learn has the router see what turns are like, one after another.
func learn(tb testing.TB, r *warmroute.Router) {
	tb.Helper()
	for range learned {
		lease, err := r.Route(tb.Context(), large(""))
		require.NoError(tb, err)
		serve(lease, 0)
	}
}

// large is a turn that leaves no room for another.
func large(session string) warmroute.Request {
	return warmroute.Request{Session: session, PromptTokens: 900, MaxTokens: 50}
}

// serve ends a turn as the engine would that has so much of it cached.
func serve(lease warmroute.Lease, cached int64) {
	lease.Answered()
	lease.Done(warmroute.Result{Usage: warmroute.Usage{Prompt: 900, Cached: cached, Completion: 50, Known: true, Measured: true}})
}

// routing is a call of Route that may wait.
type routing struct {
	t     *testing.T
	lease warmroute.Lease
	err   error
	done  atomic.Bool
}

func begin(ctx context.Context, t *testing.T, r *warmroute.Router, req warmroute.Request) *routing {
	t.Helper()
	w := &routing{t: t}
	go func() {
		w.lease, w.err = r.Route(ctx, req)
		w.done.Store(true)
	}()
	synctest.Wait()
	return w
}

func (w *routing) waits() bool {
	synctest.Wait()
	return !w.done.Load()
}

// went is the lease, which must be there.
func (w *routing) went() warmroute.Lease {
	w.t.Helper()
	require.False(w.t, w.waits(), "it waits")
	require.NoError(w.t, w.err)
	return w.lease
}

func (w *routing) failed() error {
	w.t.Helper()
	require.False(w.t, w.waits(), "it waits")
	require.Error(w.t, w.err)
	return w.err
}

func (e *events) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.route, e.done, e.scrape, e.state = nil, nil, nil, nil
}

func queue(r *warmroute.Router) warmroute.QueueStats { return r.Stats().Pools[0].Queue }

// idleAgain checks that nothing is left of any request.
func idleAgain(t *testing.T, r *warmroute.Router) {
	t.Helper()
	assert.Zero(t, inFlight(t, r))
	assert.Zero(t, queue(r).Waiting)
	assert.Zero(t, queue(r).Longest)
}

// noSessionInUse runs the router and checks that its sessions, whose time is over,
// are given up: one that a request holds would not be.
func noSessionInUse(t *testing.T, r *warmroute.Router) {
	t.Helper()
	go func() {
		if err := r.Run(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	time.Sleep(5 * time.Second)
	assert.Zero(t, r.Stats().Pools[0].Sessions)
}

func TestResidentTurnsGoHomeWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a", "http://b"))
		homes := map[string]string{}
		for n := range 5 {
			for _, s := range []string{"x", "y"} {
				lease, err := r.TryRoute(large(s))
				require.NoError(t, err)
				if n == 0 {
					homes[s] = lease.Replica().Name()
					assert.Equal(t, warmroute.Placed, lease.Outcome())
				} else {
					assert.Equal(t, warmroute.Sticky, lease.Outcome())
					assert.Equal(t, homes[s], lease.Replica().Name())
				}
				time.Sleep(time.Second)
				serve(lease, int64(min(n, 1)*900))
			}
		}
		assert.NotEqual(t, homes["x"], homes["y"])
		for name := range map[string]bool{"a:80": true, "b:80": true} {
			assert.Equal(t, 1, *replicaStats(t, r, name).Residents)
		}
		q := queue(r)
		assert.True(t, q.Active)
		assert.Equal(t, uint64(learned+10), q.Waits.Count)
		assert.InDelta(t, 0, q.Waits.Sum, 0)
		idleAgain(t, r)
	})
}

func TestATurnWithoutRoomWaitsForAnotherToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e events
		r := tight(t, at("http://a"), warmroute.WithHooks(&e))
		e.forget()
		first := route(t, r, large("first"))
		start := time.Now()
		second := begin(t.Context(), t, r, large("second"))
		time.Sleep(time.Second)
		third := begin(t.Context(), t, r, large("third"))
		time.Sleep(2 * time.Second)
		require.True(t, second.waits())
		require.True(t, third.waits())
		q := queue(r)
		assert.Equal(t, 2, q.Waiting)
		assert.InDelta(t, 3, q.Longest, 1e-9)
		assert.Contains(t, get(t, r.Handler(), "/table").Body.String(), fmt.Sprintf("waiting for room 2 of %d (longest 3.0 s)", q.MaxWaiting))
		assert.Equal(t, 1, inFlight(t, r), "who waits is not in flight")
		require.Len(t, e.route, 1)

		serve(first, 0)
		time.Sleep(time.Second)
		waited := time.Since(start)
		lease := second.went()
		require.True(t, third.waits(), "the oldest first, one at a time")
		require.Len(t, e.route, 2)
		assert.GreaterOrEqual(t, e.route[1].Waited, 3*time.Second)
		assert.LessOrEqual(t, e.route[1].Waited, waited)
		assert.Equal(t, warmroute.Placed, lease.Outcome())

		serve(lease, 0)
		time.Sleep(time.Second)
		serve(third.went(), 0)
		idleAgain(t, r)
		assert.Equal(t, uint64(learned+3), queue(r).Waits.Count)
		assert.Equal(t, warmroute.RequestStats{Placed: 3, Unkeyed: learned}, r.Stats().Pools[0].Requests)
		assert.Equal(t, e.route[2].Waited, e.done[2].Waited)
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	cause := errors.New("the user left")
	for name, test := range map[string]struct {
		ctx  func(context.Context) (context.Context, func())
		want error
	}{
		"cancelled": {func(ctx context.Context) (context.Context, func()) { return context.WithCancel(ctx) }, context.Canceled},
		"cancelled with a cause": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(cause) }
		}, cause},
		"deadline": {func(ctx context.Context) (context.Context, func()) {
			return context.WithTimeout(ctx, 1500*time.Millisecond)
		}, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := tight(t, at("http://a"), warmroute.WithMaxSessions(1), warmroute.WithSessionTTL(time.Minute))
				first := route(t, r, large("first"))
				ctx, cancel := test.ctx(t.Context())
				w := begin(ctx, t, r, large("second"))
				time.Sleep(time.Second)
				require.True(t, w.waits())
				if test.want == context.DeadlineExceeded {
					time.Sleep(time.Second)
				}
				cancel()
				require.ErrorIs(t, w.failed(), test.want)
				assert.Equal(t, 1, inFlight(t, r))
				assert.Zero(t, queue(r).Waiting)
				assert.Zero(t, r.Stats().Pools[0].Requests.Refused, "its caller left")

				serve(first, 0)
				time.Sleep(time.Second)
				idleAgain(t, r)
				// A session that was still held could not be forgotten.
				time.Sleep(2 * time.Minute)
				serve(route(t, r, large("third")), 0)
				assert.Equal(t, 1, r.Stats().Pools[0].Sessions)

				_, err := r.Route(ctx, large("second"))
				require.ErrorIs(t, err, test.want, "done before")
			})
		})
	}
}

// Hundreds of callers at once, some of whom leave while they wait: nothing is
// left over, nobody is forgotten, and a turn that waits takes no goroutine but
// its caller's.
func TestAStormOfWaitingTurnsLeavesNothing(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			const callers, turns = 300, 4
			endpoints := []warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b"}}
			r := tight(t, endpoints, warmroute.WithResidency(8000), warmroute.WithMaxWait(time.Hour))
			before := runtime.NumGoroutine()
			most := 0
			var left, served, waited atomic.Int64
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(i)))
					pause := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
					for range turns {
						ctx, cancel := context.WithCancel(t.Context())
						if random.IntN(3) == 0 {
							time.AfterFunc(time.Duration(random.Int64N(int64(20*time.Second))), cancel)
						}
						req := large(fmt.Sprint(i % 200)) // some have two turns at a time
						if i%10 == 0 {
							req.Session = ""
						}
						start := time.Now()
						lease, err := r.Route(ctx, req)
						switch {
						case err != nil:
							assert.ErrorIs(t, err, context.Canceled)
							left.Add(1)
						default:
							if time.Since(start) > 0 {
								waited.Add(1)
							}
							pause(time.Second)
							serve(lease, 0)
							served.Add(1)
						}
						cancel()
						pause(2 * time.Second)
					}
				})
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
			most = runtime.NumGoroutine()
			require.Greater(t, queue(r).Waiting, 50)
			all.Wait()
			assert.LessOrEqual(t, most, before+callers+5, "one goroutine a caller")
			assert.Equal(t, int64(callers*turns), left.Load()+served.Load())
			assert.NotZero(t, left.Load())
			assert.Greater(t, waited.Load(), int64(callers))
			idleAgain(t, r)
			lease, err := r.TryRoute(warmroute.Request{Session: "small", PromptTokens: 10, MaxTokens: 10})
			require.NoError(t, err, "there is room")
			lease.Done(warmroute.Result{})
			time.Sleep(2 * time.Hour)
			assert.Zero(t, r.Stats().Pools[0].Queue.Waiting)
		})
	}
}

// The same against the race detector, with real threads and no pauses.
func TestWaitingTurnsFromManyThreads(t *testing.T) {
	r := tight(t, at("http://a", "http://b"), warmroute.WithMaxWait(time.Hour))
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(i)))
			for n := range 30 {
				ctx, cancel := context.WithCancel(context.Background())
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					if random.IntN(2) == 0 {
						runtime.Gosched()
						cancel()
					}
				}()
				lease, err := r.Route(ctx, large(fmt.Sprint(i)))
				if err == nil {
					serve(lease, 0)
					serve(lease, 0) // has no effect
				} else {
					assert.ErrorIs(t, err, context.Canceled)
				}
				if n%10 == 0 {
					r.Stats()
				}
				<-gone
				cancel()
			}
		})
	}
	all.Wait()
	idleAgain(t, r)
}
