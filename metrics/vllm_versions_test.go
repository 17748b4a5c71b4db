package metrics_test

import (
	"testing"

	"github.com/warmroute/warmroute/metrics"
)

// TestVLLMVersions has what pages of vLLM's versions differ in. Names, labels
// and units are those of the released sources (v1/metrics/loggers.py and
// engine/metrics.py); the pages recorded from 0.26 are in TestVLLMFixtures.
func TestVLLMVersions(t *testing.T) {
	runPageTests(t, metrics.VLLM(), []pageTest{
		{
			name: "0.8.5: old names only, prefix counters in blocks",
			page: page(
				`process_start_time_seconds 1.7e+09`,
				`vllm:num_requests_running{engine="0",model_name="m"} 2.0`,
				`vllm:num_requests_waiting{engine="0",model_name="m"} 1.0`,
				`vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.25`,
				`vllm:gpu_prefix_cache_queries_total{engine="0",model_name="m"} 70.0`,
				`vllm:gpu_prefix_cache_queries_created{engine="0",model_name="m"} 1.700000009e+09`,
				`vllm:gpu_prefix_cache_hits_total{engine="0",model_name="m"} 30.0`,
				`vllm:num_preemptions_total{engine="0",model_name="m"} 4.0`,
				`vllm:prompt_tokens_total{engine="0",model_name="m"} 1200.0`,
				`vllm:generation_tokens_total{engine="0",model_name="m"} 90.0`,
				`vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 5.0`,
				`vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 2.0`,
				`vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"} 1.0`,
				`vllm:iteration_tokens_total_bucket{engine="0",le="+Inf",model_name="m"} 12.0`,
				`vllm:iteration_tokens_total_sum{engine="0",model_name="m"} 9999.0`,
				`vllm:iteration_tokens_total_count{engine="0",model_name="m"} 12.0`,
				`vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="1000",num_gpu_blocks_override="None"} 1.0`,
			),
			want: metrics.Page{Engines: []metrics.Snapshot{{
				Engine: "0", Model: "m", Running: num(2), Waiting: num(1), KVUsage: num(0.25),
				PrefixQueries: num(1120), PrefixHits: num(480), KVTokens: num(16000), BlockTokens: num(16),
				PromptTokens: num(1200), GenerationTokens: num(90), Preemptions: num(4), RequestsFinished: num(8),
				Steps: num(12), Started: num(1.7e9),
			}}},
		},
		{
			name: "0.8.5 with the V0 engine: no engine label, hit rates instead of counters",
			page: page(
				`vllm:num_requests_running{model_name="m"} 2.0`,
				`vllm:num_requests_swapped{model_name="m"} 0.0`,
				`vllm:num_requests_waiting{model_name="m"} 1.0`,
				`vllm:gpu_cache_usage_perc{model_name="m"} 0.25`,
				`vllm:cpu_cache_usage_perc{model_name="m"} 0.75`,
				`vllm:gpu_prefix_cache_hit_rate{model_name="m"} -1.0`,
				`vllm:prompt_tokens_total{model_name="m"} 1200.0`,
				`vllm:cache_config_info{block_size="16",cache_dtype="auto",num_gpu_blocks="1000"} 1.0`,
			),
			want: one(metrics.Snapshot{
				Model: "m", Running: num(2), Waiting: num(1), KVUsage: num(0.25), PromptTokens: num(1200), KVTokens: num(16000), BlockTokens: num(16),
			}),
		},
		{
			name: "0.9.2: old and new names side by side, all in tokens",
			page: page(
				`process_start_time_seconds 1.7e+09`,
				`vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5`,
				`vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.25`,
				`vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1600.0`,
				`vllm:gpu_prefix_cache_queries_total{engine="0",model_name="m"} 1500.0`,
				`vllm:prefix_cache_hits_total{engine="0",model_name="m"} 800.0`,
				`vllm:gpu_prefix_cache_hits_total{engine="0",model_name="m"} 700.0`,
				`vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000"} 1.0`,
			),
			want: metrics.Page{Engines: []metrics.Snapshot{{
				Engine: "0", Model: "m", KVUsage: num(0.5), PrefixQueries: num(1600), PrefixHits: num(800),
				KVTokens: num(16000), BlockTokens: num(16), Started: num(1.7e9),
			}}},
		},
		{
			name: "0.10.2: the last with the old names shown",
			page: page(
				`vllm:num_requests_running{engine="0",model_name="m"} 0.0`,
				`vllm:num_requests_running{engine="1",model_name="m"} 6.0`,
				`vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.0`,
				`vllm:gpu_cache_usage_perc{engine="1",model_name="m"} 0.125`,
				`vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.0`,
				`vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.125`,
				`vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 3.0`,
			),
			want: metrics.Page{Engines: []metrics.Snapshot{
				{Engine: "0", Model: "m", Running: num(0), KVUsage: num(0)},
				{Engine: "1", Model: "m", Running: num(6), KVUsage: num(0.125)},
			}},
		},
		{
			name: "0.11.0: new names only, not sized yet",
			page: page(
				`vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.0`,
				`vllm:prefix_cache_queries_total{engine="0",model_name="m"} 0.0`,
				`vllm:prefix_cache_hits_total{engine="0",model_name="m"} 0.0`,
				`vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="None",num_gpu_blocks_override="None"} 1.0`,
			),
			want: metrics.Page{RankHeader: true, Engines: []metrics.Snapshot{{
				Engine: "0", Model: "m", KVUsage: num(0), PrefixQueries: num(0), PrefixHits: num(0), BlockTokens: num(16),
			}}},
		},
		{
			name: "0.11.2: hidden names shown, asleep at level 2",
			page: page(
				`vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5`,
				`vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.5`,
				`vllm:external_prefix_cache_queries_total{engine="0",model_name="m"} 77.0`,
				`vllm:external_prefix_cache_hits_total{engine="0",model_name="m"} 66.0`,
				`vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="awake"} 0.0`,
				`vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="weights_offloaded"} 0.0`,
				`vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="discard_all"} 1.0`,
			),
			want: metrics.Page{Engines: []metrics.Snapshot{{Engine: "0", Model: "m", KVUsage: num(0.5), Sleeping: true}}},
		},
		{
			name: "0.12: hybrid load balancing, global labels, blocks shared out, one API process",
			page: page(
				`process_start_time_seconds 1.75e+09`,
				`vllm:num_requests_running{engine="11",model_name="m"} 7.0`,
				`vllm:num_requests_running{engine="10",model_name="m"} 3.0`,
				`vllm:num_requests_running{engine="9",model_name="m"} 1.0`,
				`vllm:prefix_cache_queries_total{engine="9",model_name="m"} 20.0`,
				`vllm:prefix_cache_hits_total{engine="9",model_name="m"} 10.0`,
				`vllm:prefix_cache_hits_created{engine="8",model_name="m"} 1.8e+09`,
				`vllm:cache_config_info{block_size="16",engine="9",num_gpu_blocks="3001"} 1.0`,
				`vllm:cache_config_info{block_size="16",engine="10",num_gpu_blocks="3001"} 1.0`,
				`vllm:cache_config_info{block_size="16",engine="11",num_gpu_blocks="3001"} 1.0`,
			),
			want: metrics.Page{RankHeader: true, Engines: []metrics.Snapshot{
				{Engine: "9", Model: "m", Running: num(1), PrefixQueries: num(20), PrefixHits: num(10), KVTokens: num(16000), BlockTokens: num(16), Started: num(1.75e9)},
				{Engine: "10", Model: "m", Running: num(3), KVTokens: num(16000), BlockTokens: num(16), Started: num(1.75e9)},
				{Engine: "11", Model: "m", Running: num(7), KVTokens: num(16000), BlockTokens: num(16), Started: num(1.75e9)},
			}},
		},
		{
			name: "0.16: an API process for each rank, so no process_* and no _created; tokens by source are not all tokens",
			page: page(
				`http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 9.0`,
				`vllm:num_requests_running{engine="0",model_name="m"} 2.0`,
				`vllm:num_requests_running{engine="1",model_name="m"} 0.0`,
				`vllm:prompt_tokens_total{engine="0",model_name="m"} 300.0`,
				`vllm:prompt_tokens_total{engine="1",model_name="m"} 100.0`,
				`vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 200.0`,
				`vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_cache_hit"} 100.0`,
				`vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="external_kv_transfer"} 0.0`,
				`vllm:prompt_tokens_cached_total{engine="0",model_name="m"} 100.0`,
				`vllm:prompt_tokens_recomputed_total{engine="0",model_name="m"} 1.0`,
				`vllm:request_prefill_kv_computed_tokens_count{engine="0",model_name="m"} 5.0`,
			),
			want: metrics.Page{RankHeader: true, Engines: []metrics.Snapshot{
				{Engine: "0", Model: "m", Running: num(2), PromptTokens: num(300)},
				{Engine: "1", Model: "m", Running: num(0), PromptTokens: num(100)},
			}},
		},
		{
			name: "0.20: waiting by reason",
			page: page(
				`vllm:num_requests_waiting{engine="0",model_name="m"} 5.0`,
				`vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 3.0`,
				`vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="deferred"} 2.0`,
			),
			want: metrics.Page{RankHeader: true, Engines: []metrics.Snapshot{{Engine: "0", Model: "m", Waiting: num(5), WaitingForCapacity: num(3)}}},
		},
		{
			name: "0.24: capacity of each engine in tokens",
			page: page(
				`vllm:num_requests_running{engine="0",model_name="m"} 0.0`,
				`vllm:num_requests_running{engine="1",model_name="m"} 0.0`,
				`vllm:cache_config_info{block_size="4",engine="0",kv_cache_size_tokens="51200",num_gpu_blocks="1600"} 1.0`,
				`vllm:cache_config_info{block_size="4",engine="1",kv_cache_size_tokens="51100",num_gpu_blocks="1600"} 1.0`,
			),
			want: metrics.Page{RankHeader: true, Engines: []metrics.Snapshot{
				{Engine: "0", Model: "m", Running: num(0), KVTokens: num(51200), BlockTokens: num(4)},
				{Engine: "1", Model: "m", Running: num(0), KVTokens: num(51100), BlockTokens: num(4)},
			}},
		},
		{
			name: "0.26, as recorded: an adapter with a request is under both labels, and the last entry says that none has",
			page: page(
				`vllm:num_requests_running{engine="0",model_name="m"} 0.0`,
				`vllm:lora_requests_info{max_lora="2",running_lora_adapters="sql",waiting_lora_adapters="sql"} 1.7959762132982917e+09`,
				`vllm:lora_requests_info{max_lora="2",running_lora_adapters="sql,legal",waiting_lora_adapters="sql,legal"} 1.795976215563859e+09`,
				`vllm:lora_requests_info{max_lora="2",running_lora_adapters="",waiting_lora_adapters=""} 1.7959762156016376e+09`,
			),
			want: metrics.Page{
				RankHeader: true, Engines: []metrics.Snapshot{{Engine: "0", Model: "m", Running: num(0)}},
				LoRA: &metrics.LoRA{Max: num(2)},
			},
		},
		{
			name: "0.32: asleep at level 1, series that are new",
			page: page(
				`vllm:num_requests_running{engine="0",model_name="m"} 1.0`,
				`vllm:num_requests_kv_fetch_by_stage{engine="0",model_name="m",stage="queued"} 4.0`,
				`vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="m",source="device"} 8.0`,
				`vllm:admission_rejections_total{model_name="m",reason="max_num_queued_reqs"} 3.0`,
				`vllm:sleep_mode_operations_in_flight{operation="sleep"} 0.0`,
				`vllm:kv_block_lifetime_seconds_count{engine="0",model_name="m"} 5.0`,
				`vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="awake"} 0.0`,
				`vllm:engine_sleep_state{engine="0",model_name="m",sleep_state="weights_offloaded"} 1.0`,
			),
			want: metrics.Page{RankHeader: true, Engines: []metrics.Snapshot{{Engine: "0", Model: "m", Running: num(1), Sleeping: true}}},
		},
		{
			name: "0.33: external load balancing, adapters",
			page: page(
				`vllm:num_requests_running{engine="3",model_name="m"} 1.0`,
				`vllm:lora_requests_info{max_lora="4",running_lora_adapters="",waiting_lora_adapters=""} 1.7e+09`,
				`vllm:lora_requests_info{max_lora="4",running_lora_adapters="sql,chat",waiting_lora_adapters="legal"} 1.700000002e+09`,
				`vllm:lora_requests_info{max_lora="4",running_lora_adapters="sql",waiting_lora_adapters=""} 1.700000001e+09`,
				`vllm:lora_requests_info{max_lora="4",running_lora_adapters="x",waiting_lora_adapters=""} NaN`,
			),
			want: metrics.Page{
				RankHeader: true,
				Engines:    []metrics.Snapshot{{Engine: "3", Model: "m", Running: num(1)}},
				LoRA:       &metrics.LoRA{Max: num(4), Running: []string{"sql", "chat"}, Waiting: []string{"legal"}},
			},
		},
		{
			name: "--disable-log-stats",
			page: page(
				`process_start_time_seconds 1.7e+09`,
				`python_info{version="3.11.7"} 1.0`,
				`http_requests_total{handler="/health",method="GET",status="2xx"} 9.0`,
			),
		},
		{
			name: "start from the oldest _created of each engine",
			page: page(
				`vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.5e+09`,
				`vllm:iteration_tokens_total_created{engine="0",model_name="m"} 1.4e+09`,
				`vllm:request_success_created{engine="0",finished_reason="stop",model_name="m"} 1.6e+09`,
				`vllm:request_success_created{engine="1",finished_reason="stop",model_name="m"} 1.2e+09`,
				`vllm:num_requests_running{engine="0",model_name="m"} 0`,
			),
			want: metrics.Page{RankHeader: true, Engines: []metrics.Snapshot{{Engine: "0", Model: "m", Running: num(0), Started: num(1.4e9)}}},
		},
		{
			name: "the process's start goes before _created",
			page: page(
				`vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.5e+09`,
				`vllm:num_requests_running{engine="0",model_name="m"} 0`,
				`process_start_time_seconds 1.7e+09`,
			),
			want: metrics.Page{RankHeader: true, Engines: []metrics.Snapshot{{Engine: "0", Model: "m", Running: num(0), Started: num(1.7e9)}}},
		},
		{
			name: "Ray Serve",
			page: page(
				`ray_vllm_num_requests_running{engine="0",model_name="m",ReplicaId="x"} 4`,
				`ray_vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5`,
				`vllm_num_requests_waiting{engine="0",model_name="m"} 1`,
				`vllmx_num_requests_waiting{engine="0",model_name="m"} 9`,
				`vllm_prefix_cache_hits{engine="0",model_name="m"} 3`,
			),
			want: metrics.Page{RankHeader: true, Engines: []metrics.Snapshot{{
				Engine: "0", Model: "m", Running: num(4), Waiting: num(1), KVUsage: num(0.5), PrefixHits: num(3),
			}}},
		},
		{
			name: "a NIM that shows vLLM's own names",
			page: page(
				`num_request_max{model_name="m"} 1024.0`,
				`vllm:num_requests_running{engine="0",model_name="m"} 3.0`,
			),
			want: metrics.Page{RankHeader: true, Engines: []metrics.Snapshot{{Engine: "0", Model: "m", Running: num(3), MaxNumSeqs: num(1024)}}},
		},
		{
			name: "no engine label",
			page: page(`vllm:num_requests_running{model_name="m"} 4`),
			want: metrics.Page{Engines: []metrics.Snapshot{{Model: "m", Running: num(4)}}},
		},
		{
			name: "engines sorted as numbers, then as texts",
			page: page(
				`vllm:num_requests_running{engine="b"} 1`,
				`vllm:num_requests_running{engine="10"} 1`,
				`vllm:num_requests_running{engine="a"} 1`,
				`vllm:num_requests_running{engine="9"} 1`,
			),
			want: metrics.Page{RankHeader: true, Engines: []metrics.Snapshot{
				{Engine: "9", Running: num(1)}, {Engine: "10", Running: num(1)},
				{Engine: "a", Running: num(1)}, {Engine: "b", Running: num(1)},
			}},
		},
	})
}
