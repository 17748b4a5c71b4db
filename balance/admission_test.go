package balance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balance"
)

// gate drives an Admission the way a router does.
type gate struct {
	*balance.Admission
	t     *testing.T
	now   time.Time
	rooms []*balance.Room
	sent  []*balance.Turn
}

func newGate(t *testing.T, cfg balance.AdmissionConfig, capacities ...int) *gate {
	a, err := balance.NewAdmission(cfg)
	require.NoError(t, err)
	g := &gate{Admission: a, t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for _, c := range capacities {
		r := a.Join()
		r.SetCapacity(c, true)
		g.rooms = append(g.rooms, r)
	}
	// Before it has seen any sizes it lets everybody go.
	for range 4 {
		turn := &balance.Turn{PromptTokens: 100, MaxTokens: 10}
		require.True(t, a.Arrive(turn, g.now))
		require.Same(t, turn, a.Admit(g.now))
		g.finish(turn, 0)
	}
	return g
}

func (g *gate) pump() {
	for t := g.Admit(g.now); t != nil; t = g.Admit(g.now) {
		g.sent = append(g.sent, t)
	}
}

// arrive has a turn of a conversation come whose prompt is of the given size.
func (g *gate) arrive(session uint64, prompt int) *balance.Turn {
	t := &balance.Turn{Session: session, PromptTokens: prompt, MaxTokens: 10}
	g.come(t)
	return t
}

func (g *gate) come(t *balance.Turn) {
	require.True(g.t, g.Arrive(t, g.now))
	g.pump()
}

// pass lets time go by, with the calls that a router makes meanwhile.
func (g *gate) pass(d time.Duration) {
	for end := g.now.Add(d); g.now.Before(end); {
		g.now = g.now.Add(min(100*time.Millisecond, end.Sub(g.now)))
		if g.now.UnixMilli()%1000 == 0 {
			g.Tick(g.now)
		}
		g.pump()
	}
}

// finish ends a turn of which the given part of the prompt was cached.
func (g *gate) finish(t *balance.Turn, cached int) {
	g.FirstByte(t, g.now)
	g.Finish(t, balance.Served{Prompt: t.PromptTokens, Cached: cached, Completion: 10, Known: true, Measured: true}, g.now)
	g.pump()
}

func TestWhereEverythingFitsNobodyWaits(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 10_000, 10_000)
	var turns []*balance.Turn
	for s := range uint64(4) {
		turn := g.arrive(s+1, 4000)
		require.NotNil(t, turn.Room())
		g.FirstByte(turn, g.now)
		turns = append(turns, turn)
	}
	assert.Equal(t, 2, g.rooms[0].Residents(), "the least loaded replica is taken")
	assert.Equal(t, 2, g.rooms[1].Residents())
	for range 10 {
		for s, turn := range turns {
			home := turn.Room()
			g.finish(turn, 3900)
			g.pass(time.Millisecond)
			turns[s] = g.arrive(uint64(s)+1, 4100)
			require.Same(t, home, turns[s].Room(), "a resident goes home at once")
			assert.Zero(t, turns[s].Waited(g.now))
		}
	}
	assert.Zero(t, g.Waiting())
}

func TestATurnWithoutRoomWaitsUntilThereIsSome(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 10_000)
	first, second := g.arrive(1, 4500), g.arrive(2, 4500)
	g.FirstByte(first, g.now)
	g.FirstByte(second, g.now)
	third, fourth := g.arrive(3, 4500), g.arrive(4, 4500)
	assert.Nil(t, third.Room())
	assert.Equal(t, 2, g.Waiting())
	assert.False(t, g.Wake().IsZero())

	g.pass(time.Second)
	g.finish(first, 0)
	assert.Nil(t, third.Room(), "the conversation may be back any moment")
	g.pass(time.Second)
	require.Same(t, g.rooms[0], third.Room(), "its place is not kept for ever")
	assert.Nil(t, fourth.Room())
	assert.InDelta(t, 1.1, third.Waited(g.now).Seconds(), 0.3)
	assert.Equal(t, third.Waited(g.now), third.Waited(g.now.Add(time.Hour)), "its wait is over")

	back := g.arrive(1, 4600)
	assert.Nil(t, back.Room(), "its room was taken while it paused")
	g.Cancel(fourth)
	g.Cancel(back)
	g.Cancel(back)
	assert.Zero(t, g.Waiting())
}

