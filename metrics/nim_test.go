package metrics_test

import (
	"testing"

	"github.com/warmroute/warmroute/metrics"
)

// TestNIM has pages with the names of the observability chapter of NVIDIA NIM
// for LLMs.
func TestNIM(t *testing.T) {
	runPageTests(t, metrics.NIM(), []pageTest{
		{
			name: "all of it",
			page: page(
				`process_start_time_seconds 1.7e+09`,
				`num_requests_running{model_name="meta/m"} 2.0`,
				`num_requests_waiting{model_name="meta/m"} 1.0`,
				`num_request_max{model_name="meta/m"} 2048.0`,
				`gpu_cache_usage_perc{model_name="meta/m"} 0.5`,
				`prompt_tokens_total{model_name="meta/m"} 603.0`,
				`generation_tokens_total{model_name="meta/m"} 997.0`,
				`request_success_total{finished_reason="stop",model_name="meta/m"} 3.0`,
				`request_finish_total{finished_reason="stop",model_name="meta/m"} 3.0`,
				`request_finish_total{finished_reason="length",model_name="meta/m"} 1.0`,
				`request_failure_total{model_name="meta/m"} 1.0`,
				`time_to_first_token_seconds_count{model_name="meta/m"} 34.0`,
			),
			want: one(metrics.Snapshot{
				Model: "meta/m", Running: num(2), Waiting: num(1), MaxNumSeqs: num(2048), KVUsage: num(0.5),
				PromptTokens: num(603), GenerationTokens: num(997), RequestsFinished: num(4), Started: num(1.7e9),
			}),
		},
		{
			name: "as recorded in April 2026: successes without a reason, and nothing of the cache",
			page: page(
				`num_requests_waiting{model_name="org/m"} 1.0`,
				`num_request_max{model_name="org/m"} 2048.0`,
				`prompt_tokens_total{model_name="org/m"} 603.0`,
				`generation_tokens_total{model_name="org/m"} 997.0`,
				`time_per_output_token_seconds_count{model_name="org/m"} 963.0`,
				`request_prompt_tokens_sum{model_name="org/m"} 603.0`,
				`request_success_total{model_name="org/m"} 34.0`,
			),
			want: one(metrics.Snapshot{
				Model: "org/m", Waiting: num(1), MaxNumSeqs: num(2048), PromptTokens: num(603), GenerationTokens: num(997), RequestsFinished: num(34),
			}),
		},
		{
			name: "only successes are counted",
			page: page(`num_requests_running{model_name="m"} 0.0`, `request_success_total{finished_reason="stop",model_name="m"} 3.0`),
			want: one(metrics.Snapshot{Model: "m", Running: num(0), RequestsFinished: num(3)}),
		},
		{
			name: "newer names without their prefix, ranks that no header reaches",
			page: page(`kv_cache_usage_perc{engine="0",model_name="m"} 0.5`, `kv_cache_usage_perc{engine="1",model_name="m"} 0.25`),
			want: metrics.Page{Engines: []metrics.Snapshot{
				{Engine: "0", Model: "m", KVUsage: num(0.5)}, {Engine: "1", Model: "m", KVUsage: num(0.25)},
			}},
		},
		{name: "names that anybody may have", page: page(`prompt_tokens_total 7`, `request_success_total 3`, `process_start_time_seconds 1.7e+09`)},
		{name: "vLLM's names", page: page(`vllm:num_requests_running{engine="0"} 3`)},
	})
}
