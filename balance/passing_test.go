package balance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balance"
)

func TestATurnThatPassesTakesUpRoom(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 10_000)
	pinned := &balance.Turn{Session: 1, PromptTokens: 9000, MaxTokens: 10}
	g.Pass(pinned, g.rooms[0], g.now)
	require.Same(t, g.rooms[0], pinned.Room())
	assert.Equal(t, 1, g.rooms[0].Residents(), "while it is there")
	g.FirstByte(pinned, g.now)
	waiting := g.arrive(2, 4500)
	assert.Nil(t, waiting.Room())
	more := &balance.Turn{PromptTokens: 9000, MaxTokens: 10}
	g.Pass(more, g.rooms[0], g.now)
	assert.NotNil(t, more.Room(), "it never waits")
	g.finish(more, 0)
	assert.Nil(t, waiting.Room())
	g.finish(pinned, 0)
	assert.NotNil(t, waiting.Room(), "no place is kept for it")
	assert.Equal(t, 1, g.rooms[0].Residents())
}

func TestNewConversationsKeepAwayFromTurnsThatPass(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 100_000, 100_000)
	g.rooms[1].Others = 1.5
	for range 2 {
		g.Pass(&balance.Turn{PromptTokens: 1000}, g.rooms[0], g.now)
	}
	assert.Same(t, g.rooms[1], g.arrive(1, 1000).Room())
}

// TestATurnThatPassesAtHomeIsItsConversations has a resident's client choose the
// replica that it is at home on.
func TestATurnThatPassesAtHomeIsItsConversations(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 10_000)
	g.finish(g.arrive(1, 4500), 0)
	pinned := &balance.Turn{Session: 1, PromptTokens: 4600, MaxTokens: 10}
	g.Pass(pinned, g.rooms[0], g.now)
	assert.Equal(t, 1, g.rooms[0].Residents())
	other := g.arrive(2, 4500)
	assert.NotNil(t, other.Room(), "its history is there once")
	g.finish(pinned, 4500)
	assert.Equal(t, 2, g.rooms[0].Residents(), "it keeps its place")
}

// TestParallelTurnsTakeUpRoom has a conversation send several turns at a time, as
// with parallel sub-agents: each adds its own part to their history.
func TestParallelTurnsTakeUpRoom(t *testing.T) {
	for name, tc := range map[string]struct {
		parallel int
		room     bool
	}{"one": {1, true}, "two": {2, true}, "four": {4, false}} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, balance.AdmissionConfig{}, 10_000)
			g.finish(g.arrive(1, 2000), 0)
			var turns []*balance.Turn
			for range tc.parallel {
				turn := g.arrive(1, 3500)
				require.Same(t, g.rooms[0], turn.Room(), "home, whatever is there")
				turns = append(turns, turn)
			}
			assert.Equal(t, 1, g.rooms[0].Residents())
			other := g.arrive(2, 4500)
			assert.Equal(t, tc.room, other.Room() != nil)
			for _, turn := range turns {
				g.finish(turn, 2000)
			}
			g.pass(time.Second)
			assert.NotNil(t, other.Room(), "what is left of them is one history")
			assert.Equal(t, 2, g.rooms[0].Residents())
		})
	}
	t.Run("load", func(t *testing.T) {
		g := newGate(t, balance.AdmissionConfig{}, 100_000, 100_000)
		first := g.arrive(1, 1000)
		for range 3 {
			require.Same(t, first.Room(), g.arrive(1, 1000).Room())
		}
		for s := range uint64(3) {
			assert.NotSame(t, first.Room(), g.arrive(s+2, 1000).Room(), "where four turns are in flight")
		}
	})
}
