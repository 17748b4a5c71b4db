package metrics

// TensorRTLLM reads the page of TensorRT-LLM's own server, trtllm-serve. Its
// /metrics is JSON, the page is at /prometheus/metrics; where Dynamo passes it
// on it is at /metrics, in older versions with the prefix "trtllm:".
//
//   - Load, cache and limits need enable_iter_perf_stats, the token counts and
//     RequestsFinished need return_perf_metrics.
//   - MaxNumSeqs is max_num_active_requests, else max_batch_size_runtime.
//   - KVTokens is kv_cache_max_blocks*kv_cache_tokens_per_block, BlockTokens the
//     latter.
//   - The prefix counts are prompt_cached_tokens_total out of
//     prompt_tokens_total. Versions without the former have only
//     kv_cache_reused_blocks_total and kv_cache_missed_blocks_total, which are
//     multiplied by the tokens of a block.
//   - There is no count of steps and no restart mark.
//
// Source: tensorrt_llm/metrics/collector.py.
func TensorRTLLM() Dialect { return tensorrtLLM{} }

type tensorrtLLM struct{}

func (tensorrtLLM) Name() string    { return "tensorrt-llm" }
func (tensorrtLLM) Paths() []string { return []string{"/prometheus/metrics", "/metrics"} }

const (
	trtRunning series = iota + 1
	trtWaiting
	trtMaxActive
	trtMaxBatch
	trtUsage
	trtMaxBlocks
	trtBlockTokens
	trtReused
	trtMissed
	trtCached
	trtPrompt
	trtGeneration
	trtFinished
)

func tensorrtLLMSeriesOf(name []byte) series {
	switch string(shortName(name, "trtllm")) {
	case "num_requests_running":
		return trtRunning
	case "num_requests_waiting":
		return trtWaiting
	case "max_num_active_requests":
		return trtMaxActive
	case "max_batch_size_runtime":
		return trtMaxBatch
	case "kv_cache_utilization":
		return trtUsage
	case "kv_cache_max_blocks":
		return trtMaxBlocks
	case "kv_cache_tokens_per_block":
		return trtBlockTokens
	case "kv_cache_reused_blocks_total":
		return trtReused
	case "kv_cache_missed_blocks_total":
		return trtMissed
	case "prompt_cached_tokens_total":
		return trtCached
	case "prompt_tokens_total":
		return trtPrompt
	case "generation_tokens_total":
		return trtGeneration
	case "request_success_total":
		return trtFinished
	}
	return otherSeries
}

// Parse implements [Dialect].
func (tensorrtLLM) Parse(page []byte) (Page, error) {
	var (
		parser                               lineParser
		s                                    Snapshot
		seen                                 bool
		maxBatch, blocks, blockTokens, cache Number
		reused, missed                       Number
	)
	for id, line := range parser.samples(page, tensorrtLLMSeriesOf) {
		seen = true
		setName(&s.Model, line.label("model_name"))
		n := nonNegative(line.value)
		switch id {
		case trtRunning:
			replace(&s.Running, n)
		case trtWaiting:
			replace(&s.Waiting, n)
		case trtMaxActive:
			replace(&s.MaxNumSeqs, n)
		case trtMaxBatch:
			replace(&maxBatch, n)
		case trtUsage:
			replace(&s.KVUsage, fraction(line.value))
		case trtMaxBlocks:
			replace(&blocks, n)
		case trtBlockTokens:
			replace(&blockTokens, n)
		case trtReused:
			replace(&reused, n)
		case trtMissed:
			replace(&missed, n)
		case trtCached:
			replace(&cache, n)
		case trtPrompt:
			replace(&s.PromptTokens, n)
		case trtGeneration:
			replace(&s.GenerationTokens, n)
		case trtFinished:
			add(&s.RequestsFinished, n)
		}
	}
	if !seen {
		return Page{}, parser.err()
	}
	if !s.MaxNumSeqs.OK {
		s.MaxNumSeqs = maxBatch
	}
	s.KVTokens, s.BlockTokens = product(blocks, blockTokens), blockTokens
	switch {
	case cache.OK:
		s.PrefixQueries, s.PrefixHits = s.PromptTokens, cache
	case reused.OK:
		looked := reused
		add(&looked, missed)
		s.PrefixQueries, s.PrefixHits = product(looked, blockTokens), product(reused, blockTokens)
	}
	return Page{Engines: []Snapshot{s}}, parser.err()
}
