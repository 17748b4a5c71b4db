package balance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balance"
)

func TestAdmissionAsksWhichRoomIsPreferred(t *testing.T) {
	var asked [][]*balance.Room
	var prefer func(rooms []*balance.Room) *balance.Room
	cfg := balance.AdmissionConfig{Prefer: func(_ *balance.Turn, rooms []*balance.Room, _ time.Time) *balance.Room {
		asked = append(asked, append([]*balance.Room(nil), rooms...))
		return prefer(rooms)
	}}
	prefer = func([]*balance.Room) *balance.Room { return nil }
	g := newGate(t, cfg, 10_000, 10_000, 10_000)
	asked = nil

	first := g.arrive(1, 100)
	require.Len(t, asked, 1)
	assert.ElementsMatch(t, g.rooms, asked[0])
	assert.Same(t, asked[0][0], first.Room(), "without a preference the one that is first")

	prefer = func(rooms []*balance.Room) *balance.Room { return rooms[len(rooms)-1] }
	second := g.arrive(2, 100)
	assert.Same(t, asked[1][len(asked[1])-1], second.Room())
	assert.Same(t, first.Room(), second.Room(), "one request more is about as free")

	third := g.arrive(3, 100)
	assert.Same(t, first.Room(), third.Room(), "two are")
	fourth := g.arrive(4, 100)
	assert.NotContains(t, asked[3], first.Room(), "three are not")
	assert.NotSame(t, first.Room(), fourth.Room())
	for i, rooms := range asked {
		assert.GreaterOrEqual(t, len(rooms), 2, i)
	}
}

func TestAdmissionPrefersOnlyWhereThereIsAChoice(t *testing.T) {
	n := 0
	g := newGate(t, balance.AdmissionConfig{Prefer: func(_ *balance.Turn, rooms []*balance.Room, _ time.Time) *balance.Room {
		n++
		return rooms[0]
	}}, 10_000, 10_000)
	turn := g.arrive(1, 100)
	home := turn.Room()
	n = 0
	g.finish(turn, 1)
	assert.Same(t, home, g.arrive(1, 200).Room(), "at home")
	assert.Same(t, home, func() *balance.Room {
		t := &balance.Turn{Session: 2, PromptTokens: 100, Home: home}
		g.come(t)
		return t.Room()
	}(), "where it was before, or its parent is")
	g.rooms[0].Open = home == g.rooms[0]
	g.rooms[1].Open = home == g.rooms[1]
	g.arrive(3, 100)
	assert.Zero(t, n)

	chosen := 0
	g = newGate(t, balance.AdmissionConfig{
		Choose: func(_ *balance.Turn, rooms []*balance.Room, _ time.Time) *balance.Room { chosen++; return rooms[0] },
		Prefer: func(_ *balance.Turn, rooms []*balance.Room, _ time.Time) *balance.Room {
			n++
			return rooms[0]
		},
	}, 10_000, 10_000)
	g.arrive(1, 100)
	assert.Zero(t, n, "it is the other's choice")
	assert.Positive(t, chosen)
}

// Conversations that come one after another to idle rooms spread over them.
func TestAdmissionSpreadsOverEqualRooms(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 100_000, 100_000, 100_000, 100_000)
	counts := map[*balance.Room]int{}
	for i := range 40 {
		turn := g.arrive(uint64(i+1), 100)
		counts[turn.Room()]++
		g.finish(turn, 0)
		g.pass(70 * time.Second) // it has ended
	}
	require.Len(t, counts, 4)
	for _, n := range counts {
		assert.Equal(t, 10, n)
	}
}

// So do requests that belong to no conversation.
func TestAdmissionTakesEqualRoomsInTurn(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 100_000, 100_000, 100_000, 100_000)
	counts := map[*balance.Room]int{}
	for range 40 {
		turn := g.arrive(0, 100)
		counts[turn.Room()]++
		g.finish(turn, 0)
	}
	require.Len(t, counts, 4)
	for _, n := range counts {
		assert.Equal(t, 10, n)
	}
}
