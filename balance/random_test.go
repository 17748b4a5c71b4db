package balance_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/balance"
)

func TestRandomIsEven(t *testing.T) {
	for _, n := range []int{2, 7, 64} {
		candidates := fleet(t, n)
		candidates[0].InFlight = 1000 // load does not matter
		requireEven(t, spread(t, balance.Random(rand.New(rand.NewPCG(13, 14))), candidates, 1000*n, nothing))
	}
}

func TestPowerOfTwo(t *testing.T) {
	t.Run("takes two distinct candidates", func(t *testing.T) {
		candidates := fleet(t, 2)
		candidates[0].InFlight = 1
		assert.Equal(t, []int{0, 1000}, spread(t, balance.PowerOfTwo(rand.New(rand.NewPCG(15, 16))), candidates, 1000, nothing))
	})
	t.Run("sessions break a tie", func(t *testing.T) {
		candidates := fleet(t, 2)
		candidates[1].Sessions = 1
		assert.Equal(t, []int{1000, 0}, spread(t, balance.PowerOfTwo(rand.New(rand.NewPCG(15, 16))), candidates, 1000, nothing))
	})
	t.Run("every pair is equally likely", func(t *testing.T) {
		// With loads 0, 1, 2, 3 candidate i wins the pairs with those above
		// it: 3, 2, 1 and 0 of the 6.
		candidates := fleet(t, 4)
		for i := range candidates {
			candidates[i].InFlight = i
		}
		counts := spread(t, balance.PowerOfTwo(rand.New(rand.NewPCG(17, 18))), candidates, 6000, nothing)
		for i, want := range []int{3000, 2000, 1000, 0} {
			assert.InDelta(t, want, counts[i], 150)
		}
		assert.Zero(t, counts[3])
	})
	t.Run("equal ones are even", func(t *testing.T) {
		requireEven(t, spread(t, balance.PowerOfTwo(rand.New(rand.NewPCG(19, 20))), fleet(t, 8), 8000, nothing))
	})
	t.Run("a burst stays close to even", func(t *testing.T) {
		for _, got := range spread(t, balance.PowerOfTwo(rand.New(rand.NewPCG(21, 22))), fleet(t, 16), 16*50, inFlight) {
			assert.InDelta(t, 50, got, 4)
		}
	})
}

func TestGlobalSource(t *testing.T) {
	for _, p := range []balance.Picker{balance.Random(nil), balance.PowerOfTwo(nil)} {
		for i, got := range spread(t, p, fleet(t, 3), 3000, nothing) {
			assert.Positive(t, got, i)
		}
	}
}
