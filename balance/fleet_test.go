package balance_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/replica"
)

// now is the time of the picks.
var now = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

// fleet returns n idle candidates that were scraped at now.
func fleet(tb testing.TB, n int) []balance.Candidate {
	tb.Helper()
	return ranks(tb, n, 1)
}

// ranks is fleet for endpoints that have n ranks each.
func ranks(tb testing.TB, endpoints, n int) []balance.Candidate {
	tb.Helper()
	list := make([]replica.Endpoint, endpoints)
	for i := range list {
		list[i] = replica.Endpoint{URL: fmt.Sprintf("http://replica-%d:8000", i), Ranks: n}
	}
	set, err := replica.NewSet(list...)
	require.NoError(tb, err)
	candidates := make([]balance.Candidate, endpoints*n)
	for i, r := range set.Replicas() {
		candidates[i].Replica = r
	}
	return candidates
}

// request is one of a conversation that has neither home nor parent.
func request(session uint64) *balance.Request {
	return &balance.Request{Session: session, Home: -1, ParentHome: -1, Now: now}
}

// pick picks and requires that a candidate is chosen.
func pick(tb testing.TB, p balance.Picker, req *balance.Request, candidates []balance.Candidate) int {
	tb.Helper()
	i, err := p.Pick(req, candidates)
	if err != nil || i < 0 || i >= len(candidates) {
		tb.Fatalf("picked %d of %d candidates, error %v", i, len(candidates), err)
	}
	return i
}

// spread picks times times, for a new conversation each, and returns how often
// each candidate was chosen. After each pick placed is told which it was.
func spread(tb testing.TB, p balance.Picker, candidates []balance.Candidate, times int, placed func(*balance.Candidate)) []int {
	tb.Helper()
	counts := make([]int, len(candidates))
	for k := range times {
		i := pick(tb, p, request(uint64(k+1)), candidates)
		counts[i]++
		placed(&candidates[i])
	}
	return counts
}

// inFlight and session are what a placement changes while it runs and after.
func inFlight(c *balance.Candidate) { c.InFlight++ }
func session(c *balance.Candidate)  { c.Sessions++ }
func nothing(*balance.Candidate)    {}

// chiSquare is the statistic of counts that ought to be equal.
func chiSquare(counts []int) float64 {
	total := 0
	for _, n := range counts {
		total += n
	}
	mean := float64(total) / float64(len(counts))
	sum := 0.0
	for _, n := range counts {
		sum += (float64(n) - mean) * (float64(n) - mean) / mean
	}
	return sum
}

// requireEven requires that counts do not differ by more than chance explains
// (p about 0.001, by the Wilson-Hilferty approximation).
func requireEven(tb testing.TB, counts []int) {
	tb.Helper()
	df := float64(len(counts) - 1)
	limit := df * math.Pow(1-2/(9*df)+3.09*math.Sqrt(2/(9*df)), 3)
	require.LessOrEqual(tb, chiSquare(counts), limit, "counts: %v", counts)
}

// randomize fills in numbers of all kinds: usual, unknown and absurd.
func randomize(rnd *rand.Rand, candidates []balance.Candidate) {
	usages := []float64{0, 0.2, 0.5, 0.97, 1, balance.Unknown, 7, math.NaN(), math.Inf(1), math.Inf(-1)}
	rates := []float64{0, 1200, 3000, 3000, 25_000, -1, math.SmallestNonzeroFloat64, math.NaN(), math.Inf(1), math.Inf(-1)}
	families := []float64{0, 0, 1, 5.5, -1, math.Inf(1)}
	adapters := [][]string{nil, {}, {"sql"}, {"chat", "sql"}, {"chat"}}
	for i := range candidates {
		candidates[i] = balance.Candidate{
			Replica:        candidates[i].Replica,
			InFlight:       rnd.IntN(6),
			Others:         rnd.IntN(3),
			Sessions:       rnd.IntN(20),
			Running:        rnd.IntN(6) + balance.Unknown,
			Waiting:        rnd.IntN(4) + balance.Unknown,
			KVUsage:        usages[rnd.IntN(len(usages))],
			KVTokens:       rnd.IntN(2) * 100_000,
			Resident:       rnd.IntN(50_000),
			PrefillRate:    rates[rnd.IntN(len(rates))],
			PendingPrefill: rnd.IntN(3) * rnd.IntN(20_000),
			SharedTokens:   rnd.IntN(3) * 2000,
			Family:         families[rnd.IntN(len(families))],
			Adapters:       adapters[rnd.IntN(len(adapters))],
			MaxAdapters:    rnd.IntN(4) - 1,
			Age:            time.Duration(rnd.IntN(3)) * time.Second,
			Stale:          rnd.IntN(8) == 0,
		}
	}
}

