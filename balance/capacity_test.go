package balance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balance"
)

// TestANewReplicaOfUnknownSizeIsTakenToBeLikeTheOthers has one come that has not
// told its size yet while turns wait: they do not all go there.
func TestANewReplicaOfUnknownSizeIsTakenToBeLikeTheOthers(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 10_000, 20_000)
	for s := range uint64(6) {
		g.FirstByte(g.arrive(s+1, 4500), g.now)
	}
	var waiting []*balance.Turn
	for s := range uint64(8) {
		waiting = append(waiting, g.arrive(s+11, 4500))
	}
	require.Equal(t, 8, g.Waiting())
	room := g.Join()
	assert.True(t, g.Bounds(room))
	g.pump()
	assert.Equal(t, 2, room.Residents(), "as many as the smallest takes")
	for _, turn := range waiting[:2] {
		require.Same(t, room, turn.Room())
		g.FirstByte(turn, g.now)
	}
	room.SetCapacity(15_000, true)
	g.pump()
	assert.Equal(t, 3, room.Residents(), "it has told")
	assert.Equal(t, 5, g.Waiting())
}

// TestAReplicaThatNeverTellsItsSizeLearnsIt has one that holds twice what it is
// taken for.
func TestAReplicaThatNeverTellsItsSizeLearnsIt(t *testing.T) {
	g := newGate(t, balance.AdmissionConfig{}, 10_000)
	g.rooms[0].Open = false
	room := g.Join()
	turns := map[uint64]*balance.Turn{}
	served := map[uint64]bool{}
	for s := range uint64(4) {
		turns[s] = g.arrive(s+1, 4500)
	}
	require.Equal(t, 2, g.Waiting())
	for range 60 {
		g.pass(time.Second)
		for s, turn := range turns {
			if turn.Room() == nil {
				continue
			}
			cached := 0
			if served[s] {
				cached = 4500
			}
			served[s] = true
			g.finish(turn, cached)
			turns[s] = g.arrive(s+1, 4500)
		}
	}
	assert.Equal(t, 4, room.Residents())
	assert.Zero(t, g.Waiting())
}

// TestATurnLargerThanACapacityThatIsMisjudgedIsLearnedFrom has the operator take
// the engine's cache for much smaller than it is.
func TestATurnLargerThanACapacityThatIsMisjudgedIsLearnedFrom(t *testing.T) {
	keep := 0.0
	g := newGate(t, balance.AdmissionConfig{Capacity: 5000, Turnover: &keep}, 0)
	first := g.arrive(1, 6000)
	require.NotNil(t, first.Room())
	second := g.arrive(2, 6000)
	require.Nil(t, second.Room())
	for i := range 200 {
		g.pass(time.Second)
		g.finish(first, 6000*min(i, 1))
		first = g.arrive(1, 6000)
	}
	assert.NotNil(t, second.Room(), "the first has found its cache all the time")
}
