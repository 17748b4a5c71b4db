package balance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// paused is an Admission with a room that a conversation of 9,000 tokens fills which
// has paused for nine seconds, as long as computing it again takes, and another that
// waits for it. Conversations are known to pause for half a minute.
func paused(t *testing.T, cfg AdmissionConfig) *contested {
	t.Helper()
	a, err := NewAdmission(cfg)
	require.NoError(t, err)
	g := &contested{Admission: a, t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), room: a.Join()}
	g.room.SetCapacity(10_000, true)
	for range knownAfter {
		x := g.arrive(0, 100)
		require.Same(t, x, a.Admit(g.now))
		g.finish(x)
	}
	a.rate = 1000
	for range 20 {
		a.gaps.add(30 * time.Second)
	}
	a.gaps.derive(100)
	require.Greater(t, a.gaps.hold, 30*time.Second)
	x := g.arrive(1, 9000)
	require.Same(t, x, a.Admit(g.now))
	g.finish(x)
	g.waiting = g.arrive(2, 9000)
	require.Nil(t, a.Admit(g.now))
	g.now = g.now.Add(9100 * time.Millisecond)
	return g
}

func TestAResidentThatPausesYieldsOnceThatCostsNoMoreThanKeepingIt(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(g *contested)
		yields bool
	}{
		"as long as computing it again takes": {func(*contested) {}, true},
		"not as long yet":                     {func(g *contested) { g.now = g.now.Add(-200 * time.Millisecond) }, false},
		"a slower card":                       {func(g *contested) { g.rate = 900 }, false},
		"another gateway's request is there":  {func(g *contested) { g.room.Others = 1 }, false},
		"a prompt is computed there":          {func(g *contested) { require.NotNil(t, g.pass(g.arrive(0, 80))) }, false},
		"its answer has begun": {func(g *contested) {
			x := g.pass(g.arrive(0, 80))
			g.FirstByte(x, g.now)
		}, true},
		"its answer has ended": {func(g *contested) { g.finish(g.pass(g.arrive(0, 80))) }, true},
		"it failed": {func(g *contested) {
			g.Finish(g.pass(g.arrive(0, 80)), Served{Failed: true}, g.now)
		}, true},
		"one that is there already has it": {func(g *contested) {
			x := g.arrive(1, 9100)
			require.Same(t, g.room, x.Room())
			g.FirstByte(x, g.now)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := paused(t, AdmissionConfig{})
			tc.change(g)
			if !tc.yields {
				require.Nil(t, g.Admit(g.now))
				require.LessOrEqual(t, g.Wake().Sub(g.now), soon, "it is looked at again")
				return
			}
			require.Same(t, g.waiting, g.Admit(g.now))
			require.Same(t, g.room, g.waiting.Room())
			g.finish(g.waiting)
			require.True(t, g.conversations[1] == nil || g.conversations[1].room == nil, "the engine has evicted it")
		})
	}
}

// pass sends a turn that goes at once, ahead of the one that waits.
func (g *contested) pass(x *Turn) *Turn {
	g.Cancel(x)
	x.Home = g.room
	g.Pass(x, g.room, g.now)
	return x
}

func TestAPickerChoosesAmongThoseThatYield(t *testing.T) {
	var asked [][]*Room
	g := paused(t, AdmissionConfig{Choose: func(_ *Turn, rooms []*Room, _ time.Time) *Room {
		asked = append(asked, append([]*Room(nil), rooms...))
		return rooms[len(rooms)-1]
	}})
	asked = nil
	require.Same(t, g.waiting, g.Admit(g.now))
	assert.Equal(t, [][]*Room{{g.room}}, asked)
}

func TestOfThoseThatYieldTheLeastLoadedIsTaken(t *testing.T) {
	g := paused(t, AdmissionConfig{})
	other := g.Join()
	other.SetCapacity(10_000, true)
	x := g.arrive(3, 9000)
	x.Avoid = []*Room{g.room}
	require.Same(t, g.waiting, g.Admit(g.now), "there is an empty one")
	require.Same(t, other, g.waiting.Room())
	g.FirstByte(g.waiting, g.now)
	x.Avoid = nil
	require.Same(t, x, g.Admit(g.now))
	require.Same(t, g.room, x.Room())
}

// An engine evicts the longest idle first: nobody behind it makes room before it
// does.
func TestWhoIsIdleForLessTimeYieldsLater(t *testing.T) {
	g := paused(t, AdmissionConfig{})
	g.Cancel(g.waiting)
	g.finish(g.arrive(3, 500))
	large, small := g.conversations[1], g.conversations[3]
	g.now = g.now.Add(2 * time.Second)
	for rate, want := range map[float64]int{
		10_000: 0,
		1000:   0,
		800:    large.footprint + small.footprint, // the large one took longer than that to compute
		100:    large.footprint + small.footprint,
	} {
		g.rate = rate
		assert.InDelta(t, want, g.unyielding(g.room, g.now), 1, "%v tokens a second", rate)
	}
	g.rate = 800
	g.now = g.now.Add(time.Second)
	assert.Zero(t, g.unyielding(g.room, g.now), "both have paused for long enough")
	g.finish(g.arrive(3, 600))
	assert.InDelta(t, small.footprint, g.unyielding(g.room, g.now), 1, "the small one has just been served")
}

// What a resident does not find in the cache need not have been evicted: clients
// change their contexts. What was promised beyond the capacity is another matter.
func TestAPrefixThatIsNotFoundLowersTheCapacity(t *testing.T) {
	for _, tc := range []struct{ kappa, want float64 }{
		{1, 0.95},
		{0.5, 0.475},
		{0.31, 0.3},
		{1.1, 1},
		{1.2, 1.1},
		{3, 2.85},
	} {
		a, err := NewAdmission(AdmissionConfig{Capacity: 10_000})
		require.NoError(t, err)
		g := &contested{Admission: a, t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), room: a.Join()}
		x := g.arrive(1, 2000)
		require.Same(t, x, a.Admit(g.now))
		g.finish(x)
		g.now = g.now.Add(time.Minute)
		g.room.kappa = tc.kappa
		x = g.arrive(1, 2100)
		require.Same(t, g.room, x.Room(), "it goes home")
		g.Finish(x, Served{Prompt: 2100, Completion: 10, Known: true, Measured: true}, g.now)
		assert.InDelta(t, tc.want, g.room.kappa, 1e-9)
	}
}
