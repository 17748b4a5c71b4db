package affinity_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/affinity"
)

type table struct {
	*affinity.Table[int]
	t *testing.T
}

func newTable(t *testing.T, cfg affinity.Config) table {
	return table{affinity.NewTable[int](cfg), t}
}

// begin acquires a conversation, binds it to home if it has none, and makes it
// warm.
func (tb table) begin(key string, home *affinity.Home[int]) *affinity.Session[int] {
	s := tb.Acquire(key, tb.Hash(key), time.Now())
	if s.Home() == nil {
		tb.Bind(s, home, time.Now())
	}
	tb.Warm(s, s.Home())
	return s
}

func (tb table) end(s *affinity.Session[int]) { tb.Release(s, time.Now()) }

func (tb table) use(key string, home *affinity.Home[int]) { tb.end(tb.begin(key, home)) }

func (tb table) home(key string) int {
	if h := tb.Peek(key, time.Now()); h != nil {
		return h.Value
	}
	return -1
}

func TestBindingStays(t *testing.T) {
	tb := newTable(t, affinity.Config{})
	one, two := tb.NewHome(1), tb.NewHome(2)
	tb.use("a", one)
	tb.use("a", two)
	tb.use("b", two)
	assert.Equal(t, 1, tb.home("a"))
	assert.Equal(t, 2, tb.home("b"))
	assert.Equal(t, -1, tb.home("c"))
	assert.Equal(t, 1, one.Sessions())
	assert.Equal(t, 1, two.Sessions())
	assert.Equal(t, 2, tb.Len())

	s := tb.begin("a", nil)
	tb.Bind(s, two, time.Now())
	tb.Warm(s, two)
	tb.end(s)
	assert.Equal(t, 2, tb.home("a"), "bound anew")
	assert.Zero(t, one.Sessions())
	assert.Equal(t, 2, two.Sessions())
}

func TestBindingNeedsAnAnswer(t *testing.T) {
	tb := newTable(t, affinity.Config{})
	one, two := tb.NewHome(1), tb.NewHome(2)
	s := tb.Acquire("a", tb.Hash("a"), time.Now())
	tb.Bind(s, one, time.Now())
	second := tb.Acquire("a", tb.Hash("a"), time.Now())
	assert.Same(t, s, second)
	assert.Equal(t, 1, second.Home().Value, "while the first is on its way others follow it")
	tb.Warm(s, two)
	tb.end(s)
	assert.Equal(t, 1, tb.home("a"))
	tb.end(second)
	assert.Equal(t, -1, tb.home("a"), "nothing of it is cached anywhere")
	assert.Zero(t, tb.Len())
	assert.Zero(t, one.Sessions())
}

func TestClosedHomeLosesItsConversations(t *testing.T) {
	tb := newTable(t, affinity.Config{})
	one, two := tb.NewHome(1), tb.NewHome(2)
	tb.use("a", one)
	live := tb.begin("b", one)
	one.Close()
	assert.Equal(t, -1, tb.home("a"))
	assert.Nil(t, live.Home())
	assert.Zero(t, one.Sessions())
	assert.Zero(t, one.Active(time.Now()))
	tb.end(live)
	tb.use("a", two)
	assert.Equal(t, 2, tb.home("a"))
	assert.Equal(t, 1, two.Sessions())
	assert.Equal(t, 1, tb.Len(), "who had a request in flight is forgotten at its end")
}

