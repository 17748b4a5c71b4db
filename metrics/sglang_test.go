package metrics_test

import (
	"testing"

	"github.com/warmroute/warmroute/metrics"
)

// TestSGLang has pages with the names and labels of SGLang's
// python/sglang/srt/observability/metrics_collector.py, and with what recorded
// pages have.
func TestSGLang(t *testing.T) {
	runPageTests(t, metrics.SGLang(), []pageTest{
		{
			name: "one engine",
			page: page(
				`# TYPE sglang:num_running_reqs gauge`,
				`sglang:num_running_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 3.0`,
				`sglang:num_queue_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 1.0`,
				`sglang:num_grammar_queue_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 9.0`,
				`sglang:token_usage{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 0.25`,
				`sglang:full_token_usage{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 0.2`,
				`sglang:max_total_num_tokens{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 262144.0`,
				`sglang:num_retracted_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 0.0`,
				`sglang:num_retracted_requests_total{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 2.0`,
				`sglang:cuda_graph_passes_total{engine_type="unified",mode="decode_cuda_graph",model_name="m",tp_rank="0"} 90.0`,
				`sglang:cuda_graph_passes_total{engine_type="unified",mode="decode_none",model_name="m",tp_rank="0"} 7.0`,
				`sglang:cuda_graph_passes_total{engine_type="unified",mode="prefill_none",model_name="m",tp_rank="0"} 3.0`,
				`sglang:realtime_tokens_total{engine_type="unified",mode="prefill_compute",model_name="m",tp_rank="0"} 4000.0`,
				`sglang:prompt_tokens_total{engine_type="unified",is_streaming="true",model_name="m"} 3000.0`,
				`sglang:prompt_tokens_total{engine_type="unified",is_streaming="false",model_name="m"} 1000.0`,
				`sglang:generation_tokens_total{engine_type="unified",is_streaming="true",model_name="m"} 500.0`,
				`sglang:cached_tokens_total{cache_source="device",engine_type="unified",model_name="m"} 1500.0`,
				`sglang:cached_tokens_total{cache_source="host",engine_type="unified",model_name="m"} 100.0`,
				`sglang:num_requests_total{engine_type="unified",is_streaming="true",model_name="m"} 12.0`,
				`sglang:num_requests_total{engine_type="unified",is_streaming="false",model_name="m"} 4.0`,
			),
			want: one(metrics.Snapshot{
				Model: "m", Running: num(3), Waiting: num(1), KVUsage: num(0.25), KVTokens: num(262144),
				PrefixQueries: num(4000), PrefixHits: num(1600), PromptTokens: num(4000), GenerationTokens: num(500),
				Preemptions: num(2), RequestsFinished: num(16), Steps: num(100),
			}),
		},
		{
			name: "0.4, as recorded: no label but the model's name, counts in scientific notation",
			page: page(
				`sglang:prompt_tokens_total{model_name="org/m"} 8.128902e+06`,
				`sglang:generation_tokens_total{model_name="org/m"} 7.557572e+06`,
				`sglang:token_usage{model_name="org/m"} 0.28`,
				`sglang:cache_hit_rate{model_name="org/m"} 0.007507552643049313`,
				`sglang:func_latency_seconds_count{name="generate_request"} 14007.0`,
				`sglang:num_running_reqs{model_name="org/m"} 162.0`,
				`sglang:num_used_tokens{model_name="org/m"} 123859.0`,
				`sglang:num_queue_reqs{model_name="org/m"} 2826.0`,
			),
			want: one(metrics.Snapshot{
				Model: "org/m", Running: num(162), Waiting: num(2826), KVUsage: num(0.28),
				PrefixQueries: num(8128902), PromptTokens: num(8128902), GenerationTokens: num(7557572),
			}),
		},
		{
			name: "September 2026, as recorded: pages, pools, an aggregate beside priorities, and two tensor ranks",
			page: page(
				`sglang:max_total_num_tokens{engine_type="unified",model_name="m",priority="",tp_rank="0"} 1041408`,
				`sglang:max_total_num_tokens{engine_type="unified",model_name="m",priority="",tp_rank="1"} 1041408`,
				`sglang:page_size{engine_type="unified",model_name="m",priority="",tp_rank="0"} 16`,
				`sglang:page_size{engine_type="unified",model_name="m",priority="",tp_rank="1"} 16`,
				`sglang:num_pages{engine_type="unified",model_name="m",priority="",tp_rank="0"} 65088`,
				`sglang:kv_available_tokens{engine_type="unified",model_name="m",priority="",tp_rank="0"} 300000`,
				`sglang:num_running_reqs{engine_type="unified",model_name="m",priority="",tp_rank="0"} 3`,
				`sglang:num_running_reqs{engine_type="unified",model_name="m",priority="10",tp_rank="0"} 2`,
				`sglang:num_running_reqs{engine_type="unified",model_name="m",priority="-9223372036854775808",tp_rank="0"} 1`,
				`sglang:num_retracted_reqs{engine_type="unified",model_name="m",priority="",tp_rank="0"} 7`,
				`sglang:realtime_tokens_total{engine_type="unified",mode="prefill_compute",model_name="m",tp_rank="0"} 971400`,
				`sglang:realtime_tokens_total{engine_type="unified",mode="prefill_cache",model_name="m",tp_rank="0"} 3829888`,
				`sglang:realtime_tokens_total{engine_type="unified",mode="decode",model_name="m",tp_rank="0"} 156755`,
				`sglang:prompt_tokens_total{engine_type="unified",is_streaming="true",model_name="m"} 4668037`,
				`sglang:generation_tokens_total{engine_type="unified",is_streaming="true",model_name="m"} 147139`,
				`sglang:cached_tokens_total{cache_source="total",engine_type="unified",model_name="m"} 3829888`,
			),
			want: one(metrics.Snapshot{
				Model: "m", Running: num(3), KVTokens: num(1041408), BlockTokens: num(16),
				PrefixQueries: num(4668037), PrefixHits: num(3829888), PromptTokens: num(4668037), GenerationTokens: num(147139),
			}),
		},
		{
			name: "nothing has run yet",
			page: page(
				`sglang:max_total_num_tokens{engine_type="unified",model_name="m"} 100000`,
				`sglang:page_size{engine_type="unified",model_name="m"} 1`,
				`sglang:num_pages{engine_type="unified",model_name="m"} 100000`,
			),
			want: one(metrics.Snapshot{Model: "m", KVTokens: num(100000), BlockTokens: num(1)}),
		},
		{
			name: "data parallel ranks with two tensor ranks each, priorities, counts of the front end",
			page: page(
				`sglang:num_running_reqs{dp_rank="1",model_name="m",priority="",tp_rank="3"} 99.0`,
				`sglang:num_running_reqs{dp_rank="1",model_name="m",priority="",tp_rank="2"} 5.0`,
				`sglang:num_running_reqs{dp_rank="0",model_name="m",priority="",tp_rank="0"} 2.0`,
				`sglang:num_running_reqs{dp_rank="0",model_name="m",priority="",tp_rank="1"} 2.0`,
				`sglang:num_running_reqs{dp_rank="0",model_name="m",priority="7",tp_rank="0"} 1.0`,
				`sglang:cuda_graph_passes_total{dp_rank="0",mode="decode_none",model_name="m",tp_rank="1"} 10.0`,
				`sglang:cuda_graph_passes_total{dp_rank="0",mode="decode_none",model_name="m",tp_rank="0"} 10.0`,
				`sglang:cuda_graph_passes_total{dp_rank="0",mode="prefill_none",model_name="m",tp_rank="1"} 4.0`,
				`sglang:cuda_graph_passes_total{dp_rank="0",mode="prefill_none",model_name="m",tp_rank="0"} 4.0`,
				`sglang:realtime_tokens_total{dp_rank="0",mode="prefill_compute",model_name="m",tp_rank="0"} 600.0`,
				`sglang:realtime_tokens_total{dp_rank="0",mode="prefill_cache",model_name="m",tp_rank="0"} 400.0`,
				`sglang:realtime_tokens_total{dp_rank="0",mode="decode",model_name="m",tp_rank="0"} 50.0`,
				`sglang:realtime_tokens_total{dp_rank="1",mode="prefill_compute",model_name="m",tp_rank="2"} 70.0`,
				`sglang:prompt_tokens_total{is_streaming="true",model_name="m"} 1070.0`,
				`sglang:cached_tokens_total{cache_source="device",model_name="m"} 400.0`,
				`sglang:num_requests_total{is_streaming="true",model_name="m"} 12.0`,
			),
			want: metrics.Page{RankHeader: true, Engines: []metrics.Snapshot{
				{
					Engine: "0", Model: "m", Running: num(2), PrefixQueries: num(1000), PrefixHits: num(400),
					PromptTokens: num(1000), GenerationTokens: num(50), Steps: num(14),
				},
				{Engine: "1", Model: "m", Running: num(5), PrefixQueries: num(70), PromptTokens: num(70)},
			}},
		},
		{
			name: "pipeline ranks go before tensor ranks",
			page: page(
				`sglang:num_running_reqs{pp_rank="1",tp_rank="0"} 9`,
				`sglang:num_running_reqs{pp_rank="0",tp_rank="1"} 8`,
				`sglang:num_running_reqs{pp_rank="0",tp_rank="0"} 7`,
				`sglang:num_running_reqs{pp_rank="0",tp_rank="x"} 6`,
			),
			want: one(metrics.Snapshot{Running: num(6)}),
		},
		{
			name: "nothing cached yet",
			page: page(`sglang:prompt_tokens_total{is_streaming="true",model_name="m"} 30`),
			want: one(metrics.Snapshot{Model: "m", PrefixQueries: num(30), PromptTokens: num(30)}),
		},
		{
			name: "values that make no sense",
			page: page(`sglang:token_usage NaN`, `sglang:num_queue_reqs -1`, `sglang:num_running_reqs 1`, `sglang:num_running_reqs Inf`),
			want: one(metrics.Snapshot{Running: num(1)}),
		},
		{
			name: "nobody's",
			page: page(`sglangx:num_running_reqs 1`, `sglang 1`, `num_running_reqs 1`, `sglang:weight_memory_usage_gb 1`),
		},
	})
}
