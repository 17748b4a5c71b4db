package balance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// contested is an Admission with a room that one conversation fills, and another
// that waits for it.
type contested struct {
	*Admission
	t       *testing.T
	now     time.Time
	room    *Room
	running *Turn
	waiting *Turn
}

func contest(t *testing.T, turnover float64) *contested {
	t.Helper()
	a, err := NewAdmission(AdmissionConfig{Turnover: &turnover})
	require.NoError(t, err)
	g := &contested{Admission: a, t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), room: a.Join()}
	g.room.SetCapacity(10_000, true)
	for range knownAfter {
		x := g.arrive(0, 100)
		require.Same(t, x, a.Admit(g.now))
		g.finish(x)
	}
	a.turn = time.Second
	g.running = g.arrive(1, 9000)
	require.Same(t, g.running, a.Admit(g.now))
	g.FirstByte(g.running, g.now)
	g.waiting = g.arrive(2, 9000)
	require.Nil(t, a.Admit(g.now))
	return g
}

func (g *contested) arrive(session uint64, prompt int) *Turn {
	x := &Turn{Session: session, PromptTokens: prompt, MaxTokens: 10}
	require.True(g.t, g.Arrive(x, g.now))
	return x
}

func (g *contested) finish(x *Turn) {
	g.FirstByte(x, g.now)
	g.Finish(x, Served{Prompt: x.PromptTokens, Cached: x.PromptTokens, Completion: 10, Known: true, Measured: true}, g.now)
}

func TestPatienceGrowsWithTheMeanWait(t *testing.T) {
	g := contest(t, DefaultTurnover)
	waited := func(wait time.Duration) {
		g.waits = waits{}
		for range 3 {
			g.waits.add(wait, g.now)
		}
	}
	for name, tc := range map[string]struct {
		turn, wait time.Duration
		want       time.Duration
	}{
		"at least so much":               {time.Second, 0, minPatience},
		"and a turn's time":              {7 * time.Second, 0, 7 * time.Second},
		"a multiple of the mean wait":    {time.Second, 10 * time.Second, 23500 * time.Millisecond},
		"which counts above its minimum": {7 * time.Second, 2 * time.Second, 7 * time.Second},
		"no longer than the bound":       {time.Second, 10 * time.Minute, DefaultMaxWait},
	} {
		t.Run(name, func(t *testing.T) {
			g.turn = tc.turn
			waited(tc.wait)
			assert.InDelta(t, tc.want.Seconds(), g.patience(g.now).Seconds(), 0.01)
		})
	}
}

// TestEveryTurnThatIsSentCountsInTheMeanWait has the mean be over those that wait
// and those that do not.
func TestEveryTurnThatIsSentCountsInTheMeanWait(t *testing.T) {
	g := contest(t, DefaultTurnover)
	g.waits = waits{}
	g.now = g.now.Add(8 * time.Second)
	g.finish(g.running)
	g.now = g.now.Add(time.Second)
	require.Same(t, g.waiting, g.Admit(g.now), "it waited 9 s")
	assert.InDelta(t, 9, g.waits.mean(g.now).Seconds(), 1e-6)
	g.finish(g.waiting)
	again := g.arrive(2, 9000)
	require.NotNil(t, again.Room(), "it went home at once")
	assert.InDelta(t, 4.5, g.waits.mean(g.now).Seconds(), 1e-6)
	g.Pass(&Turn{PromptTokens: 100}, g.room, g.now)
	assert.InDelta(t, 4.5, g.waits.mean(g.now).Seconds(), 1e-6, "it was not the queue's")
}

