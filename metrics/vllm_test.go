package metrics_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

func TestVLLMFixtures(t *testing.T) {
	zero := num(0)
	tests := []struct {
		file string
		want []metrics.Snapshot
	}{
		{"vllm-0.26.0-1rank.txt", []metrics.Snapshot{{
			Engine: "0", Model: "tiny",
			Running: zero, Waiting: zero, WaitingForCapacity: zero, KVUsage: zero,
			PrefixQueries: num(30750), PrefixHits: num(25600), KVTokens: num(256000),
			Steps: num(96), Started: num(1795954794.63),
		}}},
		// Several API processes: no process_start_time_seconds, no _created.
		{"vllm-0.26.0-4rank-busy.txt", []metrics.Snapshot{
			{
				Engine: "0", Model: "tiny",
				Running: num(4), Waiting: num(12), WaitingForCapacity: num(12), KVUsage: num(0.9273182957393484),
				PrefixQueries: num(51556), PrefixHits: num(1664), KVTokens: num(51200), Steps: num(41),
			},
			{
				Engine: "1", Model: "tiny",
				Running: zero, Waiting: zero, WaitingForCapacity: zero, KVUsage: zero,
				PrefixQueries: num(6942), PrefixHits: num(4992), KVTokens: num(51200), Steps: num(56),
			},
			{
				Engine: "2", Model: "tiny",
				Running: zero, Waiting: zero, WaitingForCapacity: zero, KVUsage: zero,
				PrefixQueries: num(6928), PrefixHits: num(4992), KVTokens: num(51200), Steps: num(48),
			},
			{
				Engine: "3", Model: "tiny",
				Running: zero, Waiting: zero, WaitingForCapacity: zero, KVUsage: zero,
				PrefixQueries: num(17276), PrefixHits: num(14976), KVTokens: num(51200), Steps: num(136),
			},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			got, err := metrics.VLLM().Parse(fixture(t, tt.file))
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestVLLMVersions(t *testing.T) {
	tests := []struct {
		name string
		page string
		want []metrics.Snapshot
	}{
		{
			name: "0.8.5",
			page: page(
				`process_start_time_seconds 1.7e+09`,
				`vllm:num_requests_running{engine="0",model_name="m"} 2.0`,
				`vllm:num_requests_waiting{engine="0",model_name="m"} 1.0`,
				`vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.25`,
				`vllm:gpu_prefix_cache_queries_total{engine="0",model_name="m"} 70.0`,
				`vllm:gpu_prefix_cache_hits_total{engine="0",model_name="m"} 30.0`,
				`vllm:iteration_tokens_total_sum{engine="0",model_name="m"} 9999.0`,
				`vllm:iteration_tokens_total_count{engine="0",model_name="m"} 12.0`,
				`vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="1000"} 1.0`,
			),
			want: []metrics.Snapshot{{
				Engine: "0", Model: "m", Running: num(2), Waiting: num(1), KVUsage: num(0.25),
				PrefixQueries: num(70), PrefixHits: num(30), KVTokens: num(16000), Steps: num(12), Started: num(1.7e9),
			}},
		},
		{
			name: "0.9: old and new names side by side, the new ones count",
			page: page(
				`vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5`,
				`vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.25`,
				`vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1600.0`,
				`vllm:gpu_prefix_cache_queries_total{engine="0",model_name="m"} 100.0`,
				`vllm:prefix_cache_hits_total{engine="0",model_name="m"} 800.0`,
				`vllm:gpu_prefix_cache_hits_total{engine="0",model_name="m"} 50.0`,
			),
			want: []metrics.Snapshot{{
				Engine: "0", Model: "m", KVUsage: num(0.5), PrefixQueries: num(1600), PrefixHits: num(800),
			}},
		},
		{
			name: "0.12: two ranks share num_gpu_blocks, counters without _total",
			page: page(
				`vllm:num_requests_running{engine="1",model_name="m"} 7`,
				`vllm:num_requests_running{engine="0",model_name="m"} 3`,
				`vllm:prefix_cache_queries{engine="1",model_name="m"} 20`,
				`vllm:prefix_cache_hits{engine="1",model_name="m"} 10`,
				`vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="2001"} 1.0`,
				`vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="2001"} 1.0`,
			),
			want: []metrics.Snapshot{
				{Engine: "0", Model: "m", Running: num(3), KVTokens: num(16000)},
				{Engine: "1", Model: "m", Running: num(7), PrefixQueries: num(20), PrefixHits: num(10), KVTokens: num(16000)},
			},
		},
		{
			name: "0.26: capacity per engine, waiting by reason",
			page: page(
				`vllm:num_requests_waiting{engine="0",model_name="m"} 5`,
				`vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 3`,
				`vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="deferred"} 2`,
				`vllm:cache_config_info{block_size="128",engine="0",kv_cache_size_tokens="51200",num_gpu_blocks="1600"} 1`,
			),
			want: []metrics.Snapshot{{
				Engine: "0", Model: "m", Waiting: num(5), WaitingForCapacity: num(3), KVTokens: num(51200),
			}},
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
			want: []metrics.Snapshot{{Engine: "0", Model: "m", Running: num(0), Started: num(1.4e9)}},
		},
		{
			name: "the process's start goes before _created",
			page: page(
				`vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.5e+09`,
				`vllm:num_requests_running{engine="0",model_name="m"} 0`,
				`process_start_time_seconds 1.7e+09`,
			),
			want: []metrics.Snapshot{{Engine: "0", Model: "m", Running: num(0), Started: num(1.7e9)}},
		},
		{
			name: "Ray Serve",
			page: page(
				`ray_vllm_num_requests_running{engine="0",model_name="m",ReplicaId="x"} 4`,
				`ray_vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5`,
				`vllm_num_requests_waiting{engine="0",model_name="m"} 1`,
				`vllmx_num_requests_waiting{engine="0",model_name="m"} 9`,
			),
			want: []metrics.Snapshot{{Engine: "0", Model: "m", Running: num(4), Waiting: num(1), KVUsage: num(0.5)}},
		},
		{
			name: "no engine label",
			page: page(`vllm:num_requests_running{model_name="m"} 4`),
			want: []metrics.Snapshot{{Model: "m", Running: num(4)}},
		},
		{
			name: "engines sorted as numbers, then as texts",
			page: page(
				`vllm:num_requests_running{engine="b"} 1`,
				`vllm:num_requests_running{engine="10"} 1`,
				`vllm:num_requests_running{engine="a"} 1`,
				`vllm:num_requests_running{engine="9"} 1`,
			),
			want: []metrics.Snapshot{
				{Engine: "9", Running: num(1)}, {Engine: "10", Running: num(1)},
				{Engine: "a", Running: num(1)}, {Engine: "b", Running: num(1)},
			},
		},
		{
			name: "no log stats: no engine series",
			page: page(`process_start_time_seconds 1.7e+09`, `python_info{version="3.11.7"} 1.0`),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := metrics.VLLM().Parse([]byte(tt.page))
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestVLLMValues(t *testing.T) {
	const (
		running = `vllm:num_requests_running{engine="0"} `
		usage   = `vllm:kv_cache_usage_perc{engine="0"} `
		config  = `vllm:cache_config_info{engine="0",`
	)
	tests := []struct {
		name string
		page string
		want metrics.Snapshot
	}{
		{"usage NaN", page(usage + "NaN"), metrics.Snapshot{}},
		{"usage +Inf", page(usage + "+Inf"), metrics.Snapshot{}},
		{"usage -Inf", page(usage + "-Inf"), metrics.Snapshot{}},
		{"usage above 1", page(usage + "1.25"), metrics.Snapshot{KVUsage: num(1)}},
		{"usage below 0", page(usage + "-0.25"), metrics.Snapshot{KVUsage: num(0)}},
		{"usage NaN, old name good", page(usage+"NaN", `vllm:gpu_cache_usage_perc{engine="0"} 0.5`), metrics.Snapshot{KVUsage: num(0.5)}},
		{"running NaN", page(running + "NaN"), metrics.Snapshot{}},
		{"running infinite", page(running + "Inf"), metrics.Snapshot{}},
		{"running negative", page(running + "-1"), metrics.Snapshot{}},
		{"running zero is there", page(running + "0"), metrics.Snapshot{Running: num(0)}},
		{"twice: the last counts", page(running+"1", running+"2"), metrics.Snapshot{Running: num(2)}},
		{"twice, with other labels", page(`vllm:num_requests_running{engine="0",model_name="a"} 1`,
			`vllm:num_requests_running{engine="0",model_name="b"} 2`), metrics.Snapshot{Model: "b", Running: num(2)}},
		{"blocks None", page(config + `block_size="16",num_gpu_blocks="None"} 1`), metrics.Snapshot{}},
		{"blocks zero", page(config + `block_size="16",num_gpu_blocks="0"} 1`), metrics.Snapshot{}},
		{"blocks negative", page(config + `block_size="16",num_gpu_blocks="-5"} 1`), metrics.Snapshot{}},
		{"block size None", page(config + `block_size="None",num_gpu_blocks="100"} 1`), metrics.Snapshot{}},
		{"no block size", page(config + `num_gpu_blocks="100"} 1`), metrics.Snapshot{}},
		{"size None, blocks good", page(config + `block_size="16",kv_cache_size_tokens="None",num_gpu_blocks="100"} 1`),
			metrics.Snapshot{KVTokens: num(1600)}},
		{"size NaN", page(config + `kv_cache_size_tokens="NaN"} 1`), metrics.Snapshot{}},
		{"product overflows", page(config + `block_size="1e300",num_gpu_blocks="1e300"} 1`), metrics.Snapshot{}},
		{"one prefix counter under the new name only", page(
			`vllm:prefix_cache_queries_total{engine="0"} 10`, `vllm:gpu_prefix_cache_hits_total{engine="0"} 90`),
			metrics.Snapshot{PrefixQueries: num(10)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := metrics.VLLM().Parse([]byte(tt.page))
			require.NoError(t, err)
			tt.want.Engine = "0"
			assert.Equal(t, []metrics.Snapshot{tt.want}, got)
		})
	}
}

func TestVLLMNames(t *testing.T) {
	assert.Equal(t, "vllm", metrics.VLLM().Name())
	assert.Equal(t, "/metrics", metrics.VLLM().Path())
}