func TestTTL(t *testing.T) {
	const ttl = time.Minute
	t.Run("slides with use", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tb := newTable(t, affinity.Config{TTL: ttl})
			one := tb.NewHome(1)
			for range 5 {
				tb.use("a", one)
				time.Sleep(ttl - 1)
				assert.Zero(t, tb.Sweep(time.Now()))
				require.Equal(t, 1, tb.home("a"))
			}
			time.Sleep(time.Nanosecond)
			assert.Equal(t, -1, tb.home("a"), "expiry does not wait for a sweep")
			assert.Equal(t, 1, tb.Len())
			time.Sleep(tb.Tick())
			assert.Equal(t, 1, tb.Sweep(time.Now()), "nor is it kept more than a tick")
			assert.Zero(t, tb.Len())
			assert.Zero(t, one.Sessions())
		})
	})
	t.Run("peeking is no use", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tb := newTable(t, affinity.Config{TTL: ttl})
			tb.use("a", tb.NewHome(1))
			time.Sleep(ttl / 2)
			assert.Equal(t, 1, tb.home("a"))
			time.Sleep(ttl / 2)
			assert.Equal(t, -1, tb.home("a"))
		})
	})
	t.Run("not while in flight, and from the end of the last", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tb := newTable(t, affinity.Config{TTL: ttl})
			one := tb.NewHome(1)
			first, second := tb.begin("a", one), tb.begin("a", one)
			time.Sleep(10 * ttl)
			assert.Zero(t, tb.Sweep(time.Now()))
			tb.end(first)
			time.Sleep(10 * ttl)
			assert.Zero(t, tb.Sweep(time.Now()))
			assert.Equal(t, 1, tb.home("a"))
			tb.end(second)
			time.Sleep(ttl - 1)
			assert.Equal(t, 1, tb.home("a"))
			time.Sleep(time.Nanosecond)
			assert.Equal(t, -1, tb.home("a"))
		})
	})
	t.Run("an expired conversation is a new one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tb := newTable(t, affinity.Config{TTL: ttl})
			one, two := tb.NewHome(1), tb.NewHome(2)
			tb.use("a", one)
			time.Sleep(ttl)
			tb.use("a", two)
			assert.Equal(t, 2, tb.home("a"))
			assert.Zero(t, one.Sessions())
			assert.Equal(t, 1, tb.Len())
		})
	})
}

func TestActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t, affinity.Config{TTL: 3 * time.Hour})
		one, two := tb.NewHome(1), tb.NewHome(2)
		for i := range 10 {
			tb.use(strconv.Itoa(i), one)
			time.Sleep(time.Minute)
			want := min(i+1, affinity.ActiveMinutes-1)
			require.Equal(t, want, one.Active(time.Now()), "after %d minutes", i+1)
		}
		for range 3 {
			tb.use("9", one)
			tb.use("9", one)
		}
		assert.Equal(t, affinity.ActiveMinutes-1, one.Active(time.Now()), "each counts once")
		time.Sleep(time.Hour)
		assert.Zero(t, one.Active(time.Now()))
		assert.Equal(t, 10, one.Sessions())
		s := tb.begin("0", one)
		assert.Equal(t, 1, one.Active(time.Now()))
		tb.Bind(s, two, time.Now())
		assert.Zero(t, one.Active(time.Now()))
		assert.Equal(t, 1, two.Active(time.Now()))
		tb.Unbind(s, two)
		assert.Zero(t, two.Active(time.Now()))
		tb.end(s)
	})
}

func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100
		tb := newTable(t, affinity.Config{MaxSessions: most})
		one := tb.NewHome(1)
		live := tb.begin("live", one)
		for i := range 3 * most {
			tb.use(strconv.Itoa(i), one)
			time.Sleep(time.Millisecond)
			require.LessOrEqual(t, tb.Len(), most)
		}
		assert.Equal(t, 1, tb.home("live"), "one in flight never goes")
		for i := range 3 * most {
			want := -1
			if i >= 2*most+1 {
				want = 1
			}
			require.Equal(t, want, tb.home(strconv.Itoa(i)), "the longest idle go: %d", i)
		}
		tb.end(live)

		var inFlight []*affinity.Session[int]
		for i := range 2 * most {
			inFlight = append(inFlight, tb.begin("f"+strconv.Itoa(i), one))
		}
		assert.Equal(t, 2*most, tb.Len(), "only those in flight exceed the bound")
		for _, s := range inFlight {
			tb.end(s)
		}
		tb.use("one more", one)
		assert.LessOrEqual(t, tb.Len(), most)
		assert.Equal(t, tb.Len(), one.Sessions())
	})
}

