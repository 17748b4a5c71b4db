package warmroute

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var start = time.Unix(1_000_000, 0)

// memberOf is a member of a pool that knows nothing but what its turns say.
func memberOf(p *pool) *member { return &member{pool: p} }

// turns has so many turns after a gap find a part of what was left.
func (m *member) turns(n int, gap time.Duration, part float64, at time.Time) {
	for range n {
		m.survival.add(gap, part == 1, part, at)
		m.pool.survival.add(gap, part == 1, part, at)
	}
}

func TestNothingLostHasNoEffect(t *testing.T) {
	m := memberOf(new(pool))
	assert.Zero(t, m.lost(time.Hour, start))
	for i := range 1000 {
		m.turns(1, time.Duration(i)*time.Second, 1, start.Add(time.Duration(i*i)*time.Second))
	}
	for _, gap := range []time.Duration{-time.Second, 0, time.Minute, time.Hour, 1000 * time.Hour} {
		assert.Zero(t, m.lost(gap, start.Add(1000*time.Second)))
	}
	for _, e := range m.survival.estimates(nil, start) {
		assert.Equal(t, 1.0, e, "exactly")
	}
}

func TestSurvivalIsLearnedByTheGap(t *testing.T) {
	p := new(pool)
	m, other := memberOf(p), memberOf(p)
	m.turns(100, 5*time.Second, 1, start)
	m.turns(24, 3*time.Minute, 0, start)
	assert.Zero(t, m.lost(5*time.Second, start))
	assert.InDelta(t, 0.25, p.survival.estimates(nil, start)[2], 1e-9, "8 of 32")
	assert.Greater(t, m.lost(3*time.Minute, start), 1-doubtBelow, "twice over: the pool's and its own")
	assert.InDelta(t, 0.75, other.lost(3*time.Minute, start), 1e-9, "as far as the pool knows")
	assert.LessOrEqual(t, other.lost(3*time.Minute, start), 1-doubtBelow, "which is not enough")
	other.turns(1, 3*time.Minute, 0, start)
	assert.Greater(t, other.lost(3*time.Minute, start), 1-doubtBelow, "and now is")
	assert.InDelta(t, m.lost(3*time.Minute, start), m.lost(2*time.Hour, start), 1e-9, "what is lost sooner is lost later as well")

	// A replica with a larger cache.
	larger := memberOf(p)
	larger.turns(60, 3*time.Minute, 1, start)
	assert.Less(t, larger.lost(3*time.Minute, start), 0.1)
	assert.Greater(t, m.lost(3*time.Minute, start), 0.5)
}

func TestSurvivalCountsParts(t *testing.T) {
	m := memberOf(new(pool))
	m.turns(500, time.Minute, 0.9, start)
	assert.InDelta(t, 0.1, m.lost(time.Minute, start), 0.01, "a lost tail is no lost prefix")
}

func TestSurvivalFades(t *testing.T) {
	m := memberOf(new(pool))
	m.turns(100, time.Minute, 0, start)
	lost := func(after time.Duration) float64 { return m.lost(time.Minute, start.Add(after)) }
	assert.Greater(t, lost(0), 0.9)
	assert.Greater(t, lost(10*time.Minute), 0.9)
	assert.Less(t, lost(time.Hour), 1-doubtBelow, "conversations go home again, which shows how it is now")
	assert.Positive(t, lost(99*time.Minute))
	assert.Zero(t, lost(100*time.Minute), "the least of it is not computed for ever")
	m.turns(1, time.Minute, 1, start.Add(2*time.Hour))
	assert.Less(t, m.survival.recent[1].turns, 1.1)
}

func TestGapStats(t *testing.T) {
	m := memberOf(new(pool))
	m.turns(3, 10*time.Second, 1, start)
	m.turns(2, 10*time.Second+1, 0.5, start)
	m.turns(1, 100*time.Hour, 0, start)
	s := m.survival.stats(m.survival.estimates(nil, start))
	assert.Equal(t, "10", s[0].upTo())
	assert.Equal(t, "+Inf", s[5].upTo())
	assert.Nil(t, s[5].UpTo)
	assert.InDelta(t, 60, *s[1].UpTo, 0)
	for i, want := range [][2]uint64{{3, 3}, {2, 0}, {}, {}, {}, {1, 0}} {
		assert.Equal(t, want, [2]uint64{s[i].Turns, s[i].Kept})
	}
	assert.InDelta(t, 0.9, s[1].Expected, 1e-9, "9 of 10")
	assert.InDelta(t, 0.9, s[3].Expected, 1e-9, "as after the pause before")
	assert.InDelta(t, 0.9*8/9, s[5].Expected, 1e-9)
}
