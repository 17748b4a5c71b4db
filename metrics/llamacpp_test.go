package metrics_test

import (
	"testing"

	"github.com/warmroute/warmroute/metrics"
)

// TestLlamaCPP has pages with the names of llama.cpp's tools/server/README.md,
// and with the series that recorded pages of some builds have.
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
			name: "build 9080, as recorded: no cache series",
			page: page(
				`llamacpp:prompt_tokens_total 12345`,
				`llamacpp:prompt_seconds_total 49.4`,
				`llamacpp:tokens_predicted_total 6789`,
				`llamacpp:n_decode_total 2104`,
				`llamacpp:n_tokens_max 32768`,
				`llamacpp:requests_processing 2`,
				`llamacpp:requests_deferred 1`,
			),
			want: one(metrics.Snapshot{
				Running: num(2), Waiting: num(1), PromptTokens: num(12345), GenerationTokens: num(6789), Steps: num(2104),
			}),
		},
		{
			name: "build 11151, as recorded: cached prompt tokens apart, and speculative decoding",
			page: page(
				`llamacpp:prompt_tokens_total 7915720`,
				`llamacpp:prompt_tokens_cached_total 87719700`,
				`llamacpp:prompt_seconds_total 4021.7`,
				`llamacpp:tokens_predicted_total 192345`,
				`llamacpp:n_decode_total 104321`,
				`llamacpp:spec_decode_num_draft_tokens_total 9000`,
				`llamacpp:spec_decode_num_accepted_tokens_total 7000`,
				`llamacpp:spec_decode_num_drafts_total 4000`,
				`llamacpp:requests_processing 1`,
				`llamacpp:requests_deferred 0`,
			),
			want: one(metrics.Snapshot{
				Running: num(1), Waiting: num(0), PrefixQueries: num(95635420), PrefixHits: num(87719700),
				PromptTokens: num(95635420), GenerationTokens: num(192345), Steps: num(104321),
			}),
		},
		{
			name: "labelled by model, as some builds are",
			page: page(`llamacpp:requests_processing{model="m"} 3`, `llamacpp:prompt_tokens_cached_total{model="m"} 0`, `llamacpp:prompt_tokens_total{model="m"} 7`),
			want: one(metrics.Snapshot{Running: num(3), PrefixQueries: num(7), PrefixHits: num(0), PromptTokens: num(7)}),
		},
		{
			name: "cached tokens alone",
			page: page(`llamacpp:prompt_tokens_cached_total 5`),
			want: one(metrics.Snapshot{PrefixHits: num(5)}),
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