func TestOneCreationUnderARace(t *testing.T) {
	tb := newTable(t, affinity.Config{})
	const routines, keys = 16, 500
	got := make([][]*affinity.Session[int], routines)
	var ready, all sync.WaitGroup
	ready.Add(routines)
	for g := range routines {
		all.Go(func() {
			ready.Done()
			ready.Wait()
			for i := range keys {
				key := strconv.Itoa(i)
				got[g] = append(got[g], tb.Acquire(key, tb.Hash(key), time.Now()))
			}
		})
	}
	all.Wait()
	for i := range keys {
		for g := range routines {
			require.Same(t, got[0][i], got[g][i])
		}
	}
	assert.Equal(t, keys, tb.Len())
}

// TestAgainstModel runs random histories on the table and on a plain map.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			const ttl = 10 * time.Second
			rnd := rand.New(rand.NewPCG(seed, 1))
			tb := newTable(t, affinity.Config{TTL: ttl})
			homes := []*affinity.Home[int]{tb.NewHome(0), tb.NewHome(1), tb.NewHome(2)}
			type conversation struct {
				home  int
				warm  bool
				idle  time.Time
				users []*affinity.Session[int]
			}
			model := map[string]*conversation{}
			closed := map[int]bool{}
			for step := range 3000 {
				key := strconv.Itoa(rnd.IntN(40))
				c := model[key]
				if c != nil && len(c.users) == 0 && time.Since(c.idle) >= ttl {
					delete(model, key)
					c = nil
				}
				if c != nil && closed[c.home] {
					c.home, c.warm = -1, false
				}
				switch op := rnd.IntN(10); {
				case op < 4:
					s := tb.Acquire(key, tb.Hash(key), time.Now())
					if c == nil {
						c = &conversation{home: -1}
						model[key] = c
					}
					c.users = append(c.users, s)
					if h := s.Home(); c.home < 0 {
						require.Nil(t, h, "seed %d step %d", seed, step)
						i := rnd.IntN(len(homes))
						tb.Bind(s, homes[i], time.Now())
						if c.warm = false; !closed[homes[i].Value] {
							c.home = homes[i].Value
						}
					} else {
						require.NotNil(t, h, "seed %d step %d", seed, step)
						require.Equal(t, c.home, h.Value)
					}
				case op < 6 && c != nil && len(c.users) > 0:
					if h := c.users[0].Home(); h != nil {
						tb.Warm(c.users[0], h)
						c.warm = true
					}
				case op < 9 && c != nil && len(c.users) > 0:
					tb.end(c.users[0])
					c.users = c.users[1:]
					if c.idle = time.Now(); len(c.users) == 0 && (!c.warm || c.home < 0) {
						delete(model, key)
					}
				case op == 9 && rnd.IntN(100) == 0:
					i := rnd.IntN(len(homes))
					homes[i].Close()
					closed[homes[i].Value] = true
					homes[i] = tb.NewHome(len(closed) + 10)
				default:
					time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
					if rnd.IntN(2) == 0 {
						tb.Sweep(time.Now())
					}
				}
			}
			time.Sleep(2 * ttl)
			for _, c := range model {
				for _, s := range c.users {
					tb.end(s)
				}
			}
			tb.Sweep(time.Now())
			time.Sleep(ttl + tb.Tick())
			tb.Sweep(time.Now())
			assert.Zero(t, tb.Len(), "seed %d", seed)
			for _, h := range homes {
				assert.Zero(t, h.Sessions(), "seed %d", seed)
				assert.Zero(t, h.Active(time.Now()))
			}
		})
	}
}

