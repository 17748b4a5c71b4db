package balance_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/balance"
)

func TestLeastLoaded(t *testing.T) {
	type c = balance.Candidate
	tests := []struct {
		name       string
		candidates []c
		want       []int // the picks of four rounds
	}{
		{"load", []c{{InFlight: 3}, {InFlight: 1}, {InFlight: 2}}, []int{1, 1, 1, 1}},
		{"load of other gateways", []c{{InFlight: 1, Others: 4}, {InFlight: 2}, {Others: 3}}, []int{1, 1, 1, 1}},
		{"load before sessions", []c{{InFlight: 1}, {Sessions: 50, KVUsage: 1}, {InFlight: 1}}, []int{1, 1, 1, 1}},
		{"sessions", []c{{Sessions: 2}, {Sessions: 2}, {Sessions: 1, KVUsage: 1}}, []int{2, 2, 2, 2}},
		{"KV usage", []c{{KVUsage: 0.3}, {KVUsage: 0.2}, {KVUsage: 0.4}}, []int{1, 1, 1, 1}},
		{"KV usage of the least loaded alone", []c{{InFlight: 1}, {KVUsage: 0.9}, {KVUsage: 0.8}}, []int{2, 2, 2, 2}},
		{"equal", []c{{}, {}, {}}, []int{0, 1, 2, 0}},
		{"equal but one", []c{{}, {InFlight: 1}, {}}, []int{0, 2, 0, 2}},
		{"unknown is not the lowest", []c{{KVUsage: unknown}, {KVUsage: 0.7}, {KVUsage: 0.8}}, []int{1, 1, 1, 1}},
		{"stale is not the lowest", []c{{Stale: true}, {KVUsage: 0.7}, {KVUsage: 0.8}}, []int{1, 1, 1, 1}},
		{"NaN is not the lowest", []c{{KVUsage: math.NaN()}, {KVUsage: 0.7}, {KVUsage: 0.8}}, []int{1, 1, 1, 1}},
		{"unknown beside equal ones", []c{{KVUsage: unknown}, {KVUsage: 0.7}, {KVUsage: 0.7}}, []int{0, 1, 2, 0}},
		{"unknown beside one", []c{{InFlight: 1}, {KVUsage: unknown}, {KVUsage: 0.7}}, []int{1, 2, 1, 2}},
		{"none known", []c{{KVUsage: unknown}, {KVUsage: 0.1, Stale: true}, {KVUsage: unknown}}, []int{0, 1, 2, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			candidates := fleet(t, len(tt.candidates))
			for i, c := range tt.candidates {
				c.Replica = candidates[i].Replica
				candidates[i] = c
			}
			p := balance.LeastLoaded()
			for k, want := range tt.want {
				assert.Equal(t, want, pick(t, p, request(1), candidates), "pick %d", k)
			}
		})
	}
}

func TestLeastLoadedSpreads(t *testing.T) {
	assert.Equal(t, []int{10, 10, 10, 10}, spread(t, balance.LeastLoaded(), fleet(t, 4), 40, session))
	assert.Equal(t, []int{50, 50, 50, 50}, spread(t, balance.LeastLoaded(), fleet(t, 4), 200, inFlight))
}