func TestAResidentThatWasServedLongGivesItsPlaceUp(t *testing.T) {
	for name, tc := range map[string]struct {
		turnover float64
		gives    bool
	}{"never": {0, false}, "by default": {balance.DefaultTurnover, true}, "soon": {1, true}} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, balance.AdmissionConfig{Turnover: &tc.turnover}, 10_000)
			turns := []*balance.Turn{g.arrive(1, 4500), g.arrive(2, 4500)}
			waiting := g.arrive(3, 4500)
			for second := range 60 {
				cached := 4000
				if second == 0 {
					cached = 0 // the first finds nothing
				}
				g.pass(time.Second)
				for i, turn := range turns {
					if turn.Room() == nil {
						continue // it waits in its turn
					}
					g.finish(turn, cached)
					turns[i] = g.arrive(uint64(i)+1, 4500)
				}
			}
			assert.Equal(t, tc.gives, waiting.Room() != nil)
		})
	}
}

func TestNobodyWaitsLongerThanTheBound(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{MaxWait: 10 * time.Second}, 10_000, 10_000)
	g.rooms[0].Others = 3
	for s := range uint64(4) {
		g.FirstByte(g.arrive(s+1, 4500), g.now)
	}
	turn := g.arrive(9, 4500)
	g.pass(9 * time.Second)
	require.Nil(t, turn.Room())
	g.pass(2 * time.Second)
	assert.Same(t, g.rooms[1], turn.Room(), "the least loaded")
	assert.Less(t, turn.Waited(g.now), 10500*time.Millisecond)
}

func TestTheQueueIsBounded(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{MaxQueue: 2}, 10_000)
	for s := range uint64(2) {
		g.FirstByte(g.arrive(s+1, 4500), g.now)
	}
	g.arrive(3, 4500)
	waiting := g.arrive(4, 4500)
	refused := &balance.Turn{Session: 5, PromptTokens: 4500}
	assert.False(t, g.Arrive(refused, g.now))
	assert.Equal(t, 2, g.Waiting())
	g.Cancel(waiting)
	assert.True(t, g.Arrive(refused, g.now))
}

func TestTheOrderOfTheQueue(t *testing.T) {
	// The sessions of those that wait, in the order in which they are to go. Tenant
	// 1 comes first with four, tenant 2 with two.
	for name, tc := range map[string]struct {
		turns []balance.Turn
		order []uint64
	}{
		"oldest first": {
			turns: []balance.Turn{{Session: 1}, {Session: 2}, {Session: 3}},
			order: []uint64{1, 2, 3},
		},
		"tenants in turn": {
			turns: []balance.Turn{
				{Session: 1, Tenant: 1}, {Session: 2, Tenant: 1}, {Session: 3, Tenant: 1}, {Session: 4, Tenant: 1},
				{Session: 5, Tenant: 2}, {Session: 6, Tenant: 2},
			},
			order: []uint64{1, 5, 2, 6, 3, 4},
		},
		"priority before all else": {
			turns: []balance.Turn{{Session: 1, Tenant: 1}, {Session: 2, Tenant: 2, Priority: 5}, {Session: 3, Tenant: 1, Priority: -1}},
			order: []uint64{3, 1, 2},
		},
		"one that is sent again": {
			turns: []balance.Turn{{Session: 1}, {Session: 2}, {Session: 3, Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}},
			order: []uint64{3, 1, 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, balance.AdmissionConfig{}, 10_000)
			g.pass(time.Second)
			running := g.arrive(100, 9000)
			g.FirstByte(running, g.now)
			for i := range tc.turns {
				tc.turns[i].PromptTokens = 9000
				g.come(&tc.turns[i])
				g.pass(time.Millisecond)
			}
			var order []uint64
			for range tc.order {
				g.sent = nil
				g.finish(running, 0)
				g.pass(2 * time.Second)
				require.Len(t, g.sent, 1)
				running = g.sent[0]
				order = append(order, running.Session)
			}
			assert.Equal(t, tc.order, order)
		})
	}
}