// TestCountsUnderARace has everything happen at once; what is left must add up.
func TestCountsUnderARace(t *testing.T) {
	tb := newTable(t, affinity.Config{TTL: time.Microsecond, MaxSessions: 64})
	homes := []*affinity.Home[int]{tb.NewHome(0), tb.NewHome(1)}
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(g, 2))
			for range 5000 {
				key := strconv.Itoa(rnd.IntN(200))
				s := tb.Acquire(key, tb.Hash(key), time.Now())
				h := s.Home()
				if h == nil {
					h = homes[rnd.IntN(2)]
					tb.Bind(s, h, time.Now())
				}
				switch rnd.IntN(4) {
				case 0:
					tb.Unbind(s, h)
				case 1:
					tb.Peek(key, time.Now())
				default:
					tb.Warm(s, h)
				}
				tb.Release(s, time.Now())
				if rnd.IntN(500) == 0 {
					tb.Sweep(time.Now())
				}
			}
		})
	}
	wg.Wait()
	assert.Equal(t, tb.Len(), homes[0].Sessions()+homes[1].Sessions())
	tb.Sweep(time.Now().Add(time.Second))
	assert.Zero(t, tb.Len())
	assert.Zero(t, homes[0].Sessions())
	assert.Zero(t, homes[1].Sessions())
}

func TestMemoryComesBackAfterMassExpiry(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	tb := newTable(t, affinity.Config{TTL: time.Hour})
	one := tb.NewHome(1)
	before := heap()
	for i := range 200_000 {
		tb.use(strconv.Itoa(i), one)
	}
	peak := heap() - before
	later := time.Now().Add(2 * time.Hour)
	s := tb.Acquire("survivor", tb.Hash("survivor"), later)
	assert.Equal(t, 200_000, tb.Sweep(later))
	left := heap() - before
	assert.Less(t, left, peak/5, "left %d of %d bytes", left, peak)
	tb.Release(s, later)
}

func TestMemo(t *testing.T) {
	tb := newTable(t, affinity.Config{})
	one, two := tb.NewHome(1), tb.NewHome(2)
	s := tb.begin("a", one)
	assert.Zero(t, s.Memo())
	for _, v := range []uint32{1, 5125, affinity.MaxMemo, 0, 7} {
		s.SetMemo(v)
		assert.Equal(t, v, s.Memo())
	}
	s.SetMemo(affinity.MaxMemo + 1)
	assert.Equal(t, uint32(affinity.MaxMemo), s.Memo())
	assert.Equal(t, 1, tb.home("a"), "and nothing else changes")
	tb.end(s)
	assert.Same(t, s, tb.begin("a", nil))
	assert.Equal(t, uint32(affinity.MaxMemo), s.Memo())
	tb.Bind(s, two, time.Now())
	assert.Zero(t, s.Memo(), "it was of the other home")
	tb.end(s)
}

func TestHitAllocatesNothing(t *testing.T) {
	tb := newTable(t, affinity.Config{})
	tb.use("a", tb.NewHome(1))
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		s := tb.Acquire("a", tb.Hash("a"), time.Now())
		tb.Release(s, time.Now())
	}))
}

func BenchmarkHit(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tb := affinity.NewTable[int](affinity.Config{})
			home := tb.NewHome(1)
			keys := make([]string, n)
			for i := range keys {
				keys[i] = fmt.Sprintf("conversation-%d", i)
				s := tb.Acquire(keys[i], tb.Hash(keys[i]), time.Now())
				tb.Bind(s, home, time.Now())
				tb.Warm(s, home)
				tb.Release(s, time.Now())
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				key := keys[i%n]
				s := tb.Acquire(key, tb.Hash(key), time.Now())
				tb.Release(s, time.Now())
				i += 7
			}
		})
	}
}

func ExampleTable() {
	table := affinity.NewTable[string](affinity.Config{TTL: time.Hour})
	replica := table.NewHome("10.0.0.1:8000@2")

	now := time.Now()
	s := table.Acquire("my-conversation", table.Hash("my-conversation"), now)
	if s.Home() == nil {
		table.Bind(s, replica, now) // new: a picker chose this one
	}
	table.Warm(s, replica) // its answer has begun
	table.Release(s, now)  // and ended

	fmt.Println(table.Peek("my-conversation", now).Value, replica.Sessions())
	// Output: 10.0.0.1:8000@2 1
}
