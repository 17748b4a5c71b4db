package bench_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/bench"
	"github.com/warmroute/warmroute/bench/report"
)

// TestOverloadTable prints what waiting for room in the prefix caches does, by
// how readily residents give their places up:
//
//	go test ./bench -run TestOverloadTable -v -timeout 30m -args -hours
//
// With -hours it has four runs of an hour a step; without, two of ten minutes;
// without -v as well, a few minutes that are there to be checked.
func TestOverloadTable(t *testing.T) {
	w := bench.Overload(10 * time.Minute)
	w.Seeds = []uint64{1, 2}
	switch {
	case *hours:
		w = bench.Overload(time.Hour)
	case !testing.Verbose() || testing.Short() || raceEnabled:
		w.Name += " (shortened)"
		w.Steps, w.StepTime, w.Seeds = []int{8, 24}, 5*time.Minute, []uint64{1}
	}
	policies := []bench.Policy{
		bench.Off(), bench.Affinity(), bench.Residents(),
		bench.Turnover("tail", 1), bench.Turnover("to the end", 0),
	}
	table := bench.Compare(t, w, policies...)
	if testing.Verbose() {
		require.NoError(t, table.WriteText(os.Stdout))
		ratios(w, table, len(policies))
		if *html != "" {
			f, err := os.Create(*html)
			require.NoError(t, err)
			require.NoError(t, table.WriteHTML(f))
			require.NoError(t, f.Close())
		}
	}
	for i, sessions := range w.Steps {
		rows := table.Rows[i*len(policies):][:len(policies)]
		plain, residents, tail, end := rows[1], rows[2], rows[3], rows[4]
		for _, r := range rows {
			assert.Zero(t, r.Failed, "%s at %d", r.Policy, sessions)
			assert.Less(t, r.TTFB.Max, report.Value(6*60), "%s at %d: nobody waits for more than the bound and a turn", r.Policy, sessions)
		}
		if sessions <= 8 { // everything fits
			for _, r := range rows[2:] {
				assert.InEpsilon(t, float64(plain.OutputPerMinute), float64(r.OutputPerMinute), 0.02, "%s at %d", r.Policy, sessions)
				assert.InEpsilon(t, float64(plain.TTFB.Mean), float64(r.TTFB.Mean), 0.02, "%s at %d", r.Policy, sessions)
			}
		}
		if sessions < 24 {
			continue
		}
		assert.Greater(t, residents.OutputPerMinute, 1.15*plain.OutputPerMinute)
		assert.Less(t, residents.TTFB.Mean, 0.9*plain.TTFB.Mean)
		assert.Less(t, residents.TTFB.P50, plain.TTFB.P50/3)
		assert.Less(t, tail.TTFB.P95, residents.TTFB.P95)
		assert.Greater(t, tail.OutputPerMinute, plain.OutputPerMinute)
		assert.Greater(t, end.OutputPerMinute, residents.OutputPerMinute)
	}
}

