package balance_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/balance"
)

func TestExpectedTTFT(t *testing.T) {
	type c = balance.Candidate
	size := func(n int) balance.Request { return balance.Request{Session: 1, Home: -1, PromptTokens: n} }
	atHome := func(home, prompt, cached int) balance.Request {
		return balance.Request{Session: 1, Home: home, PromptTokens: prompt, HomeTokens: cached}
	}
	lost := func(home, prompt, cached int, lost float64) balance.Request {
		r := atHome(home, prompt, cached)
		r.HomeLost = lost
		return r
	}
	tests := []struct {
		name       string
		req        balance.Request
		candidates []c
		want       []float64 // the shortest time over the candidate's own
	}{
		{"none", size(1000), nil, []float64{}},
		{"alone", size(1000), []c{{PendingPrefill: 5000, PrefillRate: 100}}, []float64{1}},
		{"all idle", size(1000), []c{{PrefillRate: 3000}, {PrefillRate: 3000}}, []float64{1, 1}},
		{"pending", size(1000), []c{{PrefillRate: 3000}, {PrefillRate: 3000, PendingPrefill: 3000}}, []float64{1, 1000.0 / 4000}},
		{"speed", size(1000), []c{{PrefillRate: 3000}, {PrefillRate: 1000}}, []float64{1, 1.0 / 3}},
		{"a fast one with more before it", size(1000), []c{{PrefillRate: 1000}, {PrefillRate: 10_000, PendingPrefill: 4000}}, []float64{0.5, 1}},

		{"cached at home", atHome(1, 10_000, 9000), []c{{PrefillRate: 3000}, {PrefillRate: 3000}}, []float64{0.1, 1}},
		{"busy home", atHome(1, 10_000, 9000), []c{{PrefillRate: 3000}, {PrefillRate: 3000, PendingPrefill: 39_000}}, []float64{1, 0.25}},
		{"cached more than the prompt", atHome(0, 1000, 9000), []c{{}, {}}, []float64{1, 1.0 / 1000}},
		{"all cached", atHome(0, 1000, 1000), []c{{}, {}}, []float64{1, 1.0 / 1000}},
		{"cached tokens unknown", atHome(0, 1000, 0), []c{{PendingPrefill: 499}, {}}, []float64{1, 0.5}},
		{"cached tokens below zero", atHome(0, 1000, -5), []c{{PendingPrefill: 499}, {}}, []float64{1, 0.5}},
		{"cached somewhere that is no candidate", atHome(-1, 1000, 900), []c{{}, {}}, []float64{1, 1}},
		{"home beyond the candidates", atHome(2, 1000, 900), []c{{}, {}}, []float64{1, 1}},
		{"index left at zero without a session", balance.Request{PromptTokens: 1000, HomeTokens: 900}, []c{{}, {}}, []float64{1, 1}},

		{"half of it lost", lost(0, 10_000, 8000, 0.5), []c{{}, {}}, []float64{1, 0.6}},
		{"all of it lost", lost(0, 10_000, 8000, 1), []c{{}, {}}, []float64{1, 1}},
		{"more than all of it lost", lost(0, 10_000, 8000, 7), []c{{}, {}}, []float64{1, 1}},
		{"less than nothing lost", lost(0, 10_000, 9000, -1), []c{{}, {}}, []float64{1, 0.1}},
		{"not a number lost", lost(0, 10_000, 9000, math.NaN()), []c{{}, {}}, []float64{1, 0.1}},
		{"lost where there is no home", lost(-1, 10_000, 9000, 1), []c{{}, {}}, []float64{1, 1}},
		{"cached tokens unknown, half lost", lost(0, 1000, 0, 0.5), []c{{}, {}}, []float64{1, 0.5}},
		{"prompt unknown, half lost", lost(0, 0, 1000, 0.5), []c{{}, {}}, []float64{1, 0.5}},
		{"prompt and cached tokens unknown, all lost", lost(0, 0, 0, 1), []c{{PendingPrefill: 1}, {}}, []float64{0.5, 1}},

		{"prompt unknown", atHome(0, 0, 1000), []c{{PendingPrefill: 249}, {}}, []float64{1, 0.25}},
		{"prompt below zero", atHome(0, -7, 1000), []c{{PendingPrefill: 249}, {}}, []float64{1, 0.25}},
		{"prompt unknown, cached elsewhere", atHome(-1, 0, 1000), []c{{PendingPrefill: 9}, {}}, []float64{0.1, 1}},
		{"prompt and cached tokens unknown", atHome(0, 0, 0), []c{{PendingPrefill: 9}, {}}, []float64{0.1, 1}},

		{"speed unknown is the mean", size(1200), []c{{PrefillRate: 1000}, {PrefillRate: 3000}, {}}, []float64{1.0 / 3, 1, 2.0 / 3}},
		{"no speed known", size(1000), []c{{}, {PendingPrefill: 1000}}, []float64{1, 0.5}},
		{"speeds that are none", size(1000), []c{{PrefillRate: 2000}, {PrefillRate: -5}, {PrefillRate: math.NaN()}, {PrefillRate: math.Inf(1)}},
			[]float64{1, 1, 1, 1}},
		{"a stale page leaves what is our own", size(1000), []c{{PrefillRate: 3000, Stale: true}, {PrefillRate: 1000, Stale: true, PendingPrefill: 1000}},
			[]float64{1, 1.0 / 6}},

		{"a queue, nothing pending anywhere", size(1000), []c{{}, {Waiting: 3}}, []float64{1, 0.25}},
		{"a queue at home, nothing pending anywhere", atHome(0, 1000, 900), []c{{Waiting: 2}, {}}, []float64{1000.0 / 2100, 1}},
		{"a queue, of requests like those that are pending", size(1000),
			[]c{{InFlight: 4, PendingPrefill: 2000}, {Waiting: 2}}, []float64{2000.0 / 3000, 1}},
		{"those that decode are no measure of a queue", size(1000),
			[]c{{InFlight: 4, PendingPrefill: 2000}, {InFlight: 96, Waiting: 2}}, []float64{2000.0 / 3000, 1}},
		{"pending without a request in flight", size(1000), []c{{PendingPrefill: 500}, {Waiting: 2}}, []float64{1, 1500.0 / 2000}},
		{"a queue that is unknown or stale", size(1000), []c{{Waiting: unknown}, {Waiting: 50, Stale: true}, {}}, []float64{1, 1, 1}},
		{"a queue of requests of unknown size", size(0), []c{{Waiting: 1}, {}}, []float64{0.5, 1}},

		{"pending below zero", size(1000), []c{{PendingPrefill: -900}, {}}, []float64{1, 1}},
		{"the slowest speeds", size(math.MaxInt), []c{{PrefillRate: math.SmallestNonzeroFloat64}, {PrefillRate: math.SmallestNonzeroFloat64}}, []float64{1, 1}},
		{"the fastest speeds", size(1), []c{{PrefillRate: math.MaxFloat64}, {PrefillRate: math.MaxFloat64}, {}}, []float64{1, 1, 1}},
		{"the largest numbers", size(math.MaxInt), []c{{PendingPrefill: math.MaxInt, Waiting: math.MaxInt}, {}}, []float64{0, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.InDeltaSlice(t, tt.want, score(balance.ExpectedTTFT(), &tt.req, tt.candidates), 1e-12)
		})
	}
}
