package metrics_test

import (
	"testing"

	"github.com/warmroute/warmroute/metrics"
)

// TestTensorRTLLM has pages with the names and labels of
// tensorrt_llm/metrics/collector.py.
func TestTensorRTLLM(t *testing.T) {
	runPageTests(t, metrics.TensorRTLLM(), []pageTest{
		{
			name: "all of it",
			page: page(
				`trtllm_num_requests_running{engine_type="trtllm",model_name="m"} 3.0`,
				`trtllm_num_requests_waiting{engine_type="trtllm",model_name="m"} 1.0`,
				`trtllm_max_num_active_requests{engine_type="trtllm",model_name="m"} 2048.0`,
				`trtllm_max_batch_size_runtime{engine_type="trtllm",model_name="m"} 512.0`,
				`trtllm_kv_cache_utilization{engine_type="trtllm",model_name="m"} 0.5`,
				`trtllm_kv_cache_hit_rate{engine_type="trtllm",model_name="m"} 0.9`,
				`trtllm_kv_cache_max_blocks{engine_type="trtllm",model_name="m"} 1000.0`,
				`trtllm_kv_cache_tokens_per_block{engine_type="trtllm",model_name="m"} 32.0`,
				`trtllm_kv_cache_reused_blocks_total{engine_type="trtllm",model_name="m"} 6.0`,
				`trtllm_kv_cache_missed_blocks_total{engine_type="trtllm",model_name="m"} 4.0`,
				`trtllm_prompt_cached_tokens_total{engine_type="trtllm",model_name="m"} 192.0`,
				`trtllm_prompt_tokens_total{engine_type="trtllm",model_name="m"} 300.0`,
				`trtllm_generation_tokens_total{engine_type="trtllm",model_name="m"} 60.0`,
				`trtllm_request_success_total{engine_type="trtllm",finished_reason="stop",model_name="m"} 5.0`,
				`trtllm_request_success_total{engine_type="trtllm",finished_reason="length",model_name="m"} 2.0`,
			),
			want: one(metrics.Snapshot{
				Model: "m", Running: num(3), Waiting: num(1), MaxNumSeqs: num(2048), KVUsage: num(0.5), KVTokens: num(32000), BlockTokens: num(32),
				PrefixQueries: num(300), PrefixHits: num(192), PromptTokens: num(300), GenerationTokens: num(60), RequestsFinished: num(7),
			}),
		},
		{
			name: "no counts of tokens: blocks",
			page: page(
				`trtllm_max_batch_size_runtime{model_name="m"} 512`,
				`trtllm_kv_cache_tokens_per_block{model_name="m"} 32`,
				`trtllm_kv_cache_reused_blocks_total{model_name="m"} 6`,
				`trtllm_kv_cache_missed_blocks_total{model_name="m"} 4`,
			),
			want: one(metrics.Snapshot{Model: "m", MaxNumSeqs: num(512), PrefixQueries: num(320), PrefixHits: num(192), BlockTokens: num(32)}),
		},
		{
			name: "before the first request: the count of hits is there, that of prompts is not",
			page: page(
				`trtllm_prompt_cached_tokens_total{model_name="m"} 0.0`,
				`trtllm_kv_cache_tokens_per_block{model_name="m"} 32`,
				`trtllm_kv_cache_reused_blocks_total{model_name="m"} 6`,
			),
			want: one(metrics.Snapshot{Model: "m", PrefixHits: num(0), BlockTokens: num(32)}),
		},
		{
			name: "newer series beside the ones that are read",
			page: page(
				`trtllm_num_requests_running{engine_type="trtllm",model_name="m"} 3.0`,
				`trtllm_num_requests_waiting{engine_type="trtllm",model_name="m"} 0.0`,
				`trtllm_num_requests_completed_total{engine_type="trtllm",model_name="m"} 9.0`,
				`trtllm_num_scheduled_requests{engine_type="trtllm",model_name="m"} 2.0`,
				`trtllm_num_paused_requests{engine_type="trtllm",model_name="m"} 1.0`,
				`trtllm_kv_cache_utilization{engine_type="trtllm",model_name="m"} 0.42`,
				`trtllm_kv_cache_host_utilization{engine_type="trtllm",model_name="m"} 0.9`,
				`trtllm_kv_cache_iter_reused_blocks_total{engine_type="trtllm",model_name="m"} 77.0`,
				`trtllm_max_batch_size_static{engine_type="trtllm",model_name="m"} 64.0`,
				`trtllm_max_num_tokens_runtime{engine_type="trtllm",model_name="m"} 8192.0`,
				`trtllm_prompt_cached_tokens_total{engine_type="trtllm",model_name="m"} 64.0`,
				`trtllm_prompt_cache_hit_tokens_total{cache_level="device",engine_type="trtllm",model_name="m"} 60.0`,
				`trtllm_prompt_tokens_total{engine_type="trtllm",model_name="m"} 100.0`,
				`trtllm_kv_cache_config_info{engine_type="trtllm",model_name="m",tokens_per_block="32"} 1.0`,
			),
			want: one(metrics.Snapshot{
				Model: "m", Running: num(3), Waiting: num(0), KVUsage: num(0.42),
				PrefixQueries: num(100), PrefixHits: num(64), PromptTokens: num(100),
			}),
		},
		{
			name: "Dynamo",
			page: page(`dynamo_component_uptime_seconds 3`, `trtllm:num_requests_running{model_name="m"} 3`),
			want: one(metrics.Snapshot{Model: "m", Running: num(3)}),
		},
		{name: "nobody's", page: page(`trtllmx_num_requests_running 3`, `trtllm_iteration_latency_seconds 1`)},
		{name: "JSON statistics", page: `[{"numActiveRequests": 3}]`},
	})
}
