package bench_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/bench"
)

// An engine whose balancing knows the load sends most turns back to the rank
// that has just finished the one before.
func TestEnginesThatReportTheirLoad(t *testing.T) {
	w := bench.SeedTable()
	w.Steps, w.Seeds = []int{8}, []uint64{1}
	dense := bench.Compare(t, w, bench.Off())
	w.Engines.MoE = true
	moe := bench.Compare(t, w, bench.Off())
	assert.Greater(t, moe.Rows[0].HitShare, dense.Rows[0].HitShare+0.2)
}
