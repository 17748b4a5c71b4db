package askusage_test

// The last two events of a chat stream of vLLM 0.26.
const (
	usageEvent = `data: {"id":"chatcmpl-ac160fad3676a706","object":"chat.completion.chunk","created":1795954916,"model":"tiny","choices":[],` +
		`"usage":{"prompt_tokens":5125,"total_tokens":5141,"completion_tokens":16,"prompt_tokens_details":{"cached_tokens":5120,"created_cache_tokens":0}},` +
		`"system_fingerprint":"vllm-0.26.0-afc1d3e5"}` + "\n\n"
	doneEvent = "data: [DONE]\n\n"
)
