package balance

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pausing has learned of so many pauses of each length.
func pausing(pauses map[time.Duration]int) *gaps {
	g := &gaps{hold: firstHold, pays: true}
	for pause, n := range pauses {
		for range n {
			g.add(pause)
		}
	}
	return g
}

const ended = time.Duration(math.MaxInt64)

func TestHoldIsTheLongestPauseWorthWaitingFor(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		pauses  map[time.Duration]int
		benefit float64 // s
		hold    time.Duration
		pays    bool
	}{
		"too few to tell":          {map[time.Duration]int{2 * s: 15}, 10, firstHold, true},
		"a capacity not known":     {map[time.Duration]int{2 * s: 20}, 0, firstHold, true},
		"all come back in time":    {map[time.Duration]int{2 * s: 20}, 10, 2405 * time.Millisecond, true},
		"all come back too late":   {map[time.Duration]int{6 * s: 20}, 10, 5 * time.Millisecond, false},
		"the late ones are let go": {map[time.Duration]int{s: 10, 30 * s: 10}, 10, 1205 * time.Millisecond, true},
		"and those that end":       {map[time.Duration]int{s: 10, ended: 10}, 10, 1205 * time.Millisecond, true},
		// A part k of the pauses of x gains k*5 - x seconds, whole benefit 5.
		"just enough come back":     {map[time.Duration]int{s: 36, ended: 64}, 10, 1205 * time.Millisecond, true},
		"not quite":                 {map[time.Duration]int{s: 34, ended: 66}, 10, 1205 * time.Millisecond, false},
		"too few to gain by":        {map[time.Duration]int{s: 19, ended: 81}, 10, 5 * time.Millisecond, false},
		"nobody":                    {map[time.Duration]int{ended: 20}, 10, 5 * time.Millisecond, false},
		"no longer than is counted": {map[time.Duration]int{59 * s: 20}, 1000, time.Minute, true},
		"a pause that is an end":    {map[time.Duration]int{61 * s: 20}, 1000, 5 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := pausing(tc.pauses)
			g.derive(tc.benefit)
			assert.InDelta(t, tc.hold, g.hold, float64(time.Microsecond))
			assert.Equal(t, tc.pays, g.pays)
		})
	}
}

func TestOldPausesAreForgotten(t *testing.T) {
	g := pausing(map[time.Duration]int{20 * time.Second: 300})
	for range len(g.last) {
		g.add(time.Second)
	}
	g.derive(10)
	assert.Equal(t, 1205*time.Millisecond, g.hold.Round(time.Microsecond))
	assert.Zero(t, g.returns(2*time.Second))
}

func TestWhoHasPausedForLongIsLessLikelyToComeBack(t *testing.T) {
	g := pausing(nil)
	assert.Equal(t, 1.0, g.returns(time.Hour), "nothing is known")
	g = pausing(map[time.Duration]int{1 * time.Second: 50, 10 * time.Second: 25, ended: 25})
	g.derive(10)
	for pause, want := range map[time.Duration]float64{
		0:                        1,
		time.Second:              1,
		time.Second + 1:          (25.0 / 50) / (75.0 / 100),
		10 * time.Second:         (25.0 / 50) / (75.0 / 100),
		10*time.Second + 1:       0,
		maxHold + time.Second:    0,
		time.Duration(1<<63 - 1): 0,
	} {
		assert.InDelta(t, want, g.returns(pause), 1e-9, "after %s", pause)
	}
}

func TestMeanWaitIsThatOfTheLastMinute(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var w waits
	assert.Zero(t, w.mean(at))
	w.add(-time.Second, at) // a clock that went back
	assert.Zero(t, w.mean(at))
	w.add(4*time.Second, at)
	assert.Equal(t, 2*time.Second, w.mean(at), "those that did not wait count")
	w.add(11*time.Second, at)
	assert.Equal(t, 5*time.Second, w.mean(at))
	assert.Equal(t, 5*time.Second, w.mean(at.Add(30*time.Second)).Round(time.Millisecond), "time alone changes nothing")
	assert.Zero(t, w.mean(at.Add(2*time.Minute)), "but says nothing after long")
	later := at.Add(time.Minute)
	w.add(0, later)
	assert.InDelta(t, 15/math.E/(3/math.E+1), w.mean(later).Seconds(), 1e-6, "a minute ago counts a third")
}

