package bench_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench"
	"github.com/warmroute/warmroute/bench/report"
)

// TestSeedTable prints the published table beside the simulated one:
//
//	go test ./bench -run TestSeedTable -v
//
// With -short or the race detector, which makes it several times as dear, it
// is shorter and says so.
func TestSeedTable(t *testing.T) {
	w := bench.SeedTable()
	if testing.Short() || raceEnabled {
		w.Name += " (shortened)"
		w.Steps, w.StepTime, w.Seeds = []int{4, 8, 16}, time.Minute, w.Seeds[:1]
	}
	table := bench.Compare(t, w, bench.Off(), bench.Affinity())
	if testing.Verbose() {
		require.NoError(t, table.WriteText(os.Stdout))
	}
	require.Len(t, table.Rows, 2*len(w.Steps))
	whole := w.StepTime == bench.SeedTable().StepTime
	before := report.Value(1)
	for i, sessions := range w.Steps {
		off, on := table.Rows[2*i], table.Rows[2*i+1]
		assert.Equal(t, "off", off.Policy)
		assert.Equal(t, "affinity", on.Policy)
		assert.Zero(t, off.Failed+on.Failed)
		assert.Equal(t, report.Value(w.StepTime.Seconds()), on.Seconds)
		assert.Positive(t, float64(on.Requests))

		// The engine's own balancing spreads a conversation over all ranks, and
		// finds less the less room each has.
		assert.InDelta(t, 0.25, float64(off.Stayed), 0.15)
		if whole {
			assert.Less(t, off.HitShare, before+0.03)
			before = off.HitShare
		}

		// Affinity keeps every one where it is.
		assert.Equal(t, report.Value(1), on.Stayed)
		if sessions <= 8 {
			if whole {
				assert.GreaterOrEqual(t, on.HitShare, report.Value(0.85))
			}
			assert.Greater(t, on.HitShare, off.HitShare+0.1)
			assert.Greater(t, on.OutputPerMinute, off.OutputPerMinute*1.1)
			assert.Less(t, on.TTFB.P50, off.TTFB.P50/2)
		}
	}
	if whole {
		assertCalibrated(t, &table)
	}
	first, last := table.Rows[0], table.Rows[len(table.Rows)-2]
	assert.Less(t, last.HitShare, first.HitShare-0.1, "hits of off fall with the sessions")
}

// assertCalibrated holds the rows against the published ones. Those of 32
// sessions have half as much output again as any engine that fits the others;
// see the README.
func assertCalibrated(t *testing.T, table *report.Table) {
	t.Helper()
	for _, p := range table.Published {
		for _, r := range table.Rows {
			if r.Sessions != p.Sessions || r.Policy != p.Policy || p.Sessions == 32 {
				continue
			}
			assert.InEpsilon(t, float64(p.OutputPerMinute), float64(r.OutputPerMinute), 0.2, "%s %d", p.Policy, p.Sessions)
			assert.InDelta(t, float64(p.HitShare), float64(r.HitShare), 0.1, "%s %d", p.Policy, p.Sessions)
		}
	}
}
