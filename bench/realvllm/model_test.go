package realvllm_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench"
)

// TestOverloadModel sends the conversations of TestOverload to simulated engines
// with the shape of the real ones and speeds fitted to them, so that the two
// tables can be held against each other:
//
//	go test ./bench/realvllm -run TestOverloadModel -v
func TestOverloadModel(t *testing.T) {
	w := smallWorkload(2 * time.Minute)
	w.Steps, w.Cold, w.Seeds = []int{2, 4, 8, 12, 16}, true, []uint64{1, 2, 3, 4, 5, 6}
	if !testing.Verbose() {
		w.Steps, w.Seeds = []int{16}, []uint64{1, 2}
	}
	// From an answer's end until the engine has the next request: client, API server
	// and tokenizer share two cores with the ranks.
	w.Think = bench.Exponential(400 * time.Millisecond)
	w.Engines = bench.Engines{
		Name:  "two ranks on the CPU, fitted",
		Ranks: 2, APIServers: 1, MaxNumSeqs: 32, KVTokens: 299 * 32, BlockSize: 32, BatchedTokens: 1024,
		PrefillRate: 1200, StepTime: 30 * time.Millisecond, ContextCost: 500 * time.Microsecond,
	}
	policies := []bench.Policy{bench.Off(), bench.Affinity(), bench.Residents(), bench.Turnover("to the end", 0)}
	table := bench.Compare(t, w, policies...)
	if testing.Verbose() {
		require.NoError(t, table.WriteText(os.Stdout))
	}
	last := table.Rows[len(table.Rows)-len(policies):]
	assert.InDelta(t, float64(last[0].CachedShare), float64(last[1].CachedShare), 0.06, "staying is no use at sixteen")
	assert.Greater(t, last[2].OutputPerMinute, last[1].OutputPerMinute)
	assert.Greater(t, last[3].OutputPerMinute, last[2].OutputPerMinute)
}