// TestWhoComesBackAndIsTurnedAwayMakesNoPause has a conversation be refused, and
// one give up, when they come back: their pause is over, and no other has begun.
func TestWhoComesBackAndIsTurnedAwayMakesNoPause(t *testing.T) {
	a, err := NewAdmission(AdmissionConfig{MaxQueue: 1})
	require.NoError(t, err)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := a.Join()
	r.SetCapacity(10_000, true)
	serve := func(session uint64) {
		turn := &Turn{Session: session, PromptTokens: 9000}
		require.True(t, a.Arrive(turn, now))
		require.Same(t, turn, a.Admit(now))
		a.FirstByte(turn, now)
		a.Finish(turn, Served{Prompt: 9000, Completion: 10, Known: true, Measured: true}, now)
		now = now.Add(time.Second)
	}
	for s := range uint64(5) {
		serve(s + 1)
	}
	a.Evict(r) // they have no places
	full := &Turn{Session: 10, PromptTokens: 9000}
	require.True(t, a.Arrive(full, now))
	require.Same(t, full, a.Admit(now))
	waits := &Turn{Session: 1, PromptTokens: 9000}
	require.True(t, a.Arrive(waits, now))
	require.Nil(t, a.Admit(now))
	require.False(t, a.Arrive(&Turn{Session: 2, PromptTokens: 9000}, now), "the queue is full")
	a.Cancel(waits)
	require.Equal(t, 2, a.gaps.n, "two have come back")
	a.Tick(now.Add(time.Second))
	assert.Equal(t, 2, a.gaps.n)
	a.Tick(now.Add(maxHold + time.Second))
	assert.Equal(t, 5, a.gaps.n, "the other three have not")
	assert.Len(t, a.conversations, 1)
}

// TestWhatComesAfterAFailedTurnIsNoPause has turns that were not served be sent
// again, at once or never: nobody thought meanwhile.
func TestWhatComesAfterAFailedTurnIsNoPause(t *testing.T) {
	for name, passes := range map[string]bool{"admitted": false, "passed": true} {
		t.Run(name, func(t *testing.T) {
			a, err := NewAdmission(AdmissionConfig{})
			require.NoError(t, err)
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			r := a.Join()
			r.SetCapacity(10_000, true)
			turn := func(s Served) {
				now = now.Add(25 * time.Millisecond)
				turn := &Turn{Session: 1, PromptTokens: 1000}
				if passes && a.conversations[1] != nil && a.conversations[1].room == r {
					a.Pass(turn, r, now)
				} else {
					require.True(t, a.Arrive(turn, now))
					if turn.Room() == nil {
						require.Same(t, turn, a.Admit(now))
					}
				}
				a.Finish(turn, s, now)
			}
			served := Served{Prompt: 1000, Completion: 10, Known: true, Measured: true}
			turn(Served{Failed: true})
			require.Len(t, a.conversations, 1, "it is remembered all the same")
			turn(Served{Failed: true})
			turn(served)
			require.Zero(t, a.gaps.n, "two attempts and then the turn")
			turn(served)
			require.Equal(t, 1, a.gaps.n, "a pause")
			turn(Served{Failed: true})
			require.Equal(t, 2, a.gaps.n, "one before it fails")
			a.Tick(now.Add(2 * maxHold))
			assert.Equal(t, 2, a.gaps.n, "who does not try again has not ended for lack of interest")
			a.Tick(now.Add(2 * longestIdle))
			assert.Empty(t, a.conversations)
			assert.Empty(t, a.ended)
		})
	}
}

// TestAFailedTurnLeavesNothingToGoBackTo has a conversation be sent elsewhere in
// vain: its cache is where it was before.
func TestAFailedTurnLeavesNothingToGoBackTo(t *testing.T) {
	a, err := NewAdmission(AdmissionConfig{})
	require.NoError(t, err)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	home, other := a.Join(), a.Join()
	home.SetCapacity(10_000, true)
	other.SetCapacity(10_000, true)
	send := func(s Served, avoid ...*Room) *Room {
		now = now.Add(time.Second)
		turn := &Turn{Session: 1, PromptTokens: 1000, Avoid: avoid}
		require.True(t, a.Arrive(turn, now))
		if turn.Room() == nil {
			require.Same(t, turn, a.Admit(now))
		}
		a.Finish(turn, s, now)
		return turn.Room()
	}
	served := Served{Prompt: 1000, Completion: 10, Known: true, Measured: true}
	require.Same(t, home, send(served, other))
	require.Same(t, other, send(Served{Failed: true}, home))
	assert.Same(t, home, send(served))
	require.Same(t, other, send(Served{Failed: true, Prompt: 1000, Known: true}, home))
	assert.Same(t, other, send(served), "it was computed there")
}
