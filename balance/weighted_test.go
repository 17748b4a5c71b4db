package balance_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/replica"
)

// fixed gives the candidates the scores in order.
func fixed(scores ...float64) balance.Scorer {
	return balance.ScorerFunc(func(_ *balance.Request, _ []balance.Candidate, out []float64) { copy(out, scores) })
}

func TestWeightedScorerValidate(t *testing.T) {
	tests := []struct {
		w            balance.WeightedScorer
		field, value string
	}{
		{balance.Weight(balance.InFlight(), 0), "weight", "0"},
		{balance.Weight(balance.InFlight(), -1.5), "weight", "-1.5"},
		{balance.Weight(balance.InFlight(), math.NaN()), "weight", "NaN"},
		{balance.Weight(balance.InFlight(), math.Inf(1)), "weight", "+Inf"},
		{balance.Weight(balance.InFlight(), math.Inf(-1)), "weight", "-Inf"},
		{balance.Weight(nil, 1), "scorer", "nil"},
		{balance.Weight(balance.ScorerFunc(nil), 1), "scorer", "nil"},
		{balance.WeightedScorer{}, "scorer", "nil"},
	}
	for _, tt := range tests {
		t.Run(tt.field+" "+tt.value, func(t *testing.T) {
			var refused *replica.ConfigError
			require.ErrorAs(t, tt.w.Validate(), &refused)
			assert.Equal(t, tt.field, refused.Field)
			assert.Equal(t, tt.value, refused.Value)
			assert.NotEmpty(t, refused.Allowed)

			p := balance.Weighted(balance.Weight(balance.Sessions(), 1), tt.w)
			_, err := p.Pick(request(1), fleet(t, 2))
			assert.Equal(t, tt.w.Validate(), err)
			_, err = p.Pick(request(1), nil)
			assert.ErrorIs(t, err, balance.ErrNoCandidate)
		})
	}
	for _, w := range []float64{math.SmallestNonzeroFloat64, 1, math.MaxFloat64} {
		assert.NoError(t, balance.Weight(balance.InFlight(), w).Validate(), w)
	}
}

func TestWeighted(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	tests := []struct {
		name    string
		scorers []balance.WeightedScorer
		want    int
	}{
		{"highest", []balance.WeightedScorer{balance.Weight(fixed(0.1, 0.9, 0.5), 1)}, 1},
		{"the heavier scorer wins", []balance.WeightedScorer{
			balance.Weight(fixed(1, 0, 0), 1), balance.Weight(fixed(0, 0, 1), 1.1)}, 2},
		{"a sum of small ones wins", []balance.WeightedScorer{
			balance.Weight(fixed(1, 0.6, 0), 2), balance.Weight(fixed(0, 1, 0), 1)}, 1},
		{"NaN counts as 0", []balance.WeightedScorer{balance.Weight(fixed(nan, nan, 0.1), 1)}, 2},
		{"NaN leaves the other scores", []balance.WeightedScorer{
			balance.Weight(fixed(nan, 0, 0), 1), balance.Weight(fixed(0.5, 0.4, 0.3), 1)}, 0},
		{"above 1 counts as 1", []balance.WeightedScorer{
			balance.Weight(fixed(1e9, 1, inf), 1), balance.Weight(fixed(0, 0.1, 0), 1)}, 1},
		{"below 0 counts as 0", []balance.WeightedScorer{
			balance.Weight(fixed(-1e9, 0, -inf), 1), balance.Weight(fixed(0.1, 0, 0), 1)}, 0},
		{"the largest weights", []balance.WeightedScorer{
			balance.Weight(fixed(1, 1, 0.9), math.MaxFloat64), balance.Weight(fixed(0.5, 0.6, 1), math.MaxFloat64)}, 2},
		{"the smallest weights", []balance.WeightedScorer{
			balance.Weight(fixed(0, 0.5, 1), math.SmallestNonzeroFloat64)}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, candidates := balance.Weighted(tt.scorers...), fleet(t, 3)
			for range 4 {
				assert.Equal(t, tt.want, pick(t, p, request(1), candidates))
			}
		})
	}
}