// TestOverloadElsewhere holds residents against plain affinity where they are
// not made for it: pauses, other caches and cards, a capacity misjudged, several
// gateways. With -hours it prints all of it, else it runs a few.
func TestOverloadElsewhere(t *testing.T) {
	with := func(change func(*bench.Workload)) bench.Workload {
		w := bench.Overload(10 * time.Minute)
		w.Steps, w.Seeds = []int{8, 12, 16, 24, 32}, []uint64{1}
		if *hours {
			w.StepTime, w.Seeds = 20*time.Minute, []uint64{1, 2}
		}
		change(&w)
		return w
	}
	capacity := func(tokens warmroute.Residency) bench.Policy {
		return bench.Options("residents", func() []warmroute.Option {
			return []warmroute.Option{warmroute.WithResidency(tokens)}
		})
	}
	kv := warmroute.Residency(bench.DefaultEngines().KVTokens)
	think := func(d time.Duration) func(*bench.Workload) {
		return func(w *bench.Workload) { w.Think = bench.Exponential(d) }
	}
	cache := func(tokens int) func(*bench.Workload) {
		return func(w *bench.Workload) { w.Engines.KVTokens = tokens }
	}
	gateways := func(n int) func(*bench.Workload) {
		return func(w *bench.Workload) { w.Gateways = n }
	}
	cases := []struct {
		name   string
		w      bench.Workload
		policy bench.Policy
	}{
		{"1 s between turns", with(think(time.Second)), bench.Residents()},
		{"5 s between turns", with(think(5 * time.Second)), bench.Residents()},
		{"10 s between turns", with(think(10 * time.Second)), bench.Residents()},
		{"20 s between turns", with(think(20 * time.Second)), bench.Residents()},
		{"capacity taken for 0.7 of it", with(func(*bench.Workload) {}), capacity(kv * 7 / 10)},
		{"capacity taken for twice it", with(func(*bench.Workload) {}), capacity(2 * kv)},
		{"answers not sent back", with(func(w *bench.Workload) {
			made := w.Conversation
			w.Conversation = func(rng *rand.Rand) bench.Conversation {
				c := made(rng)
				for i := range c.Turns {
					c.Turns[i].Back = bench.Nothing
				}
				return c
			}
		}), bench.Residents()},
		{"a fast card", with(func(w *bench.Workload) {
			w.Engines.PrefillRate, w.Engines.StepTime = 8000, 15*time.Millisecond
		}), bench.Residents()},
		{"a cache of 16,000", with(cache(16_000)), bench.Residents()},
		{"a cache of 32,000", with(cache(32_000)), bench.Residents()},
		{"a cache of 48,000", with(cache(48_000)), bench.Residents()},
		{"two gateways", with(gateways(2)), bench.Residents()},
		{"four gateways", with(gateways(4)), bench.Residents()},
		{"seven replicas, 58,000 tokens", with(func(w *bench.Workload) {
			seeds, step := w.Seeds, w.StepTime
			*w = bench.LongContext()
			w.Seeds, w.StepTime, w.Cold, w.Steps = seeds, step, true, []int{7, 14, 26, 40}
		}), bench.Residents()},
	}
	if !*hours {
		cases = cases[1:2]
		cases[0].w.Steps = []int{16}
	}
	for _, c := range cases {
		table := bench.Compare(t, c.w, bench.Affinity(), c.policy)
		if testing.Verbose() {
			fmt.Printf("\n%s\n", c.name)
			ratios(c.w, table, 2)
		}
		for i := range c.w.Steps {
			plain, r := table.Rows[2*i], table.Rows[2*i+1]
			assert.Zero(t, r.Failed)
			assert.Greater(t, r.OutputPerMinute, 0.8*plain.OutputPerMinute, "%s at %d", c.name, r.Sessions)
		}
	}
}

// ratios prints what each policy makes of plain affinity's figures, the second
// policy of several and the first of two.
func ratios(w bench.Workload, table report.Table, policies int) {
	base := 0
	if policies > 2 {
		base = 1
	}
	fmt.Println("\nsessions  policy      tok/min   TTFB mean   p50 s   p95   completion p50   p95   slowest/median   (to affinity's, but p50 and slowest)")
	for i := range w.Steps {
		rows := table.Rows[i*policies:][:policies]
		b := rows[base]
		for _, r := range rows[base+1:] {
			fmt.Printf("%8d  %-10s  %7.2f   %9.2f   %5.2f   %4.2f   %14.2f   %4.2f   %14.2f\n", r.Sessions, r.Policy,
				r.OutputPerMinute/b.OutputPerMinute, r.TTFB.Mean/b.TTFB.Mean, r.TTFB.P50, r.TTFB.P95/b.TTFB.P95,
				r.Completion.P50/b.Completion.P50, r.Completion.P95/b.Completion.P95, r.Completion.Max/r.Completion.P50)
		}
	}
}
