package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/bench/report"
)

// Compare runs the workload under every policy, as [Runner.Table] does, and
// ends the test if that returns an error.
//
// In a benchmark it is the benchmark's loop, so call it once and not within
// another: ns/op is the time it takes to simulate it all, and the metrics are,
// for each policy and step, TTFB, output tokens a minute and hit share.
func Compare(tb testing.TB, w Workload, policies ...Policy) report.Table {
	tb.Helper()
	var table report.Table
	run := func() {
		tb.Helper()
		var err error
		if table, err = (Runner{}).Table(tb.Context(), w, policies...); err != nil {
			tb.Fatal(err)
		}
	}
	b, ok := tb.(*testing.B)
	if !ok {
		run()
		return table
	}
	for b.Loop() {
		run()
	}
	reportMetrics(b, &table)
	return table
}

func reportMetrics(b *testing.B, t *report.Table) {
	for i := range t.Rows {
		r := &t.Rows[i]
		name := fmt.Sprintf("%s-%d", strings.Join(strings.Fields(r.Policy), "-"), r.Sessions)
		for _, m := range []struct {
			value report.Value
			unit  string
		}{
			{r.TTFB.P50, "ttfb-p50-s"},
			{r.TTFB.P95, "ttfb-p95-s"},
			{r.OutputPerMinute, "tokens/min"},
			{r.HitShare * 100, "hit-%"},
		} {
			if m.value.Known() {
				b.ReportMetric(float64(m.value), name+":"+m.unit)
			}
		}
	}
}
