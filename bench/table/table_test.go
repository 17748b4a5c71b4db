package table_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/bench/table"
)

// newTable returns a table that is open until the end of the test, its clock
// running, and a count of its creations.
func newTable(t *testing.T, impl table.Impl, ttl time.Duration) (table.Table, *atomic.Int64) {
	t.Helper()
	tb, created, stop := openTable(impl, ttl)
	t.Cleanup(stop)
	return tb, created
}

func openTable(impl table.Impl, ttl time.Duration) (t table.Table, created *atomic.Int64, stop func()) {
	replicas, choose := table.RoundRobin(8)
	created = new(atomic.Int64)
	clock := affinity.NewClock()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { clock.Run(ctx) })
	t = impl.New(table.Config{
		TTL: ttl, Clock: clock, Replicas: replicas,
		Choose: func() *table.Replica {
			created.Add(1)
			return choose()
		},
	})
	return t, created, func() {
		t.Close()
		cancel()
		running.Wait()
	}
}

func forEach(t *testing.T, test func(*testing.T, table.Impl), but ...string) {
	for _, impl := range table.Impls() {
		if slices.Contains(but, impl.Name) {
			continue
		}
		t.Run("impl="+impl.Name, func(t *testing.T) { test(t, impl) })
	}
}

func TestBindingStays(t *testing.T) {
	forEach(t, func(t *testing.T, impl table.Impl) {
		tb, created := newTable(t, impl, time.Hour)
		keys := table.NewKeys(1000, 1)
		bound := make([]*table.Replica, keys.Len())
		for i := range bound {
			bound[i] = tb.GetOrCreate(keys.At(i))
		}
		again := keys.Clone()
		for i := range bound {
			require.Same(t, bound[i], tb.GetOrCreate(again.At(i)))
		}
		assert.EqualValues(t, keys.Len(), created.Load())
		assert.Equal(t, keys.Len(), tb.Len())

		for i := range 500 {
			tb.Delete(again.At(i))
		}
		assert.Equal(t, 500, tb.Len())
		tb.GetOrCreate(keys.At(0))
		assert.EqualValues(t, keys.Len()+1, created.Load(), "forgotten, so bound anew")
	})
}

// TestTTLSlides leaves out expirable: its goroutine never ends, which a bubble
// does not allow.
func TestTTLSlides(t *testing.T) {
	forEach(t, func(t *testing.T, impl table.Impl) {
		synctest.Test(t, func(t *testing.T) {
			const ttl = 10 * time.Second
			tb, created := newTable(t, impl, ttl)
			synctest.Wait()
			tb.GetOrCreate("used")
			tb.GetOrCreate("idle")
			for range 4 {
				time.Sleep(ttl * 2 / 5)
				tb.GetOrCreate("used")
			}
			assert.EqualValues(t, 2, created.Load(), "used all the time")
			tb.Sweep()
			synctest.Wait()
			assert.Equal(t, 1, tb.Len(), "idle is gone")

			time.Sleep(ttl + affinity.ClockStep)
			tb.GetOrCreate("used")
			assert.EqualValues(t, 3, created.Load(), "bound anew after a TTL without a use")
		})
	}, "expirable")
}

func TestExpirableExpires(t *testing.T) {
	i := slices.IndexFunc(table.Impls(), func(impl table.Impl) bool { return impl.Name == "expirable" })
	tb, _ := newTable(t, table.Impls()[i], 100*time.Millisecond)
	tb.GetOrCreate("a")
	require.Eventually(t, func() bool { return tb.Len() == 0 }, 30*time.Second, time.Millisecond)
}

// TestOneCreation has 16 goroutines ask for the same new conversation at once,
// again and again. It holds ours to one creation each and logs what the peers
// make of it (go test -v).
func TestOneCreation(t *testing.T) {
	const routines, conversations = 16, 300
	forEach(t, func(t *testing.T, impl table.Impl) {
		tb, created := newTable(t, table.Impl{Name: impl.Name, New: func(cfg table.Config) table.Table {
			choose := cfg.Choose
			cfg.Choose = func() *table.Replica {
				runtime.Gosched() // choosing takes a while
				return choose()
			}
			return impl.New(cfg)
		}}, time.Hour)
		keys := table.NewKeys(conversations, 2)
		apart := 0
		for i := range conversations {
			var got [routines]*table.Replica
			var ready, all sync.WaitGroup
			ready.Add(routines)
			for g := range routines {
				all.Go(func() {
					ready.Done()
					ready.Wait()
					got[g] = tb.GetOrCreate(keys.At(i))
				})
			}
			all.Wait()
			for _, r := range got[1:] {
				if r != got[0] {
					apart++
					break
				}
			}
		}
		t.Logf("%d creations of %d conversations; the callers disagreed on %d", created.Load(), conversations, apart)
		require.GreaterOrEqual(t, created.Load(), int64(conversations))
		if impl.Name == "ours" {
			assert.EqualValues(t, conversations, created.Load())
			assert.Zero(t, apart)
		}
	})
}

func TestHitAllocatesNothing(t *testing.T) {
	tb, _ := newTable(t, table.Impls()[0], time.Hour)
	tb.GetOrCreate("a")
	assert.Zero(t, testing.AllocsPerRun(1000, func() { tb.GetOrCreate("a") }))
}

func TestKeys(t *testing.T) {
	keys := table.NewKeys(1000, 3)
	require.Equal(t, 1000, keys.Len())
	seen := map[string]bool{}
	for i := range keys.Len() {
		assert.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, keys.At(i))
		seen[keys.At(i)] = true
	}
	assert.Len(t, seen, 1000)
	assert.Equal(t, keys, table.NewKeys(1000, 3))
	assert.Equal(t, keys, keys.Clone())
}
