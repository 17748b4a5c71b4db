package balance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balance"
)

// TestManySmallTurnsGoAtOnce has more of them than may prefill at a time where
// prompts are long, without a first byte, as when answers are not streamed.
func TestManySmallTurnsGoAtOnce(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 1_000_000)
	for s := range uint64(20) {
		assert.NotNil(t, g.arrive(s+1, 500).Room())
		assert.NotNil(t, g.arrive(0, 500).Room())
	}
}

// TestAPrefillWithoutAFirstByteIsOverAtSomeTime has long prompts whose answers
// are not streamed.
func TestAPrefillWithoutAFirstByteIsOverAtSomeTime(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 20_000)
	var turns []*balance.Turn
	for s := range uint64(6) {
		turns = append(turns, g.arrive(s+1, 3000))
	}
	assert.Equal(t, 2, g.Waiting(), "where space is short two prefill at a time")
	g.pass(15 * time.Second)
	for _, turn := range turns {
		assert.NotNil(t, turn.Room())
	}
}

func TestTurnsOfAConversationThatWaitStayTogether(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 10_000, 10_000)
	for s := range uint64(4) {
		g.FirstByte(g.arrive(s+1, 4500), g.now)
	}
	first, second := g.arrive(9, 4500), g.arrive(9, 4500)
	require.Nil(t, first.Room())
	room := g.Join()
	room.SetCapacity(100_000, true)
	g.pump()
	assert.Same(t, room, first.Room())
	assert.Same(t, room, second.Room())
}

// TestOneThatCanGoNowhereHoldsUpNobody has the first in the queue avoid the only
// replica with room, and has one that is larger than any.
func TestOneThatCanGoNowhereHoldsUpNobody(t *testing.T) {
	for name, first := range map[string]*balance.Turn{
		"it must not go there": {Session: 8, PromptTokens: 4500},
		"it is too large":      {Session: 8, PromptTokens: 50_000},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, balance.AdmissionConfig{}, 10_000, 10_000)
			for s := range uint64(4) {
				g.FirstByte(g.arrive(s+1, 4500), g.now)
			}
			if first.PromptTokens < 10_000 {
				first.Avoid = g.rooms[1:]
			}
			g.come(first)
			small := g.arrive(9, 4000)
			require.Nil(t, small.Room())
			var there *balance.Turn
			for _, turn := range g.sent {
				if turn.Room() == g.rooms[1] {
					there = turn
				}
			}
			require.NotNil(t, there)
			g.finish(there, 0)
			g.pass(time.Second)
			assert.Same(t, g.rooms[1], small.Room())
			assert.Nil(t, first.Room())
		})
	}
}

// TestABoundHoldsWhateverTheOrder has one of low priority wait behind others that
// keep coming.
func TestABoundHoldsWhateverTheOrder(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{MaxWait: 10 * time.Second}, 10_000)
	running := g.arrive(1, 9000)
	low := &balance.Turn{Session: 2, PromptTokens: 9000, Priority: 5}
	g.come(low)
	for s := range uint64(30) {
		g.come(&balance.Turn{Session: 10 + s, PromptTokens: 9000})
		g.pass(500 * time.Millisecond)
		if s%4 == 3 {
			g.finish(running, 0)
			g.pass(200 * time.Millisecond)
			running = g.sent[len(g.sent)-1]
		}
	}
	require.NotNil(t, low.Room())
	assert.Less(t, low.Waited(g.now), 10500*time.Millisecond)
}

func TestAReplicaOfUnknownSizeTakesEverybody(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 0)
	for s := range uint64(10) {
		turn := g.arrive(s+1, 100_000)
		require.NotNil(t, turn.Room())
		g.finish(turn, 0)
		assert.NotNil(t, g.arrive(s+1, 100_000).Room())
	}
}

func TestADrainingReplicaKeepsWhatItHas(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 10_000, 10_000)
	g.rooms[1].Draining = true
	assert.Same(t, g.rooms[0], g.arrive(1, 1000).Room())
	bound := &balance.Turn{Session: 2, PromptTokens: 1000, Home: g.rooms[1]}
	g.come(bound)
	assert.Same(t, g.rooms[1], bound.Room())
}

