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
			PrefixQueries: num(30750), PrefixHits: num(25600), KVTokens: num(256000), BlockTokens: num(128),
			PromptTokens: num(30750), GenerationTokens: num(96), Preemptions: zero, RequestsFinished: num(6),
			Steps: num(96), Started: num(1795954794.63),
		}}},
		// Several API processes: no process_start_time_seconds, no _created.
		{"vllm-0.26.0-4rank-busy.txt", []metrics.Snapshot{
			{
				Engine: "0", Model: "tiny",
				Running: num(4), Waiting: num(12), WaitingForCapacity: num(12), KVUsage: num(0.9273182957393484),
				PrefixQueries: num(51556), PrefixHits: num(1664), KVTokens: num(51200), BlockTokens: num(128),
				PromptTokens: num(41033), GenerationTokens: num(56), Preemptions: zero, RequestsFinished: num(3), Steps: num(41),
			},
			{
				Engine: "1", Model: "tiny",
				Running: zero, Waiting: zero, WaitingForCapacity: zero, KVUsage: zero,
				PrefixQueries: num(6942), PrefixHits: num(4992), KVTokens: num(51200), BlockTokens: num(128),
				PromptTokens: num(6942), GenerationTokens: num(56), Preemptions: zero, RequestsFinished: num(7), Steps: num(56),
			},
			{
				Engine: "2", Model: "tiny",
				Running: zero, Waiting: zero, WaitingForCapacity: zero, KVUsage: zero,
				PrefixQueries: num(6928), PrefixHits: num(4992), KVTokens: num(51200), BlockTokens: num(128),
				PromptTokens: num(6928), GenerationTokens: num(48), Preemptions: zero, RequestsFinished: num(6), Steps: num(48),
			},
			{
				Engine: "3", Model: "tiny",
				Running: zero, Waiting: zero, WaitingForCapacity: zero, KVUsage: zero,
				PrefixQueries: num(17276), PrefixHits: num(14976), KVTokens: num(51200), BlockTokens: num(128),
				PromptTokens: num(17276), GenerationTokens: num(136), Preemptions: zero, RequestsFinished: num(17), Steps: num(136),
			},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			got, err := metrics.VLLM().Parse(fixture(t, tt.file))
			require.NoError(t, err)
			assert.Equal(t, metrics.Page{Engines: tt.want, RankHeader: true}, got)
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
		{"blocks None", page(config + `block_size="16",num_gpu_blocks="None"} 1`), metrics.Snapshot{BlockTokens: num(16)}},
		{"blocks zero", page(config + `block_size="16",num_gpu_blocks="0"} 1`), metrics.Snapshot{BlockTokens: num(16)}},
		{"blocks negative", page(config + `block_size="16",num_gpu_blocks="-5"} 1`), metrics.Snapshot{BlockTokens: num(16)}},
		{"block size None", page(config + `block_size="None",num_gpu_blocks="100"} 1`), metrics.Snapshot{}},
		{"no block size", page(config + `num_gpu_blocks="100"} 1`), metrics.Snapshot{}},
		{"size None, blocks good", page(config + `block_size="16",kv_cache_size_tokens="None",num_gpu_blocks="100"} 1`),
			metrics.Snapshot{KVTokens: num(1600), BlockTokens: num(16)}},
		{"size NaN", page(config + `kv_cache_size_tokens="NaN"} 1`), metrics.Snapshot{}},
		{"product overflows", page(config + `block_size="1e300",num_gpu_blocks="1e300"} 1`), metrics.Snapshot{BlockTokens: num(1e300)}},
		{"blocks of 0.8.5 without a size", page(`vllm:gpu_prefix_cache_queries_total{engine="0"} 10`, config+`block_size="None"} 1`), metrics.Snapshot{}},
		{"asleep only by a number", page(`vllm:engine_sleep_state{engine="0",sleep_state="awake"} NaN`,
			`vllm:engine_sleep_state{engine="0",sleep_state="discard_all"} 0`), metrics.Snapshot{}},
		{"awake again", page(`vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0`,
			`vllm:engine_sleep_state{engine="0",sleep_state="awake"} 1`), metrics.Snapshot{}},
		{"a reason that is not finite", page(`vllm:request_success_total{engine="0",finished_reason="stop"} 2`,
			`vllm:request_success_total{engine="0",finished_reason="abort"} NaN`), metrics.Snapshot{RequestsFinished: num(2)}},
		{"one prefix counter under the new name only", page(
			`vllm:prefix_cache_queries_total{engine="0"} 10`, `vllm:gpu_prefix_cache_hits_total{engine="0"} 90`),
			metrics.Snapshot{PrefixQueries: num(10)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := metrics.VLLM().Parse([]byte(tt.page))
			require.NoError(t, err)
			tt.want.Engine = "0"
			assert.Equal(t, []metrics.Snapshot{tt.want}, got.Engines)
		})
	}
}

func TestVLLMNames(t *testing.T) {
	assert.Equal(t, "vllm", metrics.VLLM().Name())
	assert.Equal(t, []string{"/metrics"}, metrics.VLLM().Paths())
}
