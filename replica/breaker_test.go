package replica_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/replica"
)

func steady() float64 { return 0 }

// breakerRun drives one breaker through virtual time.
type breakerRun struct {
	*replica.Breaker
	t   *testing.T
	now time.Time
}

func newBreakerRun(t *testing.T, cfg replica.BreakerConfig) *breakerRun {
	t.Helper()
	if cfg.Jitter == nil {
		cfg.Jitter = steady
	}
	b, err := replica.NewBreaker(cfg)
	require.NoError(t, err)
	return &breakerRun{b, t, time.Unix(1e9, 0)}
}

func (r *breakerRun) wait(d time.Duration) { r.now = r.now.Add(d) }

func (r *breakerRun) begin() replica.Pass {
	p, _ := r.Begin(r.now)
	return p
}

func (r *breakerRun) succeed() bool { return r.Succeeded(r.begin(), r.now) }
func (r *breakerRun) fail() bool    { return r.Failed(r.begin(), r.now) }

func (r *breakerRun) state(want replica.BreakerState) {
	r.t.Helper()
	assert.Equal(r.t, want, r.State(r.now))
	assert.Equal(r.t, want == replica.BreakerClosed, r.State(r.now) == replica.BreakerClosed)
	if want == replica.BreakerOpen {
		assert.False(r.t, r.Allows(r.now))
	}
}

func TestBreakerOpensOnFailuresInARow(t *testing.T) {
	r := newBreakerRun(t, replica.BreakerConfig{})
	for range 3 {
		for range 4 {
			assert.False(t, r.fail())
		}
		assert.False(t, r.succeed(), "it breaks the row, and closes nothing")
	}
	r.wait(time.Minute) // out of the window
	for range 4 {
		assert.False(t, r.fail())
	}
	r.state(replica.BreakerClosed)
	assert.True(t, r.fail(), "the fifth")
	r.state(replica.BreakerOpen)
	assert.Equal(t, uint64(1), r.Opens())
}

func TestBreakerOpensOnAShare(t *testing.T) {
	for _, tc := range []struct {
		name       string
		cfg        replica.BreakerConfig
		ok, failed int // in this order
		pause      time.Duration
		opens      bool
	}{
		{"half of twenty", replica.BreakerConfig{}, 10, 10, 0, true},
		{"half of too few", replica.BreakerConfig{}, 9, 9, 0, false},
		{"less than half", replica.BreakerConfig{}, 30, 20, 0, false},
		{"a smaller share", replica.BreakerConfig{FailureShare: 0.25, MinRequests: 8}, 6, 2, 0, true},
		{"too slowly", replica.BreakerConfig{}, 10, 10, time.Second, false},
		{"slowly, in a longer window", replica.BreakerConfig{Window: time.Minute}, 10, 10, time.Second, true},
		{"off", replica.BreakerConfig{Off: true}, 0, 1000, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.Consecutive = 100
			r := newBreakerRun(t, tc.cfg)
			for range tc.ok {
				r.succeed()
				r.wait(tc.pause)
			}
			opened := false
			for range tc.failed {
				assert.False(t, opened, "before the last one")
				opened = r.fail()
				r.wait(tc.pause)
			}
			assert.Equal(t, tc.opens, opened)
		})
	}
}

func TestBreakerProbes(t *testing.T) {
	for _, probes := range []int{1, 3} {
		r := newBreakerRun(t, replica.BreakerConfig{Consecutive: 1, Probes: probes})
		r.fail()
		r.wait(time.Second - 1)
		r.state(replica.BreakerOpen)
		r.wait(1)
		var all []replica.Pass
		for range probes {
			require.True(t, r.Allows(r.now))
			p, ok := r.Begin(r.now)
			assert.True(t, ok)
			assert.True(t, p.Probe())
			all = append(all, p)
		}
		r.state(replica.BreakerHalfOpen)
		assert.False(t, r.Allows(r.now))
		p, ok := r.Begin(r.now)
		assert.False(t, ok)
		assert.False(t, p.Probe())

		r.Released(p) // it was none
		assert.False(t, r.Allows(r.now))
		r.Released(all[0])
		assert.True(t, r.Allows(r.now), "it said nothing: another is made")
		all[0], _ = r.Begin(r.now)
		assert.True(t, r.Succeeded(all[0], r.now))
		r.state(replica.BreakerClosed)
		assert.True(t, r.Allows(r.now))
		assert.False(t, r.Succeeded(all[0], r.now), "its end, later")
	}
}

