package report_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/warmroute/warmroute/bench/report"
)

// published returns the published figures of the seed table.
func published() []report.Row {
	var rows []report.Row
	for _, f := range []struct {
		sessions                                      int
		policy                                        string
		perHour, output, p50, p95, busy, hits, stayed report.Value
	}{
		{4, "off", 180, 5886, 2.05, 3.5, 2.71, .562, report.Missing()},
		{4, "affinity", 240, 6744, .38, 2.84, 2.83, .864, 1},
		{8, "off", 300, 8364, 2.33, 6.32, 3.74, .443, report.Missing()},
		{8, "affinity", 380, 10752, .48, 5.03, 3.74, .861, 1},
		{16, "off", 300, 9558, 3.25, 26.24, 3.91, .332, report.Missing()},
		{16, "affinity", 360, 12204, .85, 24.88, 3.69, .486, 1},
		{24, "off", 300, 9048, 5.06, 58.82, 3.91, .328, report.Missing()},
		{24, "affinity", 420, 11178, 13.14, 38.34, 4, .379, .891},
		{32, "off", 520, 14760, 12.32, 82.84, 4, .316, report.Missing()},
		{32, "affinity", 620, 16638, 27.66, 38.92, 4, .316, .673},
	} {
		row := report.NewRow(f.policy, f.sessions)
		row.SessionsPerHour, row.OutputPerMinute = f.perHour, f.output
		row.TTFB.P50, row.TTFB.P95 = f.p50, f.p95
		row.Busy, row.HitShare, row.Stayed = f.busy, f.hits, f.stayed
		rows = append(rows, row)
	}
	return rows
}

// seedTable returns a whole table: the published figures, and made-up ones of
// the policies near them.
func seedTable(policies ...string) *report.Table {
	t := &report.Table{
		Title:     "Seed table",
		Workload:  "4 to 32 sessions at a time, six turns each, shared system prompt of 3.5k tokens, 180 s a step",
		Engines:   "4 ranks, RTX A4000, Qwen3-4B, max_num_seqs 32, vLLM 0.26 (simulated)",
		Seeds:     []uint64{1},
		Published: published(),
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < len(t.Published); i += 2 {
		off, on := &t.Published[i], &t.Published[i+1]
		for k, policy := range policies {
			// Between off and on, and a little beyond for the later policies.
			mix := report.Value(float64(k)/max(1, float64(len(policies)-1)) + .06*random.NormFloat64())
			between := func(a, b report.Value) report.Value {
				return report.Value(math.Exp(float64((1-mix)*report.Value(math.Log(float64(a))) + mix*report.Value(math.Log(float64(b))))))
			}
			row := report.NewRow(policy, off.Sessions)
			row.Seconds = 180
			row.SessionsPerHour = report.Value(20 * math.Round(float64(between(off.SessionsPerHour, on.SessionsPerHour))/20))
			row.OutputPerMinute = between(off.OutputPerMinute, on.OutputPerMinute)
			row.TTFB.P50, row.TTFB.P95 = between(off.TTFB.P50, on.TTFB.P50), between(off.TTFB.P95, on.TTFB.P95)
			row.TTFB.P99, row.TTFB.Max, row.TTFB.Mean = row.TTFB.P95*1.15, row.TTFB.P95*1.4, row.TTFB.P50*1.3
			row.Completion.P50, row.Completion.P95 = 38+row.TTFB.P50*6, 60+row.TTFB.P95*3
			row.Completion.P99, row.Completion.Max, row.Completion.Mean = row.Completion.P95*1.1, row.Completion.P95*1.2, row.Completion.P50*1.05
			row.Busy = min(4, between(off.Busy, on.Busy))
			row.HitShare = between(off.HitShare, on.HitShare)
			row.CachedShare = min(1, row.HitShare*1.05)
			row.Stayed = min(1, between(.28, on.Stayed))
			row.Preemptions = report.Value(max(0, off.Sessions-12) * (3 + k))
			row.Fairness = 1.1 + report.Value(off.Sessions)/20
			row.Requests, row.Failed = 6*row.SessionsPerHour/20, 0
			row.Load = load(random, off.Sessions)
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// load makes up the load of four ranks, sampled every second.
func load(random *rand.Rand, sessions int) []report.Load {
	loads := make([]report.Load, 4)
	for i := range loads {
		loads[i].Replica = fmt.Sprintf("rank %d", i)
		level := float64(sessions) / 4
		for second := range 180 {
			level = max(0, level+random.NormFloat64()*.8+(float64(sessions)/4-level)*.05)
			loads[i].At = append(loads[i].At, report.Value(second))
			loads[i].Running = append(loads[i].Running, report.Value(math.Round(min(level, 6))))
			loads[i].Waiting = append(loads[i].Waiting, report.Value(math.Round(max(0, level-6))))
		}
	}
	return loads
}
