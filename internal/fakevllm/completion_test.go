package fakevllm_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCompletion(t *testing.T) {
	cfg := fast()
	cfg.Ranks = 1
	s := start(t, cfg)
	status, body := post(t, s, ask{path: "/v1/completions", body: `{"model":"sim","prompt":"` + forty + `","max_tokens":2}`})
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, `{"id":"cmpl-ID","object":"text_completion","created":0,"model":"sim","choices":[{"index":0,"text":"words","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null}],"service_tier":null,"system_fingerprint":"vllm-0.26.0-HASH","usage":{"prompt_tokens":40,"total_tokens":42,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":null,"multimodal_tokens":null}},"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}`, masked(body))

	_, body = post(t, s, ask{path: "/v1/completions", body: `{"prompt":["` + forty + `and more"],"max_tokens":1}`})
	assert.Contains(t, body, `"prompt_tokens":42`)
	assert.Contains(t, body, `"cached_tokens":32`)

	_, body = post(t, s, ask{path: "/v1/completions", body: `{"prompt":[1,2,3],"max_tokens":1}`})
	assert.Contains(t, body, `"prompt_tokens":3,`)
	_, body = post(t, s, ask{path: "/v1/completions", body: `{"prompt":[[1,2,3,4]],"max_tokens":1}`})
	assert.Contains(t, body, `"prompt_tokens":4,`)
}

func TestCompletionStream(t *testing.T) {
	const head = `data: {"id":"cmpl-ID","object":"text_completion","created":0,"model":"sim","choices":[`
	cfg := fast()
	cfg.Ranks = 1
	s := start(t, cfg)
	_, body := post(t, s, ask{path: "/v1/completions", body: `{"prompt":"` + forty + `","max_tokens":2,"stream":true}`})
	assert.Equal(t, lines(
		head+`{"index":0,"text":"words","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}`, "",
		head+`{"index":0,"text":"words","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}],"system_fingerprint":"vllm-0.26.0-HASH"}`, "",
		`data: [DONE]`, "",
	), masked(body))

	_, body = post(t, s, ask{path: "/v1/completions", body: `{"prompt":"` + forty + `","max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}`})
	assert.Equal(t, lines(
		head+`{"index":0,"text":"words","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}`, "",
		head+`],"usage":{"prompt_tokens":40,"total_tokens":41,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":32}},"system_fingerprint":"vllm-0.26.0-HASH"}`, "",
		`data: [DONE]`, "",
	), masked(body))
}
