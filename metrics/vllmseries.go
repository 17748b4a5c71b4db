package metrics

import "bytes"

// The series that are read of vLLM, and of NIM, which shows them without their
// prefix.
const (
	vllmRunning series = iota + 1
	vllmWaiting
	vllmWaitingByReason
	vllmKVUsage
	vllmKVUsageOld
	vllmPrefixQueries
	vllmPrefixQueriesOld
	vllmPrefixHits
	vllmPrefixHitsOld
	vllmPromptTokens
	vllmGenerationTokens
	vllmPreemptions
	vllmFinished
	vllmSteps
	vllmSleepState
	vllmCacheConfig
	vllmLoRA
	vllmCreated
	vllmProcessStart
	nimRequestMax
	nimFinished
)

// vllmSeriesOf tells from its name which series a line belongs to. It runs for
// every line of a page and does not allocate.
func vllmSeriesOf(name []byte) series {
	if short := shortName(bytes.TrimPrefix(name, []byte("ray_")), "vllm"); short != nil {
		if id := vllmShortName(short); id != otherSeries {
			return id
		}
		if bytes.HasSuffix(short, []byte("_created")) {
			return vllmCreated
		}
		return otherSeries
	}
	switch string(name) {
	case "process_start_time_seconds":
		return vllmProcessStart
	case "num_request_max": // a NIM's, beside vLLM's own series
		return nimRequestMax
	}
	return otherSeries
}

// vllmShortName is vllmSeriesOf for a name without its prefix.
func vllmShortName(name []byte) series {
	switch string(name) {
	case "num_requests_running":
		return vllmRunning
	case "num_requests_waiting":
		return vllmWaiting
	case "num_requests_waiting_by_reason":
		return vllmWaitingByReason
	case "kv_cache_usage_perc":
		return vllmKVUsage
	case "gpu_cache_usage_perc":
		return vllmKVUsageOld
	case "prefix_cache_queries_total", "prefix_cache_queries":
		return vllmPrefixQueries
	case "gpu_prefix_cache_queries_total", "gpu_prefix_cache_queries":
		return vllmPrefixQueriesOld
	case "prefix_cache_hits_total", "prefix_cache_hits":
		return vllmPrefixHits
	case "gpu_prefix_cache_hits_total", "gpu_prefix_cache_hits":
		return vllmPrefixHitsOld
	case "prompt_tokens_total", "prompt_tokens":
		return vllmPromptTokens
	case "generation_tokens_total", "generation_tokens":
		return vllmGenerationTokens
	case "num_preemptions_total", "num_preemptions":
		return vllmPreemptions
	case "request_success_total", "request_success":
		return vllmFinished
	case "iteration_tokens_total_count": // a histogram, its name ends in _total
		return vllmSteps
	case "engine_sleep_state":
		return vllmSleepState
	case "cache_config_info":
		return vllmCacheConfig
	case "lora_requests_info":
		return vllmLoRA
	}
	return otherSeries
}
