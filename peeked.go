package warmroute

import "strconv"

// maxTokens is the limit that the request sets to its answer, as far as the body
// was read for something else: 0 if none was seen. vLLM (0.33) takes
// max_completion_tokens before max_tokens where both are given.
func (in *inspection) maxTokens(api string) int {
	if in.fields == nil || api == "" {
		return 0
	}
	name, instead := "max_tokens", ""
	switch api {
	case "/v1/chat/completions":
		name, instead = "max_completion_tokens", "max_tokens"
	case "/v1/responses":
		name = "max_output_tokens"
	}
	written := in.fields.Raw(name)
	if written == "" && instead != "" {
		written = in.fields.Raw(instead)
	}
	n, err := strconv.Atoi(written)
	if err != nil {
		return 0 // what the engine refuses, it refuses
	}
	return max(0, n)
}
