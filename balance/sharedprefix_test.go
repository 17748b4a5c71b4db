package balance_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/balance"
)

func TestSharedPrefix(t *testing.T) {
	type c = balance.Candidate
	has := func(tokens int, family float64, load, sessions int) c {
		return c{SharedTokens: tokens, Family: family, InFlight: load, Sessions: sessions}
	}
	tests := []struct {
		name       string
		share      float64
		candidates []c
		want       []float64
	}{
		{"none", 0.5, nil, []float64{}},
		{"nothing known", 0.5, []c{{}, {}, {}}, []float64{0, 0, 0}},
		{"one has it", 0.1, []c{has(4000, 3, 0, 0), {}, {}, {}}, []float64{1, 0, 0, 0}},
		{"no share known", 0, []c{has(4000, 3, 0, 0), {}, {}, {}}, []float64{1, 0, 0, 0}},
		{"a share that is none", math.NaN(), []c{has(4000, 3, 0, 0), {}, {}, {}}, []float64{1, 0, 0, 0}},
		{"one alone", 1, []c{has(4000, 3, 9, 9)}, []float64{1}},

		{"everybody's, on one so far", 1, []c{has(4000, 3, 0, 0), {}, {}, {}}, []float64{0, 0, 0, 0}},
		{"everybody's, on three so far", 1, []c{has(4000, 3, 0, 0), has(4000, 3, 0, 0), has(4000, 3, 0, 0), {}}, []float64{0, 0, 0, 0}},
		{"everybody's, on all", 1, []c{has(4000, 3, 0, 0), has(4000, 1, 0, 0), has(4000, 9, 0, 0), has(4000, 2, 0, 0)}, []float64{1, 1, 1, 1}},
		{"more than everybody's", 7, []c{has(4000, 3, 0, 0), {}}, []float64{0, 0}},
		{"half of them, on one so far", 0.5, []c{has(4000, 3, 0, 0), {}, {}, {}}, []float64{0, 0, 0, 0}},
		{"half of them, on two", 0.5, []c{has(4000, 3, 0, 0), {}, has(4000, 1, 0, 0), {}}, []float64{1, 0, 1, 0}},
		{"half of them, on three", 0.5, []c{has(4000, 9, 0, 0), has(4000, 1, 0, 0), has(4000, 8, 0, 0), {}}, []float64{1, 0, 1, 0}},
		{"a little more than half of them", 0.56, []c{has(4000, 9, 0, 0), has(4000, 1, 0, 0), has(4000, 8, 0, 0), {}}, []float64{1, 0, 1, 0}},
		{"two thirds of them", 0.66, []c{has(4000, 9, 0, 0), has(4000, 1, 0, 0), has(4000, 8, 0, 0), {}}, []float64{1, 1, 1, 0}},
		{"equal ones", 0.1, []c{has(4000, 2, 0, 0), has(4000, 2, 0, 0), {}}, []float64{1, 1, 0}},

		{"two requests more", 0.1, []c{has(4000, 3, 2, 0), {}}, []float64{1, 0}},
		{"three requests more", 0.1, []c{has(4000, 3, 3, 0), {}}, []float64{0, 0}},
		{"a quarter more", 0.1, []c{has(4000, 3, 25, 0), {InFlight: 20}}, []float64{1, 0}},
		{"more than a quarter more", 0.1, []c{has(4000, 3, 26, 0), {InFlight: 20}}, []float64{0, 0}},
		{"others' requests count", 0.1, []c{{SharedTokens: 4000, Family: 3, Others: 3}, {}}, []float64{0, 0}},
		{"a request more for little", 0.1, []c{has(512, 3, 1, 0), {}}, []float64{0, 0}},
		{"a little for nothing", 0.1, []c{has(512, 3, 1, 0), {InFlight: 1}}, []float64{1, 0}},
		{"four conversations more", 0.1, []c{has(4000, 3, 0, 4), {}}, []float64{1, 0}},
		{"five conversations more", 0.1, []c{has(4000, 3, 0, 5), {}}, []float64{0, 0}},
		{"a quarter more conversations", 0.1, []c{has(4000, 3, 0, 50), {Sessions: 40}}, []float64{1, 0}},
		{"more than a quarter more conversations", 0.1, []c{has(4000, 3, 0, 51), {Sessions: 40}}, []float64{0, 0}},

		{"half as much is as good", 0.5, []c{has(8000, 3, 0, 0), has(4000, 3, 0, 0), {}, {}}, []float64{1, 1, 0, 0}},
		{"less than half is not", 0.5, []c{has(8000, 3, 0, 0), has(3999, 3, 0, 0), {}, {}}, []float64{1, 0, 0, 0}},
		{"counts that are none", 0.1, []c{has(4000, math.NaN(), 0, 0), has(4000, -1, 0, 0), has(4000, math.Inf(1), 0, 0), has(4000, 1, 0, 0)}, []float64{0, 0, 0, 1}},
		{"tokens that are none", 0.1, []c{has(-5, 3, 0, 0), has(0, 9, 0, 0), has(4000, 1, 0, 0)}, []float64{0, 0, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := request(1)
			req.FamilyShare = tt.share
			assert.Equal(t, tt.want, score(balance.SharedPrefix(), req, tt.candidates))
		})
	}
}

