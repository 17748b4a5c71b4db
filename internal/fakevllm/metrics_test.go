package fakevllm_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

// scrape returns every sample of the metrics page by its series.
func scrape(t *testing.T, s *fakevllm.Server) map[string]float64 {
	t.Helper()
	resp, body := get(t, s, "/metrics")
	assert.Equal(t, "text/plain; version=1.0.0; charset=utf-8", resp.Header.Get("Content-Type"))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	_, err := parser.TextToMetricFamilies(strings.NewReader(body))
	require.NoError(t, err)
	got := make(map[string]float64)
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		require.NoError(t, err)
		require.NotContains(t, got, line[:at])
		got[line[:at]] = v
	}
	return got
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{Ranks: 2, Blocks: 101, MaxNumSeqs: 1})
		for range 2 {
			post(t, s, ask{rank: "1", body: `{` + fortyMessages + `,"max_tokens":2}`})
		}
		stream(t, s, ask{rank: "1", body: `{"stream":true,` + fortyMessages + `,"max_tokens":1000}`})
		time.Sleep(100 * time.Millisecond)
		stream(t, s, ask{rank: "1", body: `{"stream":true,` + fortyMessages + `,"max_tokens":1000}`})
		time.Sleep(100 * time.Millisecond)

		got := scrape(t, s)
		c := s.Rank(1)
		const rank = `{engine="1",model_name="sim"}`
		want := map[string]float64{
			"vllm:num_requests_running" + rank:                                                         1,
			"vllm:num_requests_waiting" + rank:                                                         1,
			`vllm:num_requests_waiting_by_reason{engine="1",model_name="sim",reason="capacity"}`:       1,
			`vllm:num_requests_waiting_by_reason{engine="1",model_name="sim",reason="deferred"}`:       0,
			`vllm:engine_sleep_state{engine="1",model_name="sim",sleep_state="awake"}`:                 1,
			`vllm:engine_sleep_state{engine="1",model_name="sim",sleep_state="discard_all"}`:           0,
			"vllm:kv_cache_usage_perc" + rank:                                                          0.04,
			"vllm:prefix_cache_queries_total" + rank:                                                   3 * 49,
			"vllm:prefix_cache_hits_total" + rank:                                                      2 * 48,
			"vllm:prompt_tokens_total" + rank:                                                          3 * 49,
			"vllm:prompt_tokens_cached_total" + rank:                                                   2 * 48,
			`vllm:prompt_tokens_by_source_total{engine="1",model_name="sim",source="local_compute"}`:   49 + 2,
			"vllm:generation_tokens_total" + rank:                                                      float64(c.GenerationTokens),
			"vllm:num_preemptions_total" + rank:                                                        0,
			`vllm:request_success_total{engine="1",finished_reason="length",model_name="sim"}`:         2,
			`vllm:request_success_total{engine="1",finished_reason="abort",model_name="sim"}`:          0,
			"vllm:iteration_tokens_total_count" + rank:                                                 float64(c.GenerationTokens),
			"vllm:iteration_tokens_total_sum" + rank:                                                   float64(49 + 2 + c.GenerationTokens),
			`vllm:iteration_tokens_total_bucket{engine="1",le="1.0",model_name="sim"}`:                 float64(c.GenerationTokens - 3),
			`vllm:iteration_tokens_total_bucket{engine="1",le="8.0",model_name="sim"}`:                 float64(c.GenerationTokens - 1),
			`vllm:iteration_tokens_total_bucket{engine="1",le="+Inf",model_name="sim"}`:                float64(c.GenerationTokens),
			"vllm:time_to_first_token_seconds_count" + rank:                                            3,
			`vllm:time_to_first_token_seconds_bucket{engine="1",le="0.02",model_name="sim"}`:           0,
			`vllm:time_to_first_token_seconds_bucket{engine="1",le="0.04",model_name="sim"}`:           2,
			`vllm:time_to_first_token_seconds_bucket{engine="1",le="0.06",model_name="sim"}`:           3,
			`vllm:num_requests_running{engine="0",model_name="sim"}`:                                   0,
			`vllm:time_to_first_token_seconds_bucket{engine="0",le="2560.0",model_name="sim"}`:         0,
			`vllm:request_success_total{engine="0",finished_reason="repetition",model_name="sim"}`:     0,
			`vllm:prompt_tokens_by_source_total{engine="0",model_name="sim",source="local_cache_hit"}`: 0,
			`vllm:engine_sleep_state{engine="0",model_name="sim",sleep_state="weights_offloaded"}`:     0,
			`process_start_time_seconds`:                                                               946684800,
		}
		for name, value := range want {
			require.Contains(t, got, name)
			assert.InDelta(t, value, got[name], 1e-9, name)
		}
		info := 0
		for name := range got {
			if strings.HasPrefix(name, "vllm:cache_config_info{") {
				info++
				assert.Contains(t, name, `block_size="16"`)
				assert.Contains(t, name, `num_gpu_blocks="202"`, "the sum over the ranks")
				assert.Contains(t, name, `kv_cache_size_tokens="1616"`, "of one rank")
			}
		}
		assert.Equal(t, 2, info)
	})
}

func TestMetricsPageLayout(t *testing.T) {
	s := start(t, fakevllm.Config{Ranks: 2, Model: `o"dd\`})
	_, body := get(t, s, "/metrics")
	assert.Contains(t, body, lines(
		"# HELP vllm:num_requests_running Number of requests in model execution batches.",
		"# TYPE vllm:num_requests_running gauge",
		`vllm:num_requests_running{engine="0",model_name="o\"dd\\"} 0.0`,
		`vllm:num_requests_running{engine="1",model_name="o\"dd\\"} 0.0`,
	))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	require.NoError(t, err)
	assert.Len(t, families["vllm:iteration_tokens_total"].GetMetric(), 2)
	assert.Len(t, families["vllm:iteration_tokens_total"].GetMetric()[0].GetHistogram().GetBucket(), 14)
	assert.Len(t, families["vllm:time_to_first_token_seconds"].GetMetric()[0].GetHistogram().GetBucket(), 23)
}

func TestMetricsWithoutLogStats(t *testing.T) {
	s := start(t, fakevllm.Config{DisableLogStats: true})
	got := scrape(t, s)
	assert.Len(t, got, 1)
	assert.Contains(t, got, "process_start_time_seconds")
}
