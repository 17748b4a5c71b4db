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

func TestSoftAffinityRefuses(t *testing.T) {
	for _, margin := range []float64{-0.01, 1, 1.25, 25, math.NaN(), math.Inf(1), math.Inf(-1)} {
		p, err := balance.SoftAffinity(margin)
		var refused *replica.ConfigError
		require.ErrorAs(t, err, &refused, margin)
		assert.Equal(t, "margin", refused.Field)
		assert.Nil(t, p)
	}
	for _, margin := range []float64{0, 0.25, 0.999} {
		assert.Implements(t, (*balance.HomePicker)(nil), softAffinity(t, margin))
	}
}

func softAffinity(tb testing.TB, margin float64) balance.Picker {
	tb.Helper()
	p, err := balance.SoftAffinity(margin)
	require.NoError(tb, err)
	return p
}

// The prompt has 10,000 tokens, of which the home, where there is one, has
// 8,000.
func TestSoftAffinity(t *testing.T) {
	type c = balance.Candidate
	const none = -1
	tests := []struct {
		name       string
		margin     float64
		home       int
		candidates []c
		want       []int // the picks of four rounds
	}{
		{"idle home", 0.25, 1, []c{{}, {}, {}}, []int{1, 1, 1, 1}},
		{"slower home by less than the margin", 0.25, 1, []c{{}, {PendingPrefill: 11_000}, {}}, []int{1, 1, 1, 1}},
		{"slower home by the margin", 0.5, 1, []c{{}, {PendingPrefill: 18_000}, {}}, []int{1, 1, 1, 1}},
		{"slower home by more than the margin", 0.5, 1, []c{{}, {PendingPrefill: 18_100}, {}}, []int{0, 2, 0, 2}},
		{"a larger margin holds longer", 0.75, 1, []c{{}, {PendingPrefill: 37_000}, {}}, []int{1, 1, 1, 1}},
		{"no margin, equal", 0, 1, []c{{}, {PendingPrefill: 8000}, {}}, []int{1, 1, 1, 1}},
		{"no margin, shorter by rounding alone", 0, 1, []c{{PrefillRate: 3000 * (1 + 1e-12)}, {PrefillRate: 3000, PendingPrefill: 8000}}, []int{1, 1, 1, 1}},
		{"no margin, shorter", 0, 1, []c{{}, {PendingPrefill: 8010}, {PendingPrefill: 20}}, []int{0, 0, 0, 0}},
		{"a busy home is not left for busier ones", 0.25, 0, []c{{PendingPrefill: 90_000}, {PendingPrefill: 85_000}, {PendingPrefill: 90_000}}, []int{0, 0, 0, 0}},
		{"load alone does not move it", 0.25, 0, []c{{InFlight: 80, Sessions: 90, KVUsage: 1}, {}}, []int{0, 0, 0, 0}},
		{"a slow home", 0.25, 0, []c{{PrefillRate: 500}, {PrefillRate: 5000}}, []int{1, 1, 1, 1}},
		{"one waits at home", 0.25, 0, []c{{Waiting: 1}, {}}, []int{0, 0, 0, 0}},
		{"a queue at home", 0.25, 0, []c{{Waiting: 4}, {}}, []int{1, 1, 1, 1}},
		{"an idle home beside a queue", 0.25, 1, []c{{Waiting: 4}, {PendingPrefill: 20_000}}, []int{1, 1, 1, 1}},

		{"no home", 0.25, none, []c{{PendingPrefill: 100}, {}, {PendingPrefill: 100}}, []int{1, 1, 1, 1}},
		{"no home, a margin is no matter", 0.9, none, []c{{PendingPrefill: 1}, {}, {PendingPrefill: 1}}, []int{1, 1, 1, 1}},
		{"no home, speed before load", 0.25, none, []c{{PrefillRate: 3000}, {PrefillRate: 6000, InFlight: 9}}, []int{1, 1, 1, 1}},
		{"no home, load", 0.25, none, []c{{InFlight: 2}, {InFlight: 1, Sessions: 9}, {Others: 2}}, []int{1, 1, 1, 1}},
		{"no home, sessions", 0.25, none, []c{{Sessions: 2}, {Sessions: 3}, {Sessions: 1}}, []int{2, 2, 2, 2}},
		{"no home, load of those that tie alone", 0.25, none, []c{{InFlight: 3}, {PendingPrefill: 1}, {InFlight: 2, Sessions: 7}}, []int{2, 2, 2, 2}},
		{"no home, equal", 0.25, none, []c{{}, {}, {}}, []int{0, 1, 2, 0}},
		{"no home, equal but one", 0.25, none, []c{{}, {Sessions: 1}, {}}, []int{0, 2, 0, 2}},
		{"home not among the candidates", 0.25, 7, []c{{}, {}, {}}, []int{0, 1, 2, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			candidates := fleet(t, len(tt.candidates))
			for i, c := range tt.candidates {
				c.Replica = candidates[i].Replica
				candidates[i] = c
			}
			req := request(1)
			req.Home, req.PromptTokens = tt.home, 10_000
			if tt.home != none {
				req.HomeTokens = 8000
			}
			p := softAffinity(t, tt.margin)
			for k, want := range tt.want {
				assert.Equal(t, want, pick(t, p, req, candidates), "pick %d", k)
			}
		})
	}
}

