package balance_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/replica"
)

func TestBoundedLoadRefuses(t *testing.T) {
	for _, factor := range []float64{1, 0.99, 0, -2, math.NaN(), math.Inf(1), math.Inf(-1)} {
		p, err := balance.BoundedLoad(factor)
		var refused *replica.ConfigError
		require.ErrorAs(t, err, &refused, factor)
		assert.Equal(t, "factor", refused.Field)
		assert.Nil(t, p)
	}
}

func bounded(tb testing.TB, factor float64) balance.Picker {
	tb.Helper()
	p, err := balance.BoundedLoad(factor)
	require.NoError(tb, err)
	return p
}

// On an idle fleet and with room everywhere it is Rendezvous.
func TestBoundedLoadHashesWhereThereIsRoom(t *testing.T) {
	candidates := fleet(t, 8)
	p, plain := bounded(t, 1.25), balance.Rendezvous()
	for s := range uint64(500) {
		require.Equal(t, pick(t, plain, request(s+1), candidates), pick(t, p, request(s+1), candidates))
	}
	for i := range candidates {
		candidates[i].InFlight, candidates[i].Others = 60+i, 40-i
	}
	for s := range uint64(500) {
		require.Equal(t, pick(t, plain, request(s+1), candidates), pick(t, p, request(s+1), candidates))
	}
}

func TestBoundedLoadGoesOnToTheNextInOrder(t *testing.T) {
	candidates := fleet(t, 5)
	p := bounded(t, 1.25)
	for s := range uint64(200) {
		for i := range candidates {
			candidates[i].InFlight = 10
		}
		// The order is that in which Rendezvous chooses as the first ones leave.
		rest, order := append([]balance.Candidate(nil), candidates...), []string{}
		for len(rest) > 0 {
			i := pick(t, balance.Rendezvous(), request(s+1), rest)
			order = append(order, rest[i].Replica.Name())
			rest = append(rest[:i], rest[i+1:]...)
		}
		for _, want := range order[:4] {
			i := pick(t, p, request(s+1), candidates)
			require.Equal(t, want, candidates[i].Replica.Name())
			candidates[i].InFlight = 100
		}
	}
}

func TestBoundedLoadHoldsTheBound(t *testing.T) {
	for _, factor := range []float64{1.0001, 1.25, 2, 100, math.MaxFloat64} {
		rnd, all, p := rand.New(rand.NewPCG(25, 26)), fleet(t, 16), bounded(t, factor)
		for range 3000 {
			n := 1 + rnd.IntN(len(all))
			candidates, total := all[:n], 0
			for i := range candidates {
				candidates[i].InFlight, candidates[i].Others = rnd.IntN(30), rnd.IntN(10)
				total += candidates[i].Load()
			}
			i := pick(t, p, request(rnd.Uint64()|1), candidates)
			bound := math.Ceil(factor * float64(total+1) / float64(n))
			require.LessOrEqual(t, float64(candidates[i].Load()+1), bound)
		}
	}
}

// One hot conversation: 200 requests of it at once over 4 replicas.
func TestBoundedLoadSpreadsAHotConversation(t *testing.T) {
	candidates, p := fleet(t, 4), bounded(t, 1.25)
	for range 200 {
		candidates[pick(t, p, request(7), candidates)].InFlight++
	}
	for i := range candidates {
		assert.LessOrEqual(t, candidates[i].InFlight, 63) // ceil(1.25*200/4)
		assert.Positive(t, candidates[i].InFlight)
	}
}

func TestBoundedLoadTakesLoadsThatAreNotCounts(t *testing.T) {
	candidates, p := fleet(t, 3), bounded(t, 1.25)
	candidates[0].InFlight, candidates[1].InFlight, candidates[2].InFlight = -5, -2, 0
	assert.Equal(t, 0, pick(t, p, request(3), candidates))
}
