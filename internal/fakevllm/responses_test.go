package fakevllm_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// responseObject is the object of a response with what changes filled in.
func responseObject(incomplete, instructions, output, limit, status, usage string) string {
	return `{"id":"resp_ID","created_at":0,"incomplete_details":` + incomplete + `,"instructions":` + instructions + `,"metadata":null,"model":"sim","object":"response","output":[` + output + `],"parallel_tool_calls":true,"temperature":1.0,"tool_choice":"none","tools":[],"top_p":1.0,"background":false,"max_output_tokens":` + limit + `,"max_tool_calls":null,"previous_response_id":null,"prompt":null,"reasoning":null,"service_tier":"auto","status":"` + status + `","text":null,"top_logprobs":null,"truncation":"disabled","usage":` + usage + `,"user":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"input_messages":null,"output_messages":null}`
}

func responseUsage(input, cached, output int) string {
	return fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"input_tokens_per_turn":[],"cached_tokens_per_turn":[]},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":0,"tool_output_tokens":0,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]},"total_tokens":%d}`,
		input, cached, output, input+output)
}

const responseMessage = `{"id":"msg_ID","content":[{"annotations":[],"text":"words","type":"output_text","logprobs":null}],"role":"assistant","status":"completed","type":"message","phase":null}`

func TestResponses(t *testing.T) {
	cfg := fast()
	cfg.Ranks = 1
	s := start(t, cfg)
	status, body := post(t, s, ask{path: "/v1/responses", body: `{"model":"sim","input":"` + forty + `","max_output_tokens":2}`})
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, responseObject(`{"reason":"max_output_tokens"}`, "null", responseMessage, "2", "incomplete", responseUsage(49, 0, 2)), masked(body))

	_, body = post(t, s, ask{path: "/v1/responses", body: `{"input":[{"role":"user","content":[{"type":"input_text","text":"` + forty + `"}]},{"type":"function_call","name":"ls","arguments":"{}","call_id":"c"},{"type":"function_call_output","call_id":"c","output":"ok"}]}`})
	assert.Equal(t, responseObject("null", "null", responseMessage, "null", "completed", responseUsage(68, 32, 64)), masked(body))
}

func TestResponsesStream(t *testing.T) {
	cfg := fast()
	cfg.Ranks = 1
	s := start(t, cfg)
	_, body := post(t, s, ask{path: "/v1/responses", body: `{"input":"` + forty + `","instructions":"hm","max_output_tokens":2,"stream":true}`})
	begun := responseObject("null", `"hm"`, "", "2", "in_progress", "null")
	ended := responseObject(`{"reason":"max_output_tokens"}`, `"hm"`, responseMessage, "2", "incomplete", responseUsage(3+1+2+49, 0, 2))
	assert.Equal(t, lines(
		`event: response.created`,
		`data: {"response":`+begun+`,"sequence_number":0,"type":"response.created"}`, ``,
		`event: response.in_progress`,
		`data: {"response":`+begun+`,"sequence_number":1,"type":"response.in_progress"}`, ``,
		`event: response.output_item.added`,
		`data: {"item":{"id":"ID","content":[],"role":"assistant","status":"in_progress","type":"message","phase":null},"output_index":0,"sequence_number":2,"type":"response.output_item.added"}`, ``,
		`event: response.content_part.added`,
		`data: {"content_index":0,"item_id":"ID","output_index":0,"part":{"annotations":[],"text":"","type":"output_text","logprobs":[]},"sequence_number":3,"type":"response.content_part.added"}`, ``,
		`event: response.output_text.delta`,
		`data: {"content_index":0,"delta":"words","item_id":"ID","logprobs":[],"output_index":0,"sequence_number":4,"type":"response.output_text.delta"}`, ``,
		`event: response.output_text.delta`,
		`data: {"content_index":0,"delta":"words","item_id":"ID","logprobs":[],"output_index":0,"sequence_number":5,"type":"response.output_text.delta"}`, ``,
		`event: response.output_text.done`,
		`data: {"content_index":0,"item_id":"ID","logprobs":[],"output_index":0,"sequence_number":6,"text":"words","type":"response.output_text.done"}`, ``,
		`event: response.content_part.done`,
		`data: {"content_index":0,"item_id":"ID","output_index":0,"part":{"annotations":[],"text":"words","type":"output_text","logprobs":null},"sequence_number":7,"type":"response.content_part.done"}`, ``,
		`event: response.output_item.done`,
		`data: {"item":{"id":"ID","content":[{"annotations":[],"text":"words","type":"output_text","logprobs":null}],"role":"assistant","status":"completed","type":"message","phase":null,"summary":[]},"output_index":0,"sequence_number":8,"type":"response.output_item.done"}`, ``,
		`event: response.completed`,
		`data: {"response":`+ended+`,"sequence_number":9,"type":"response.completed"}`, ``,
	), masked(body))
}
