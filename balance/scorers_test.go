package balance_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balance"
)

const unknown = balance.Unknown

func score(s balance.Scorer, req *balance.Request, candidates []balance.Candidate) []float64 {
	scores := make([]float64, len(candidates))
	s.Score(req, candidates, scores)
	return scores
}

func TestCountScorers(t *testing.T) {
	scorers := []struct {
		name string
		s    balance.Scorer
		with func(n int) balance.Candidate
	}{
		{"InFlight of this process", balance.InFlight(), func(n int) balance.Candidate { return balance.Candidate{InFlight: n} }},
		{"InFlight of others", balance.InFlight(), func(n int) balance.Candidate { return balance.Candidate{Others: n} }},
		{"Sessions", balance.Sessions(), func(n int) balance.Candidate { return balance.Candidate{Sessions: n} }},
		{"Waiting", balance.Waiting(), func(n int) balance.Candidate { return balance.Candidate{Waiting: n} }},
	}
	tests := []struct {
		name   string
		counts []int
		want   []float64
	}{
		{"none", nil, []float64{}},
		{"one idle", []int{0}, []float64{1}},
		{"one busy", []int{9}, []float64{0}},
		{"all idle", []int{0, 0, 0}, []float64{1, 1, 1}},
		{"one among idle matters", []int{0, 1}, []float64{1, 0.75}},
		{"the scale ends at the busiest", []int{0, 2, 8}, []float64{1, 0.75, 0}},
		{"one in a hundred hardly matters", []int{100, 101}, []float64{1 - 100.0/101, 0}},
		{"equal and busy", []int{50, 50}, []float64{0, 0}},
	}
	for _, s := range scorers {
		for _, tt := range tests {
			t.Run(s.name+"/"+tt.name, func(t *testing.T) {
				candidates := make([]balance.Candidate, len(tt.counts))
				for i, n := range tt.counts {
					candidates[i] = s.with(n)
				}
				assert.InDeltaSlice(t, tt.want, score(s.s, request(1), candidates), 1e-12)
			})
		}
	}
}

func TestWaitingWithoutAVote(t *testing.T) {
	tests := []struct {
		name       string
		candidates []balance.Candidate
		want       []float64
	}{
		{"unknown gets the mean", []balance.Candidate{{Waiting: 0}, {Waiting: 8}, {Waiting: unknown}}, []float64{1, 0, 0.5}},
		{"stale gets the mean", []balance.Candidate{{Waiting: 0}, {Waiting: 8}, {Waiting: 0, Stale: true}}, []float64{1, 0, 0.5}},
		{"stale does not stretch the scale", []balance.Candidate{{Waiting: 2}, {Waiting: 800, Stale: true}}, []float64{0.5, 0.5}},
		{"none known", []balance.Candidate{{Waiting: unknown}, {Waiting: 5, Stale: true}}, []float64{0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.InDeltaSlice(t, tt.want, score(balance.Waiting(), request(1), tt.candidates), 1e-12)
		})
	}
}

func TestKVUsage(t *testing.T) {
	tests := []struct {
		name       string
		candidates []balance.Candidate
		want       []float64
	}{
		{"absolute", []balance.Candidate{{KVUsage: 0}, {KVUsage: 0.25}, {KVUsage: 1}}, []float64{1, 0.75, 0}},
		{"alone", []balance.Candidate{{KVUsage: 0.25}}, []float64{0.75}},
		{"above 1", []balance.Candidate{{KVUsage: 1.5}, {KVUsage: math.Inf(1)}}, []float64{0, 0}},
		{"unknown gets the mean", []balance.Candidate{{KVUsage: 0.2}, {KVUsage: 0.8}, {KVUsage: unknown}}, []float64{0.8, 0.2, 0.5}},
		{"NaN gets the mean", []balance.Candidate{{KVUsage: 0.2}, {KVUsage: math.NaN()}}, []float64{0.8, 0.8}},
		{"stale gets the mean", []balance.Candidate{{KVUsage: 0.9}, {KVUsage: 0, Stale: true}}, []float64{0.1, 0.1}},
		{"none known", []balance.Candidate{{KVUsage: unknown}, {KVUsage: 0.3, Stale: true}}, []float64{0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.InDeltaSlice(t, tt.want, score(balance.KVUsage(), request(1), tt.candidates), 1e-12)
		})
	}
}

func TestParent(t *testing.T) {
	tests := []struct {
		name   string
		parent uint64
		home   int
		want   []float64
	}{
		{"home", 7, 1, []float64{0, 1, 0}},
		{"home is the first", 7, 0, []float64{1, 0, 0}},
		{"no parent", 0, -1, []float64{0, 0, 0}},
		{"no parent, index left at zero", 0, 0, []float64{0, 0, 0}},
		{"home not among the candidates", 7, -1, []float64{0, 0, 0}},
		{"index beyond the candidates", 7, 3, []float64{0, 0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := &balance.Request{Parent: tt.parent, ParentHome: tt.home}
			assert.Equal(t, tt.want, score(balance.Parent(), req, make([]balance.Candidate, 3)))
		})
	}
}

func TestScoresOfAnythingAreInRange(t *testing.T) {
	scorers := map[string]balance.Scorer{
		"InFlight": balance.InFlight(), "Sessions": balance.Sessions(), "Waiting": balance.Waiting(),
		"KVUsage": balance.KVUsage(), "Parent": balance.Parent(),
		"ExpectedTTFT": balance.ExpectedTTFT(), "LoRA": balance.LoRA(),
	}
	rnd := rand.New(rand.NewPCG(9, 10))
	all := fleet(t, 20)
	for range 2000 {
		candidates := all[:1+rnd.IntN(len(all))]
		randomize(rnd, candidates)
		// An idle and fast replica that is known to be so: no other is rated
		// above it, unless it is the home.
		candidates[0] = balance.Candidate{PrefillRate: 1e9, Adapters: []string{"sql"}}
		req := randomRequest(rnd, len(candidates))
		req.Parent, req.Home = 0, rnd.IntN(2)-1
		for name, s := range scorers {
			scores := score(s, req, candidates)
			for i, got := range scores {
				if !(got >= 0 && got <= 1) || got > scores[0] {
					require.Failf(t, name, "candidate %d: %v of %v for %+v", i, got, scores, candidates[i])
				}
			}
		}
	}
}

func TestScorerFunc(t *testing.T) {
	s := balance.ScorerFunc(func(_ *balance.Request, candidates []balance.Candidate, scores []float64) {
		scores[len(candidates)-1] = 0.5
	})
	assert.Equal(t, []float64{0, 0, 0.5}, score(s, request(1), make([]balance.Candidate, 3)))
}