// TestGarbageIsNoUsage has an engine count what it cannot have served.
func TestGarbageIsNoUsage(t *testing.T) {
	for name, s := range map[string]balance.Served{
		"answer":           {Prompt: 1000, Completion: 1 << 31, Known: true, Measured: true},
		"prompt":           {Prompt: 1 << 31, Completion: 10, Known: true, Measured: true},
		"cached":           {Prompt: 1000, Cached: 5000, Completion: 10, Known: true, Measured: true},
		"negative":         {Prompt: -5, Completion: -5, Known: true, Measured: true},
		"stream that died": {Failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, balance.AdmissionConfig{}, 20_000)
			turn := g.arrive(1, 1000)
			g.now = g.now.Add(time.Millisecond)
			g.FirstByte(turn, g.now)
			g.Finish(turn, s, g.now)
			for s := range uint64(4) {
				turn := g.arrive(s+2, 3000)
				assert.NotNil(t, turn.Room(), "there is room for four")
				g.FirstByte(turn, g.now)
			}
			assert.NotNil(t, g.arrive(0, 500).Room())
		})
	}
}

// TestWhatComesBackIsNotShared has conversations that were bound before, as after
// a restart of the gateway, find their own caches.
func TestWhatComesBackIsNotShared(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 60_000)
	for s := range uint64(10) {
		turn := &balance.Turn{Session: 100 + s, PromptTokens: 20_000, Home: g.rooms[0]}
		g.come(turn)
		require.NotNil(t, turn.Room())
		g.finish(turn, 19_900)
		g.pass(time.Second)
	}
	sent := 0
	for s := range uint64(20) {
		turn := g.arrive(s+1, 15_000)
		g.FirstByte(turn, g.now)
		if turn.Room() != nil {
			sent++
		}
	}
	assert.LessOrEqual(t, sent, 4, "fifteen thousand tokens each on sixty thousand")
}

// follow ends a turn and returns the one that is sent for it.
func (g *gate) follow(running *balance.Turn) *balance.Turn {
	g.t.Helper()
	g.sent = nil
	g.finish(running, 0)
	g.pass(2 * time.Second)
	require.Len(g.t, g.sent, 1)
	return g.sent[0]
}

// TestUrgentTurnsCostOtherTenantsNothing has a tenant of many urgent turns, and two
// that wait behind them: these have their turns one after another.
func TestUrgentTurnsCostOtherTenantsNothing(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 10_000)
	running := g.arrive(100, 9000)
	g.FirstByte(running, g.now)
	come := func(session, tenant uint64, priority int) {
		g.come(&balance.Turn{Session: session, Tenant: tenant, Priority: priority, PromptTokens: 9000})
	}
	next := func() uint64 {
		running = g.follow(running)
		return running.Session
	}
	for s := range uint64(4) {
		come(10+s, 1, 0)
	}
	for s := range uint64(6) {
		come(20+s, 2, -1)
	}
	for range 5 {
		require.Less(t, uint64(19), next())
	}
	come(30, 3, 0)
	come(31, 3, 0)
	assert.Equal(t, []uint64{25, 10, 30, 11, 31, 12, 13}, []uint64{next(), next(), next(), next(), next(), next(), next()})
}

// TestATenantThatComesLateIsNotServedFirstForLong is about who comes when.
func TestATenantThatComesLateIsNotServedFirstForLong(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 10_000)
	running := g.arrive(100, 9000)
	g.FirstByte(running, g.now)
	come := func(session, tenant uint64) *balance.Turn {
		turn := &balance.Turn{Session: session, Tenant: tenant, PromptTokens: 9000}
		g.come(turn)
		return turn
	}
	next := func() uint64 {
		running = g.follow(running)
		return running.Session
	}
	for s := range uint64(6) {
		come(s+1, 1)
	}
	var order []uint64
	order = append(order, next(), next())
	for s := range uint64(3) { // it has no credit for the time before
		come(s+11, 2)
	}
	order = append(order, next(), next(), next(), next())
	assert.Equal(t, []uint64{1, 2, 3, 11, 4, 12}, order)

	// Turns that are cancelled cost their tenant nothing.
	var gone []*balance.Turn
	for s := range uint64(5) {
		gone = append(gone, come(s+21, 3))
	}
	for _, turn := range gone {
		g.Cancel(turn)
	}
	come(30, 3)
	assert.Contains(t, []uint64{next(), next(), next()}, uint64(30), "with those of the other tenants that are next")
}