// teams places conversations as a router does, each of the team that next says,
// every so often; an active one ends after some time. It returns how many of each
// team are placed on each candidate.
func teams(t *testing.T, candidates []balance.Candidate, times int, gap, active time.Duration, next func() uint64) map[uint64][]int {
	t.Helper()
	p := balance.DefaultWithSharedPrefix()
	logs := make([]balance.PrefixLog, len(candidates))
	placed := map[uint64][]int{}
	var ends []struct {
		at time.Time
		on int
	}
	for k := range times {
		at := now.Add(time.Duration(k) * gap)
		for len(ends) > 0 && !ends[0].at.After(at) {
			candidates[ends[0].on].Sessions--
			ends = ends[1:]
		}
		team := next()
		req := request(uint64(k + 1))
		req.Now, req.Prefix = at, *prefixOf(10*team+1, 10*team+2, 10*team+3, 10*team+4)
		of, all := 0., 0.
		for i := range candidates {
			c := &candidates[i]
			c.SharedTokens = 0
			if step, _ := logs[i].Longest(&req.Prefix, at); step >= 0 {
				c.SharedTokens = req.Prefix.Tokens(step)
			}
			c.Family = logs[i].Count(&req.Prefix, 3, at)
			of += c.Family
			all += logs[i].Total(at)
		}
		if all > 0 {
			req.FamilyShare = of / all
		}
		i := pick(t, p, req, candidates)
		logs[i].Add(&req.Prefix, at)
		candidates[i].Sessions++
		ends = append(ends, struct {
			at time.Time
			on int
		}{at.Add(active), i})
		if placed[team] == nil {
			placed[team] = make([]int, len(candidates))
		}
		placed[team][i]++
	}
	return placed
}

func one() uint64 { return 1 }

// Routers that go by what caches hold have put all of these on one replica.
func TestOneSystemPromptDrawsNobody(t *testing.T) {
	for name, tt := range map[string]struct {
		gap, active time.Duration
	}{
		"40 one after another, each gone before the next": {10 * time.Second, 10 * time.Second},
		"40 one after another, active for a while":        {10 * time.Second, 5 * time.Minute},
		"40 at once": {0, time.Hour},
		"40 in two days, so that nothing of the one before counts": {time.Hour, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			placed := teams(t, fleet(t, 4), 40, tt.gap, tt.active, one)
			assert.Equal(t, []int{10, 10, 10, 10}, placed[1])
		})
	}
	for _, n := range []int{2, 3, 7, 10, 64} {
		placed := teams(t, fleet(t, n), 20*n, time.Second, 5*time.Minute, one)
		assert.LessOrEqual(t, slices.Max(placed[1]), 21, "%d replicas", n)
		assert.GreaterOrEqual(t, slices.Min(placed[1]), 19, "%d replicas", n)
	}
}

func TestTeamsEndUpApart(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		candidates := fleet(t, 4)
		placed := teams(t, candidates, 400, 3*time.Second, 5*time.Minute, func() uint64 { return 1 + rng.Uint64N(2) })
		loads, apart := make([]int, 4), 0
		for _, on := range placed {
			for i, n := range on {
				loads[i] += n
			}
			slices.Sort(on)
			apart += on[2] + on[3]
		}
		assert.Greater(t, apart, 320, "seed %d: of 400 on the two replicas that a team has most on: %v", seed, placed)
		assert.Less(t, slices.Max(loads), 120, "seed %d: %v", seed, placed)
		assert.Greater(t, slices.Min(loads), 80, "seed %d: %v", seed, placed)
	}
}

// A small team stays on one replica beside a large one that needs the others.
func TestALargeTeamAndASmallOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	placed := teams(t, fleet(t, 4), 400, 3*time.Second, 5*time.Minute, func() uint64 {
		if rng.IntN(10) == 0 {
			return 2
		}
		return 1
	})
	small := slices.Sorted(slices.Values(placed[2]))
	assert.Greater(t, small[3], 8*(small[0]+small[1]+small[2])/10, "%v", placed)
	assert.Less(t, slices.Max(placed[1]), 130, "%v", placed)
}

func TestDefaultWithSharedPrefixWeighs(t *testing.T) {
	shared := func(c *balance.Candidate) { c.SharedTokens, c.Family = 4000, 5 }
	for name, tt := range map[string]struct {
		change func(c []balance.Candidate, r *balance.Request)
		want   int
	}{
		"what it has":                 {func(c []balance.Candidate, _ *balance.Request) { shared(&c[1]) }, 1},
		"two requests more":           {func(c []balance.Candidate, _ *balance.Request) { shared(&c[1]); c[1].InFlight = 2 }, 1},
		"two requests, four sessions": {func(c []balance.Candidate, _ *balance.Request) { shared(&c[1]); c[1].InFlight, c[1].Sessions = 2, 3 }, 1},
		"three requests more":         {func(c []balance.Candidate, _ *balance.Request) { shared(&c[1]); c[1].InFlight = 3; c[2].InFlight = 1 }, 0},
		"two requests and a fuller cache": {func(c []balance.Candidate, _ *balance.Request) {
			shared(&c[1])
			c[1].InFlight, c[1].KVUsage = 2, 0.6
			c[2].InFlight = 1
		}, 0},
		"two requests more than the parent's": {func(c []balance.Candidate, r *balance.Request) {
			shared(&c[1])
			c[1].InFlight = 2
			r.Parent, r.ParentHome = 7, 2
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			candidates, req := fleet(t, 3), request(1)
			req.FamilyShare = 0.1
			tt.change(candidates, req)
			assert.Equal(t, tt.want, pick(t, balance.DefaultWithSharedPrefix(), req, candidates))
		})
	}
}