// randomRequest may have a home and a parent, and may lack a session.
func randomRequest(rnd *rand.Rand, n int) *balance.Request {
	losses := []float64{0, 0, 0.3, 1, 7, -1, math.Inf(1), math.Inf(-1)}
	return &balance.Request{
		Session:      uint64(rnd.IntN(50)),
		Parent:       uint64(rnd.IntN(2)),
		Adapter:      []string{"", "sql"}[rnd.IntN(2)],
		PromptTokens: rnd.IntN(3) * rnd.IntN(15_000),
		Home:         rnd.IntN(n+1) - 1,
		HomeTokens:   rnd.IntN(3) * rnd.IntN(15_000),
		HomeLost:     losses[rnd.IntN(len(losses))],
		FamilyShare:  losses[rnd.IntN(len(losses))],
		ParentHome:   rnd.IntN(n+1) - 1,
		Now:          now.Add(time.Duration(rnd.IntN(1000)) * time.Millisecond),
	}
}

// builtin is a built-in picker.
type builtin struct {
	name string
	make func() balance.Picker
	// turns says that equal candidates are chosen exactly in turn.
	turns bool
}

func builtins(tb testing.TB) []builtin {
	tb.Helper()
	must := func(p balance.Picker, err error) balance.Picker {
		require.NoError(tb, err)
		return p
	}
	engine := func(version string) func() balance.Picker {
		return func() balance.Picker { return must(balance.EngineLB(version)) }
	}
	return []builtin{
		{"Default", balance.Default, true},
		{"DefaultWithSharedPrefix", balance.DefaultWithSharedPrefix, true},
		{"LeastLoaded", balance.LeastLoaded, true},
		{"RoundRobin", balance.RoundRobin, true},
		{"Random", func() balance.Picker { return balance.Random(rand.New(rand.NewPCG(1, 2))) }, false},
		{"PowerOfTwo", func() balance.Picker { return balance.PowerOfTwo(rand.New(rand.NewPCG(1, 2))) }, false},
		{"Rendezvous", balance.Rendezvous, false},
		{"BoundedLoad", func() balance.Picker { return must(balance.BoundedLoad(1.25)) }, false},
		{"SoftAffinity", func() balance.Picker { return must(balance.SoftAffinity(0.25)) }, true},
		{"EngineLB-0.9.0", engine("0.9.0"), false},
		{"EngineLB-0.10.0", engine("0.10.0"), false},
		{"EngineLB-0.24.0", engine("0.24.0"), false},
		{"EngineLB-0.26.0", engine("0.26.0"), false},
		{"EngineLB-0.27.0", engine("0.27.0"), false},
		{"Weighted-none", func() balance.Picker { return balance.Weighted() }, true},
		{"Weighted-all", func() balance.Picker {
			return balance.Weighted(
				balance.Weight(balance.InFlight(), 1), balance.Weight(balance.Sessions(), 1),
				balance.Weight(balance.Waiting(), 1), balance.Weight(balance.KVUsage(), 1),
				balance.Weight(balance.Parent(), 1), balance.Weight(balance.ExpectedTTFT(), 1),
				balance.Weight(balance.LoRA(), 1), balance.Weight(balance.SharedPrefix(), 1))
		}, true},
	}
}
