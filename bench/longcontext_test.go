package bench_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/bench"
)

func TestLongContext(t *testing.T) {
	w := bench.LongContext()
	w.StepTime = 5 * time.Minute
	if testing.Short() || raceEnabled {
		w.Steps, w.StepTime = []int{7}, 2*time.Minute
	}
	table := bench.Compare(t, w, bench.Off(), bench.Affinity())
	for i := 0; i < len(table.Rows); i += 2 {
		off, on := table.Rows[i], table.Rows[i+1]
		assert.Zero(t, off.Failed+on.Failed)
		assert.Less(t, on.TTFB.Mean, off.TTFB.Mean/2)
		assert.Greater(t, on.HitShare, off.HitShare+0.2)
		assert.Len(t, on.Load, 7)
	}
}