func TestAReplicaThatIsGoneGivesUpItsResidents(t *testing.T) {
	for name, gone := range map[string]func(*gate){
		"it left":     func(g *gate) { g.Leave(g.rooms[0]) },
		"it is down":  func(g *gate) { g.rooms[0].Open = false },
		"lost cache":  func(g *gate) { g.Evict(g.rooms[0]); g.rooms[0].Open = false },
		"not for one": nil,
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, balance.AdmissionConfig{}, 10_000, 10_000)
			turn := g.arrive(1, 4500)
			require.Same(t, g.rooms[0], turn.Room())
			g.finish(turn, 0)
			next := &balance.Turn{Session: 1, PromptTokens: 4600}
			if gone != nil {
				gone(g)
			} else {
				next.Avoid = g.rooms[:1]
			}
			g.come(next)
			assert.Same(t, g.rooms[1], next.Room())
			g.finish(next, 0)
			assert.Same(t, g.rooms[1], g.arrive(1, 4700).Room())
		})
	}
}

func TestANewReplicaTakesThoseWhoWait(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 10_000)
	for s := range uint64(2) {
		g.FirstByte(g.arrive(s+1, 4500), g.now)
	}
	waiting := g.arrive(3, 4500)
	require.Nil(t, waiting.Room())
	room := g.Join()
	room.SetCapacity(10_000, true)
	g.pump()
	assert.Same(t, room, waiting.Room())
}

// TestAPromptLargerThanACacheGoesAlone is about one that no replica has room for.
func TestAPromptLargerThanACacheGoesAlone(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 10_000)
	small := g.arrive(1, 1000)
	large := g.arrive(2, 50_000)
	require.Nil(t, large.Room())
	g.finish(small, 0)
	g.pass(time.Second)
	assert.NotNil(t, large.Room())
}

// TestACapacityThatIsMisjudgedCorrectsItself has an engine whose cache is not as
// large as is believed, or larger, by telling what is cached.
func TestACapacityThatIsMisjudgedCorrectsItself(t *testing.T) {
	const size, prompt = 20_000, 4500
	for name, believed := range map[string]int{"x0.7": size * 7 / 10, "x2": size * 2} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, balance.AdmissionConfig{Capacity: believed}, 0)
			turns := map[uint64]*balance.Turn{}
			for s := range uint64(10) {
				turns[s+1] = g.arrive(s+1, prompt)
			}
			// A cache: the last conversations that fit.
			var lru []uint64
			resident := 0
			for second := range 1200 {
				g.pass(time.Second)
				for s := range uint64(10) {
					turn := turns[s+1]
					if turn.Room() == nil {
						continue
					}
					cached := 0
					for i, x := range lru {
						if x == s+1 {
							if (len(lru)-i)*prompt <= size {
								cached = prompt
							}
							lru = append(lru[:i:i], lru[i+1:]...)
							break
						}
					}
					lru = append(lru, s+1)
					g.finish(turn, cached)
					turns[s+1] = g.arrive(s+1, prompt)
				}
				if second > 900 {
					resident = max(resident, g.rooms[0].Residents())
				}
			}
			assert.InDelta(t, size/prompt, resident, 1.1)
		})
	}
}

// TestACapacityTakenForHalfOfItCorrectsItselfWithinAMinute has residents that
// always find their caches while others wait.
func TestACapacityTakenForHalfOfItCorrectsItselfWithinAMinute(t *testing.T) {
	const size, prompt, conversations = 20_000, 4500, 4
	g := newGate(t, balance.AdmissionConfig{Capacity: size / 2}, 0)
	turns := map[uint64]*balance.Turn{}
	served := map[uint64]bool{}
	for s := range uint64(conversations) {
		turns[s] = g.arrive(s+1, prompt)
	}
	for range 60 {
		g.pass(time.Second)
		for s := range uint64(conversations) {
			turn := turns[s]
			if turn.Room() == nil {
				continue
			}
			cached := 0
			if served[s] {
				cached = prompt
			}
			served[s] = true
			g.finish(turn, cached)
			turns[s] = g.arrive(s+1, prompt)
		}
	}
	assert.Equal(t, conversations, g.rooms[0].Residents())
	assert.Zero(t, g.Waiting())
}

func TestAdmissionRefusesABadConfiguration(t *testing.T) {
	low, high := -0.1, 1.1
	for want, cfg := range map[string]balance.AdmissionConfig{
		"capacity is -1 tokens": {Capacity: -1},
		"turnover is -0.1":      {Turnover: &low},
		"turnover is 1.1":       {Turnover: &high},
		"max wait is -1s":       {MaxWait: -time.Second},
		"max queue is -1 turns": {MaxQueue: -1},
	} {
		_, err := balance.NewAdmission(cfg)
		assert.ErrorContains(t, err, want)
	}
}