func TestBreakerIsOpenLongerEachTime(t *testing.T) {
	r := newBreakerRun(t, replica.BreakerConfig{Consecutive: 1})
	r.fail()
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		r.wait(want*time.Second - 1)
		r.state(replica.BreakerOpen)
		r.wait(1)
		r.state(replica.BreakerHalfOpen)
		assert.True(t, r.fail(), "the probe")
	}
	r.wait(30 * time.Second)
	assert.True(t, r.succeed())
	r.wait(29 * time.Second)
	r.fail()
	r.wait(30*time.Second - 1)
	r.state(replica.BreakerOpen) // so soon after the last time
	r.wait(1)
	assert.True(t, r.succeed())
	r.wait(30 * time.Second)
	r.fail()
	r.wait(time.Second)
	r.state(replica.BreakerHalfOpen)
}

func TestBreakerJitter(t *testing.T) {
	for jitter, want := range map[float64]time.Duration{0: 10 * time.Second, 0.5: 9 * time.Second, 1: 8 * time.Second, 7: 8 * time.Second, -1: 10 * time.Second} {
		r := newBreakerRun(t, replica.BreakerConfig{Consecutive: 1, OpenFor: 10 * time.Second, Jitter: func() float64 { return jitter }})
		r.fail()
		r.wait(want - 1)
		r.state(replica.BreakerOpen)
		r.wait(1)
		r.state(replica.BreakerHalfOpen)
	}
}

// What began before the breaker opened tells of what it has opened for.
func TestBreakerMindsNoResultsOfBefore(t *testing.T) {
	r := newBreakerRun(t, replica.BreakerConfig{Consecutive: 2})
	old := r.begin()
	r.fail()
	r.fail()
	assert.False(t, r.Succeeded(old, r.now))
	r.state(replica.BreakerOpen)
	r.wait(time.Second)
	probe := r.begin()
	assert.False(t, r.Failed(old, r.now))
	assert.False(t, r.Succeeded(old, r.now))
	r.state(replica.BreakerHalfOpen)
	assert.True(t, r.Succeeded(probe, r.now))
	for range 5 {
		assert.False(t, r.Failed(old, r.now))
	}
	r.state(replica.BreakerClosed)
}

// A request that is sent although the breaker is open closes it by its success.
func TestBreakerIsClosedByWhatPassesThrough(t *testing.T) {
	r := newBreakerRun(t, replica.BreakerConfig{Consecutive: 1})
	r.fail()
	p, ok := r.Begin(r.now)
	assert.False(t, ok)
	assert.False(t, r.Failed(p, r.now), "it is open already")
	assert.Equal(t, uint64(1), r.Opens())
	assert.True(t, r.Succeeded(p, r.now))
	r.state(replica.BreakerClosed)
}

func TestBreakerDoesNotOpenOnPossibleFailuresInARow(t *testing.T) {
	r := newBreakerRun(t, replica.BreakerConfig{})
	for range 19 {
		assert.False(t, r.FailedPerhaps(r.begin(), r.now))
	}
	assert.True(t, r.FailedPerhaps(r.begin(), r.now), "a share of twenty")
	r.wait(time.Second)
	p, ok := r.Begin(r.now)
	require.True(t, ok)
	assert.False(t, r.FailedPerhaps(p, r.now))
	assert.True(t, r.Allows(r.now), "another probe")
}