func TestWhoGivesItsPlaceUp(t *testing.T) {
	stay := func(g *contested) time.Duration { return g.minStay(g.running.conv, g.room, g.now) }
	for name, tc := range map[string]struct {
		turnover float64
		prepare  func(*contested)
		gives    bool
	}{
		"one that was served long":                {DefaultTurnover, func(g *contested) { g.now = g.now.Add(stay(g) + 1) }, true},
		"not one that was not":                    {DefaultTurnover, func(g *contested) { g.now = g.now.Add(stay(g) - 1) }, false},
		"not one that may keep it":                {0, func(g *contested) { g.now = g.now.Add(time.Hour) }, false},
		"not where nobody waits":                  {DefaultTurnover, func(g *contested) { g.now = g.now.Add(time.Hour); g.Cancel(g.waiting) }, false},
		"not before the first has waited enough":  {DefaultTurnover, func(g *contested) { g.rate = 1e9; g.now = g.now.Add(minPatience - 1) }, false},
		"as soon as it has":                       {DefaultTurnover, func(g *contested) { g.rate = 1e9; g.now = g.now.Add(minPatience) }, true},
		"not one that gave it up before, so soon": {DefaultTurnover, func(g *contested) { g.now = g.now.Add(stay(g) + 1); g.running.conv.gaveUp = 1 }, false},
		"but later":                               {DefaultTurnover, func(g *contested) { g.running.conv.gaveUp = 1; g.now = g.now.Add(stay(g) + 1) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := contest(t, tc.turnover)
			c := g.running.conv
			tc.prepare(g)
			before := c.gaveUp
			// What is learned of the turn itself is not what this is about.
			g.FirstByte(g.running, g.now)
			g.Finish(g.running, Served{}, g.now)
			assert.Equal(t, tc.gives, c.displaced)
			if tc.gives {
				assert.Nil(t, c.room)
				assert.Equal(t, before+1, c.gaveUp)
			} else {
				assert.Same(t, g.room, c.room)
				assert.Equal(t, before, c.gaveUp)
			}
		})
	}
}

// TestAStayGrowsWithWhatDisplacingCosts is about the time that a resident keeps
// its place: with n of them, computing one again may take a part of the time.
func TestAStayGrowsWithWhatDisplacingCosts(t *testing.T) {
	g := contest(t, DefaultTurnover)
	c := g.running.conv
	c.footprint, g.rate, g.turn = 8000, 2000, 16*time.Second // 4 s again, a quarter of a turn
	assert.InDelta(t, 4/0.4, g.minStay(c, g.room, g.now).Seconds(), 1e-6)
	c.gaveUp = 2
	assert.InDelta(t, 5*4/0.4, g.minStay(c, g.room, g.now).Seconds(), 1e-6)
	c.gaveUp = 0
	g.turn = 8 * time.Second
	assert.InDelta(t, 4/0.2, g.minStay(c, g.room, g.now).Seconds(), 1e-6, "less of it where that is long for a turn")
	g.turn = time.Second
	assert.InDelta(t, 4/0.1, g.minStay(c, g.room, g.now).Seconds(), 1e-6, "but not nothing")
	g.turn = 16 * time.Second
	g.room.Others = 2
	assert.InDelta(t, 3*4/0.4, g.minStay(c, g.room, g.now).Seconds(), 1e-6, "others share the replica")
	g.Arrive(&Turn{Session: 1, PromptTokens: 9000}, g.now)
	require.Equal(t, 2, g.room.turns)
	c.footprint = 8000
	assert.InDelta(t, 3*4/0.4, g.minStay(c, g.room, g.now).Seconds(), 1e-6, "its own other turns are none of them")
}

// TestADisplacedConversationGoesWhereThereIsLeast has one that lost its cache not
// be drawn back to where that was.
func TestADisplacedConversationGoesWhereThereIsLeast(t *testing.T) {
	for name, displaced := range map[string]bool{"its cache is there": false, "it was displaced": true} {
		t.Run(name, func(t *testing.T) {
			g := contest(t, DefaultTurnover)
			g.Cancel(g.waiting)
			g.finish(g.running)
			c := g.conversations[1]
			g.demote(c)
			c = &conversation{key: 1, last: g.room, displaced: displaced}
			g.conversations[1] = c
			g.room.Others = 1
			other := g.Join()
			other.SetCapacity(10_000, true)
			x := g.arrive(1, 5000)
			require.Same(t, x, g.Admit(g.now))
			assert.Equal(t, displaced, x.Room() == other)
			assert.False(t, c.displaced, "it has a place")
		})
	}
}

// TestTrimmedConversationsAreDisplaced has more idle residents than there is room
// for: those that have been idle longest have lost their caches.
func TestTrimmedConversationsAreDisplaced(t *testing.T) {
	g := contest(t, DefaultTurnover)
	g.Cancel(g.waiting)
	g.now = g.now.Add(time.Hour) // the places of idle ones are not kept
	g.finish(g.running)
	first := g.conversations[1]
	g.now = g.now.Add(2 * time.Second)
	g.gaps.hold = 0
	x := g.arrive(2, 9000)
	require.Same(t, x, g.Admit(g.now))
	assert.Nil(t, first.room)
	assert.True(t, first.displaced)
	assert.Zero(t, first.gaveUp, "it did not give its place up")
}