func TestWeightedZeroesTheScoresBeforeEachScorer(t *testing.T) {
	silent := balance.ScorerFunc(func(_ *balance.Request, candidates []balance.Candidate, scores []float64) {
		require.Len(t, scores, len(candidates))
		for _, s := range scores {
			require.Zero(t, s)
		}
	})
	p := balance.Weighted(balance.Weight(silent, 1), balance.Weight(fixed(0.9, 0.8, 0.7), 1), balance.Weight(silent, 1))
	all := fleet(t, 8)
	for _, n := range []int{8, 3, 5} {
		pick(t, p, request(1), all[:n])
	}
}

func TestWeightedKeepsItsOwnScorers(t *testing.T) {
	scorers := []balance.WeightedScorer{balance.Weight(fixed(0, 1), 1)}
	p := balance.Weighted(scorers...)
	scorers[0] = balance.WeightedScorer{}
	assert.Equal(t, 1, pick(t, p, request(1), fleet(t, 2)))
}

func TestWeightedTiesTakeTurns(t *testing.T) {
	tests := []struct {
		name   string
		scores []float64
		want   []int // the picks of nine rounds
	}{
		{"all", []float64{0.5, 0.5, 0.5}, []int{0, 1, 2, 0, 1, 2, 0, 1, 2}},
		{"all at zero", []float64{0, 0, 0}, []int{0, 1, 2, 0, 1, 2, 0, 1, 2}},
		{"some", []float64{0.5, 0.1, 0.5}, []int{0, 2, 0, 2, 0, 2, 0, 2, 0}},
		{"apart by rounding alone", []float64{0.3, 0.1 + 0.2, 0.3 * (1 - 1e-12)}, []int{0, 1, 2, 0, 1, 2, 0, 1, 2}},
		{"apart by one in a million", []float64{0.5, 0.5 * (1 + 1e-6), 0.5}, []int{1, 1, 1, 1, 1, 1, 1, 1, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, candidates := balance.Weighted(balance.Weight(fixed(tt.scores...), 3)), fleet(t, 3)
			for k, want := range tt.want {
				assert.Equal(t, want, pick(t, p, request(1), candidates), "pick %d", k)
			}
		})
	}
}

// Ties of changing groups, such that an index that moves on from the last pick
// would meet the same candidate of each group every time.
func TestWeightedTiesTakeTurnsAcrossGroups(t *testing.T) {
	groups := [][]float64{{1, 1, 0, 0}, {0, 0, 1, 1}, {0, 1, 1, 0}}
	turn := 0
	p := balance.Weighted(balance.Weight(balance.ScorerFunc(
		func(_ *balance.Request, _ []balance.Candidate, scores []float64) {
			copy(scores, groups[turn%len(groups)])
		}), 1))
	candidates := fleet(t, 4)
	counts := make([]int, len(candidates))
	for ; turn < 3000; turn++ {
		i := pick(t, p, request(1), candidates)
		require.Equal(t, 1.0, groups[turn%len(groups)][i])
		counts[i]++
	}
	assert.Equal(t, []int{750, 750, 750, 750}, counts)
}

func TestWeightedTakesTurnsWhateverTheSize(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 8, 64, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			counts := spread(t, balance.Weighted(), ranks(t, 1, n), 3*n, nothing)
			for i, got := range counts {
				require.Equal(t, 3, got, i)
			}
		})
	}
}

func TestWeightedChoosesTheHighestSumOfAnything(t *testing.T) {
	parts := []balance.WeightedScorer{
		balance.Weight(balance.InFlight(), 3), balance.Weight(balance.Sessions(), 0.5), balance.Weight(balance.Waiting(), 1),
		balance.Weight(balance.KVUsage(), 2), balance.Weight(balance.Parent(), 1),
		balance.Weight(balance.ExpectedTTFT(), 2), balance.Weight(balance.LoRA(), 0.5),
	}
	p := balance.Weighted(parts...)
	rnd := rand.New(rand.NewPCG(11, 12))
	all := fleet(t, 12)
	for range 2000 {
		candidates := all[:1+rnd.IntN(len(all))]
		randomize(rnd, candidates)
		req := randomRequest(rnd, len(candidates))
		sums := make([]float64, len(candidates))
		best := 0.0
		for _, part := range parts {
			for i, s := range score(part.Scorer, req, candidates) {
				sums[i] += part.Weight * s
			}
		}
		for _, s := range sums {
			best = max(best, s)
		}
		got := pick(t, p, req, candidates)
		require.InDelta(t, best, sums[got], 1e-8)
	}
}
