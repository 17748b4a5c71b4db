package fakevllm_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMessages(t *testing.T) {
	cfg := fast()
	cfg.Ranks = 1
	s := start(t, cfg)
	ask := ask{path: "/v1/messages", body: `{"model":"sim",` + fortyMessages + `,"max_tokens":2}`}
	const want = `{"id":"chatcmpl-ID","type":"message","role":"assistant","content":[{"type":"text","text":"words"}],"model":"sim","stop_reason":"max_tokens","usage":`
	status, body := post(t, s, ask)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, want+`{"input_tokens":49,"output_tokens":2,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}`, masked(body))
	_, body = post(t, s, ask)
	assert.Equal(t, want+`{"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":0,"cache_read_input_tokens":48}}`, masked(body))

	cfg.NoUsageDetails, cfg.AnswerTokens = true, 1
	_, body = post(t, start(t, cfg), ask)
	assert.Contains(t, body, `"stop_reason":"end_turn","usage":{"input_tokens":49,"output_tokens":1}}`)
}

func TestMessagesStream(t *testing.T) {
	cfg := fast()
	cfg.Ranks = 1
	s := start(t, cfg)
	ask := ask{path: "/v1/messages", body: `{"model":"sim",` + fortyMessages + `,"max_tokens":2,"stream":true}`}
	post(t, s, ask)
	_, body := post(t, s, ask)
	assert.Equal(t, lines(
		`event: message_start`,
		`data: {"type":"message_start","message":{"id":"chatcmpl-ID","type":"message","role":"assistant","content":[],"model":"sim","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":49,"output_tokens":0}}}`, ``,
		`event: content_block_start`,
		`data: {"type":"content_block_start","content_block":{"type":"text","text":""},"index":0}`, ``,
		`event: content_block_delta`,
		`data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"words"},"index":0}`, ``,
		`event: content_block_delta`,
		`data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"words"},"index":0}`, ``,
		`event: content_block_stop`,
		`data: {"type":"content_block_stop","index":0}`, ``,
		`event: message_delta`,
		`data: {"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":0,"cache_read_input_tokens":48}}`, ``,
		`event: message_stop`,
		`data: {"type":"message_stop"}`, ``,
	), masked(body))
}

func TestMessagesSystem(t *testing.T) {
	cfg := fast()
	cfg.Ranks = 1
	s := start(t, cfg)
	prompt := func(system string) string {
		return `{"model":"sim","system":` + system + `,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"` + forty + `"}]}]}],"max_tokens":1}`
	}
	post(t, s, ask{path: "/v1/messages", body: prompt(`[{"type":"text","text":"x-anthropic-billing-header: cch=1"},{"type":"text","text":"be brief"}]`)})
	_, body := post(t, s, ask{path: "/v1/messages", body: prompt(`[{"type":"text","text":"x-anthropic-billing-header: cch=2"},{"type":"text","text":"be brief"}]`)})
	assert.Contains(t, body, `"cache_read_input_tokens":48`, "the changing header is dropped")
	_, body = post(t, s, ask{path: "/v1/messages", body: prompt(`"be brief"`)})
	assert.Contains(t, body, `"cache_read_input_tokens":48`)
	_, body = post(t, s, ask{path: "/v1/messages", body: prompt(`"be long"`)})
	assert.Contains(t, body, `"cache_read_input_tokens":0`)
}
