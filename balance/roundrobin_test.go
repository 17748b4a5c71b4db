package balance_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/balance"
)

func TestRoundRobinGoesByReplica(t *testing.T) {
	all := fleet(t, 5)
	all[0].InFlight = 100 // load does not matter
	a, b, c, d, e := all[0], all[1], all[2], all[3], all[4]
	steps := []struct {
		name       string
		candidates []balance.Candidate
		want       []balance.Candidate
	}{
		{"in order", []balance.Candidate{a, b, c}, []balance.Candidate{a, b, c, a}},
		{"in another order", []balance.Candidate{c, b, a}, []balance.Candidate{b, c, a}},
		{"one left", []balance.Candidate{a, c}, []balance.Candidate{c, a}},
		{"it is back: longest ago", []balance.Candidate{a, b, c}, []balance.Candidate{b, c, a}},
		{"two new ones are next", []balance.Candidate{d, a, b, c, e}, []balance.Candidate{d, e, b, c, a, d, e}},
	}
	p := balance.RoundRobin()
	for _, step := range steps {
		for k, want := range step.want {
			got := step.candidates[pick(t, p, request(1), step.candidates)]
			assert.Equal(t, want.Replica.Name(), got.Replica.Name(), "%s, pick %d", step.name, k)
		}
	}
}

func TestRoundRobinKeepsItsTurnsWhenOneIsLeftOut(t *testing.T) {
	p, all := balance.RoundRobin(), fleet(t, 5)
	counts := map[string]int{}
	for k := range 5000 {
		candidates := slices.Delete(slices.Clone(all), k%5, k%5+1)
		counts[candidates[pick(t, p, request(1), candidates)].Replica.Name()]++
	}
	for name, got := range counts {
		assert.InDelta(t, 1000, got, 5, name)
	}
	assert.Len(t, counts, 5)
}