// A probe whose answer takes minutes is no reason to take nothing else.
func TestBreakerAProbeThatTakesLong(t *testing.T) {
	r := newBreakerRun(t, replica.BreakerConfig{Consecutive: 1})
	r.fail()
	r.wait(time.Second)
	first := r.begin()
	r.wait(30*time.Second - 1)
	assert.False(t, r.Allows(r.now))
	r.wait(1)
	second, ok := r.Begin(r.now)
	require.True(t, ok)
	assert.True(t, second.Probe())
	assert.False(t, r.Allows(r.now))
	assert.True(t, r.Succeeded(first, r.now))
}

func TestBreakerConfigIsRefused(t *testing.T) {
	for field, cfg := range map[string]replica.BreakerConfig{
		"breaker consecutive":   {Consecutive: -1},
		"breaker failure share": {FailureShare: 1.1},
		"breaker min requests":  {MinRequests: -1},
		"breaker window":        {Window: time.Millisecond},
		"breaker open for":      {OpenFor: -1},
		"breaker max open for":  {OpenFor: time.Minute, MaxOpenFor: time.Second},
		"breaker probes":        {Probes: -1},
	} {
		_, err := replica.NewBreaker(cfg)
		var refused *replica.ConfigError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, field, refused.Field)
		assert.NotEmpty(t, refused.Value)
		_, err = replica.NewSetWithBreaker(cfg)
		assert.ErrorAs(t, err, &refused)
	}
	_, err := replica.NewBreaker(replica.BreakerConfig{FailureShare: math.NaN()})
	assert.Error(t, err)
	_, err = replica.NewBreaker(replica.BreakerConfig{OpenFor: time.Hour})
	assert.NoError(t, err, "the longest time grows with it")
}

func TestBreakerStateText(t *testing.T) {
	for _, s := range []replica.BreakerState{replica.BreakerClosed, replica.BreakerHalfOpen, replica.BreakerOpen} {
		text, err := s.MarshalText()
		require.NoError(t, err)
		var back replica.BreakerState
		require.NoError(t, back.UnmarshalText(text))
		assert.Equal(t, s, back)
	}
	var refused *replica.ConfigError
	assert.ErrorAs(t, new(replica.BreakerState).UnmarshalText([]byte("ajar")), &refused)
}

// However many begin at once, no more probes go than there may.
func TestBreakerConcurrently(t *testing.T) {
	b, err := replica.NewBreaker(replica.BreakerConfig{Consecutive: 3, Probes: 2, OpenFor: time.Nanosecond, MaxOpenFor: time.Hour, Jitter: steady})
	require.NoError(t, err)
	now := time.Unix(1e9, 0)
	for range 3 {
		p, _ := b.Begin(now)
		b.Failed(p, now)
	}
	now = now.Add(time.Second)
	var probes, most atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				p, ok := b.Begin(now)
				assert.Equal(t, ok, p.Probe())
				if ok {
					most.Store(max(most.Load(), probes.Add(1)))
					probes.Add(-1)
				}
				b.Released(p)
			}
		})
	}
	all.Wait()
	assert.LessOrEqual(t, most.Load(), int32(2))
	assert.True(t, b.Allows(now), "every probe was given back")

	for i := range 8 {
		all.Go(func() {
			for n := range 500 {
				at := now.Add(time.Duration(n) * time.Millisecond)
				p, _ := b.Begin(at)
				if (n+i)%3 == 0 {
					b.Failed(p, at)
				} else {
					b.Succeeded(p, at)
				}
				b.State(at)
			}
		})
	}
	all.Wait()
}

func TestBreakerAllocatesNothing(t *testing.T) {
	r := newBreakerRun(t, replica.BreakerConfig{})
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		r.succeed()
		r.fail()
		r.wait(time.Second)
	}))
}

func BenchmarkBreaker(b *testing.B) {
	br, err := replica.NewBreaker(replica.BreakerConfig{})
	require.NoError(b, err)
	now := time.Unix(1e9, 0)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p, _ := br.Begin(now)
			br.Succeeded(p, now)
		}
	})
}
