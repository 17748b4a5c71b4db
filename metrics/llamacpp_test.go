package metrics_test

import (
	"testing"

	"github.com/warmroute/warmroute/metrics"
)

// TestLlamaCPP has pages with the names of llama.cpp's tools/server/README.md.
func TestLlamaCPP(t *testing.T) {
	runPageTests(t, metrics.LlamaCPP(), []pageTest{
		{
			name: "all of it",
			page: page(
				`# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.`,
				`# TYPE llamacpp:prompt_tokens_total counter`,
				`llamacpp:prompt_tokens_total 512`,
				`llamacpp:prompt_seconds_total 1.5`,
				`llamacpp:tokens_predicted_total 39080`,
				`llamacpp:n_decode_total 39303`,
				`llamacpp:n_busy_slots_per_decode 3.87`,
				`llamacpp:predicted_tokens_seconds nan`,
				`llamacpp:requests_processing 4`,
				`llamacpp:requests_deferred 46`,
			),
			want: one(metrics.Snapshot{
				Running: num(4), Waiting: num(46), PromptTokens: num(512), GenerationTokens: num(39080), Steps: num(39303),
			}),
		},
		{
			name: "an older server",
			page: page(`llamacpp:kv_cache_usage_ratio 0.25`, `llamacpp:kv_cache_tokens 100`),
			want: one(metrics.Snapshot{KVUsage: num(0.25)}),
		},
		{name: "a value that makes no sense", page: page(`llamacpp:requests_processing nan`), want: one(metrics.Snapshot{})},
		{name: "nobody's", page: page(`llamacpp_requests_processing 4`, `llamacpp:prompt_tokens_seconds 4`)},
	})
}