// The home has tokens pending, the other replica is idle.
func TestSoftAffinityWithoutSizes(t *testing.T) {
	const other, home = 0, 1
	tests := []struct {
		name            string
		prompt, cached  int
		pending, picked int
	}{
		{"nothing known", 0, 0, 1 << 30, home},
		{"cached unknown is not nothing cached", 10_000, 0, 13_000, home},
		{"cached unknown, more pending", 10_000, 0, 14_000, other},
		{"prompt unknown is as large as what is cached", 0, 10_000, 13_000, home},
		{"prompt unknown, more pending", 0, 10_000, 14_000, other},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			candidates := fleet(t, 2)
			candidates[home].PendingPrefill = tt.pending
			req := request(1)
			req.Home, req.PromptTokens, req.HomeTokens = home, tt.prompt, tt.cached
			assert.Equal(t, tt.picked, pick(t, softAffinity(t, 0.25), req, candidates))
		})
	}
}

// Of the prompt's 10,000 tokens the home had 8,000.
func TestSoftAffinityAndWhatIsLost(t *testing.T) {
	const other, home = 0, 1
	for _, tt := range []struct {
		name    string
		lost    float64
		pending int
		picked  int
	}{
		{"nothing", 0, 11_000, home},
		{"a quarter", 0.25, 9000, home},
		{"a quarter, and a queue that nothing lost would stand", 0.25, 11_000, other},
		{"all, idle", 1, 0, home},
		{"all, a queue within the margin", 1, 3000, home},
		{"all, a longer queue", 1, 3500, other},
		{"not a number", math.NaN(), 11_000, home},
	} {
		t.Run(tt.name, func(t *testing.T) {
			candidates := fleet(t, 2)
			candidates[home].PendingPrefill = tt.pending
			req := request(1)
			req.Home, req.PromptTokens, req.HomeTokens, req.HomeLost = home, 10_000, 8000, tt.lost
			assert.Equal(t, tt.picked, pick(t, softAffinity(t, 0.25), req, candidates))
		})
	}
}

// By its own scores: home if the home's is at least 1 - margin of the best, else
// one of the best.
func TestSoftAffinityFollowsExpectedTTFT(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 14))
	all, scorer := fleet(t, 12), balance.ExpectedTTFT()
	stayed, left := 0, 0
	for _, margin := range []float64{0, 0.1, 0.25, 0.8} {
		p := softAffinity(t, margin)
		for range 2000 {
			candidates := all[:1+rnd.IntN(len(all))]
			randomize(rnd, candidates)
			req := randomRequest(rnd, len(candidates))
			scores := score(scorer, req, candidates)
			got := pick(t, p, req, candidates)
			switch {
			case req.Session == 0 || req.Home < 0:
				require.InDelta(t, 1, scores[got], 1e-8)
			case got == req.Home:
				stayed++
				require.True(t, scores[got] >= 1-margin-1e-8 || req.PromptTokens == 0 && req.HomeTokens == 0)
			default:
				left++
				require.InDelta(t, 1, scores[got], 1e-8)
				require.Less(t, scores[req.Home], 1-margin)
			}
		}
	}
	assert.Greater(t, stayed, 500)
	assert.Greater(t, left, 500)
}

// Conversations that take turns on a fleet that has room for all of them must
// stay where they are, although some replica is always idler than another.
func TestSoftAffinityDoesNotBounce(t *testing.T) {
	const conversations = 12
	rnd := rand.New(rand.NewPCG(15, 16))
	candidates, p := fleet(t, 4), softAffinity(t, 0.25)
	for i := range candidates {
		candidates[i].PrefillRate = 2500 + 500*float64(i%2)
	}
	homes := make([]int, conversations)
	for k := range homes {
		req := request(uint64(k + 1))
		req.PromptTokens = 4000
		homes[k] = pick(t, p, req, candidates)
		candidates[homes[k]].Sessions++
	}
	var pending []int // conversations whose turn has no first byte yet
	for range 5000 {
		k := rnd.IntN(conversations)
		req := request(uint64(k + 1))
		req.Home, req.PromptTokens, req.HomeTokens = homes[k], 30_000, 28_000
		require.Equal(t, homes[k], pick(t, p, req, candidates))
		c := &candidates[homes[k]]
		c.InFlight++
		c.PendingPrefill += 2000
		if pending = append(pending, homes[k]); len(pending) > 8 {
			c := &candidates[pending[0]]
			c.InFlight--
			c.PendingPrefill -= 2000
			pending = pending[1:]
		}
	}
}

func TestSoftAffinityDoesNotAllocateAtHome(t *testing.T) {
	candidates, p := fleet(t, 8), softAffinity(t, 0.25)
	for name, pending := range map[string]int{"stays": 0, "leaves": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			candidates[3].PendingPrefill = pending
			req := request(1)
			req.Home, req.PromptTokens, req.HomeTokens = 3, 30_000, 28_000
			stays := pick(t, p, req, candidates) == 3
			require.Equal(t, pending == 0, stays)
			for range 100 {
				pick(t, p, req, candidates)
			}
			assert.Zero(t, testing.AllocsPerRun(1000, func() {
				if _, err := p.Pick(req, candidates); err != nil {
					t.Error(err)
				}
			}))
		})
	}
}
