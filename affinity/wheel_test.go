package affinity_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/affinity"
)

// Whatever the TTL and however conversations are used, a sweep each tick
// removes each of them between the end of its TTL and two ticks later: one for
// the sweep, one for the wheel.
func TestNoneIsKeptMoreThanATickTooLong(t *testing.T) {
	for _, ttl := range []time.Duration{5 * time.Millisecond, time.Second, 3 * time.Minute, time.Minute, time.Hour, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(ttl), 3))
			tb := newTable(t, affinity.Config{TTL: ttl})
			home := tb.NewHome(1)
			deadline := map[string]time.Time{}
			use := func(key string) {
				tb.use(key, home)
				deadline[key] = time.Now().Add(ttl)
			}
			for i := range 200 {
				use(strconv.Itoa(i))
				if rnd.IntN(3) == 0 {
					time.Sleep(tb.Tick() * time.Duration(rnd.IntN(40)))
					tb.Sweep(time.Now())
				}
			}
			for steps := 0; len(deadline) > 0; steps++ {
				require.Less(t, steps, 30_000, "ttl %v: %d left", ttl, len(deadline))
				time.Sleep(tb.Tick())
				if steps < 6000 && rnd.IntN(4) == 0 {
					for key, end := range deadline {
						if time.Now().Before(end) {
							use(key) // any one
							break
						}
					}
				}
				tb.Sweep(time.Now())
				live := 0
				for key, end := range deadline {
					if !time.Now().Before(end) {
						require.Equal(t, -1, tb.home(key))
					}
					if time.Since(end) >= tb.Tick() {
						delete(deadline, key)
						continue
					}
					live++
				}
				require.LessOrEqual(t, tb.Len(), live, "ttl %v: kept too long", ttl)
			}
			assert.Zero(t, tb.Len())
			assert.Zero(t, home.Sessions())
		})
	}
}

// Nobody sweeps for days, or only now and then: nothing is lost, nothing stays.
func TestASweepThatComesLate(t *testing.T) {
	for _, pause := range []time.Duration{time.Minute, 40 * time.Minute, 3 * time.Hour, 1000 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			tb := newTable(t, affinity.Config{TTL: time.Hour})
			home := tb.NewHome(1)
			live := tb.begin("live", home)
			for i := range 300 {
				tb.use(strconv.Itoa(i), home)
				time.Sleep(pause / 10)
				tb.use("often", home)
				if i%10 == 9 {
					tb.Sweep(time.Now())
				}
				want := -1
				if pause/10 < time.Hour {
					want = 1
				}
				require.Equal(t, want, tb.home(strconv.Itoa(i)))
				require.Equal(t, 1, tb.home("live"))
				require.Equal(t, 1, tb.home("often"))
			}
			tb.end(live)
			time.Sleep(time.Hour + tb.Tick())
			tb.Sweep(time.Now())
			assert.Zero(t, tb.Len())
		})
	}
}

// A full table that nobody sweeps, for many TTLs.
func TestEvictionWithoutASweep(t *testing.T) {
	for _, step := range []time.Duration{time.Millisecond, 2 * time.Second, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			tb := newTable(t, affinity.Config{TTL: time.Hour, MaxSessions: 100})
			home := tb.NewHome(1)
			for i := range 6000 {
				tb.use(strconv.Itoa(i), home)
				tb.use("often", home)
				time.Sleep(step)
				require.LessOrEqual(t, tb.Len(), 100)
				require.Equal(t, 1, tb.home("often"))
			}
			assert.Equal(t, tb.Len(), home.Sessions())
		})
	}
}

func TestATimeBeforeTheTableWasMade(t *testing.T) {
	tb := newTable(t, affinity.Config{TTL: time.Minute})
	tb.use("a", tb.NewHome(1))
	assert.Zero(t, tb.Sweep(time.Now().Add(-time.Hour)))
	assert.Equal(t, 1, tb.Len())
}

// The one evicted is the longest idle, to within the sixty-fourth of a TTL.
func TestEvictionGoesByIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, ttl = 200, time.Hour
		rnd := rand.New(rand.NewPCG(1, 4))
		tb := newTable(t, affinity.Config{TTL: ttl, MaxSessions: most})
		home := tb.NewHome(1)
		last := map[string]time.Time{}
		for i := range 5000 {
			key := strconv.Itoa(rnd.IntN(i/4 + 1))
			tb.use(key, home)
			last[key] = time.Now()
			time.Sleep(time.Second)
			if i%50 == 0 {
				tb.Sweep(time.Now())
			}
			newestGone, oldestKept := time.Time{}, time.Now()
			for key, use := range last {
				switch {
				case time.Since(use) >= ttl:
					delete(last, key)
				case tb.home(key) < 0:
					if use.After(newestGone) {
						newestGone = use
					}
					delete(last, key)
				case use.Before(oldestKept):
					oldestKept = use
				}
			}
			if !newestGone.IsZero() {
				require.Less(t, newestGone.Sub(oldestKept), ttl/64, "evicted before one idle longer")
			}
		}
	})
}

func TestBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t, affinity.Config{TTL: time.Hour})
		one, two := tb.NewHome(1), tb.NewHome(2)
		want := map[string]time.Duration{}
		for i := range 500 {
			key := strconv.Itoa(i)
			tb.use(key, one)
			want[key] = 0
		}
		tb.use("two", two)
		cold := tb.Acquire("cold", tb.Hash("cold"), time.Now())
		tb.Bind(cold, one, time.Now())
		time.Sleep(time.Minute)
		for key := range want {
			want[key] = time.Minute
		}
		live := tb.begin("7", nil)
		want["7"] = 0
		collect := func() map[string]time.Duration {
			got := map[string]time.Duration{}
			for b := range one.Bindings(time.Now()) {
				got[b.Key] = b.Idle
				tb.Peek(b.Key, time.Now()) // no lock is held here
			}
			return got
		}
		assert.Equal(t, want, collect())
		for range one.Bindings(time.Now()) {
			break
		}
		time.Sleep(time.Hour)
		assert.Equal(t, map[string]time.Duration{"7": 0}, collect(), "what has expired is not there")
		tb.end(live)
		one.Close()
		assert.Empty(t, collect())
		assert.Equal(t, 2, tb.Len(), "the idle ones are gone: %d", tb.Len())
		tb.Bind(cold, one, time.Now())
		assert.Nil(t, cold.Home(), "what is on its way does not bind to it any more")
		tb.end(cold)
		assert.Equal(t, 1, tb.Len())
	})
}
