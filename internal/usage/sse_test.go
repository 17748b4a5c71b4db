package usage_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/usage"
)

func TestStream(t *testing.T) {
	const final = `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`
	const text = `{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`
	known := usage.Usage{Prompt: 7, Cached: 4, Completion: 2, Known: true, Measured: true}
	tests := []struct {
		name, body string
		want       outcome
	}{
		{"chat", "data: " + text + "\n\ndata: " + final + "\n\ndata: [DONE]\n\n", counted(7, 4, 2)},
		{"no usage", "data: " + text + "\n\ndata: [DONE]\n\n", outcome{finished: true}},
		{"usage null", "data: {\"usage\":null}\n\ndata: [DONE]\n\n", outcome{finished: true}},
		{"cut off", "data: " + final + "\n\ndata: [DON", outcome{Usage: known}},
		{"cut off in the usage", "data: " + final[:len(final)-24], outcome{Usage: usage.Usage{Prompt: 7, Completion: 2, Known: true}}},
		{"usage in every event", `data: {"usage":{"prompt_tokens":7,"completion_tokens":1}}` + "\n\n" + `data: {"usage":{"prompt_tokens":7,"completion_tokens":2}}` + "\n\n" +
			`data: {"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\ndata: [DONE]\n\n", counted(7, 4, 2)},
		{"details are kept", "data: " + final + "\n\n" + `data: {"usage":{"prompt_tokens":8,"completion_tokens":3,"prompt_tokens_details":null}}` + "\n\ndata: [DONE]\n\n", counted(8, 4, 3)},
		{"usage after the end mark", "data: [DONE]\n\ndata: " + final + "\n\n", counted(7, 4, 2)},

		{"no space", "data:" + text + "\n\ndata:" + final + "\n\ndata:[DONE]\n\n", counted(7, 4, 2)},
		{"two spaces", "data:  " + text + "\n\ndata:  " + final + "\n\n", outcome{Usage: known}},
		{"no final blank line", "data: " + final + "\n\ndata: [DONE]\n", counted(7, 4, 2)},
		{"no final line end", "data: " + final + "\n\ndata: [DONE]", counted(7, 4, 2)},
		{"CRLF", "data: " + text + "\r\n\r\ndata: " + final + "\r\n\r\ndata: [DONE]\r\n\r\n", counted(7, 4, 2)},
		{"CR", "data: " + text + "\r\rdata: " + final + "\r\rdata: [DONE]\r\r", counted(7, 4, 2)},
		{"mixed line ends", "data: " + text + "\r\n\ndata: " + final + "\n\r\n: x\rdata: [DONE]\n\r", counted(7, 4, 2)},
		{"CR before another field", "data: " + text[:5] + "\rdata: " + text[5:] + "\n\ndata: " + text + "\rdata: x\n\ndata: " + final + "\n\n", outcome{Usage: known}},
		{"comments", ": keep-alive\n\n:\n\ndata: " + text + "\n\n: " + final + "\n:\ndata: " + final + "\n: data: x\n\n:data: [DONE]\n\n", outcome{Usage: known}},
		{"other fields", "id: 1\nretry: 10\ndata\ndata: " + final + "\nx\n\ndatax: [DONE]\n\ndat: [DONE]\n\n data: [DONE]\n\n", outcome{Usage: known}},
		{"several data lines", "data: {\"choices\":[],\ndata: \"usage\":\ndata:{\"prompt_tokens\":7\ndata:,\"completion_tokens\":2\ndata:}}\n\ndata: [DONE]\n\n", unmeasured(7, 2)},
		{"several data lines, others between", "data: {\"usage\":{\n: x\nid: 1\ndata: \"prompt_tokens\":7}}\n\n", outcome{Usage: usage.Usage{Prompt: 7, Known: true}}},
		{"a number does not go on in the next line", "data: {\"usage\":{\"completion_tokens\":2,\"prompt_tokens\":7\ndata: 1}}\n\n", outcome{Usage: usage.Usage{Prompt: 7, Completion: 2, Known: true}}},
		{"an event is one object", "data: {\"x\":1}\ndata: " + final + "\n\n", outcome{}},
		{"events are apart", "data: {\"usage\":\n\ndata: {\"prompt_tokens\":7}}\n\n", outcome{}},
		{"malformed data", "data: x\n\ndata: {\"usage\" 1}\n\ndata:\n\ndata: {\n\ndata: " + final + "\n\n", outcome{Usage: known}},
		{"end mark after other data", "data: " + text + "\ndata: [DONE]\n\ndata: [D\ndata: ONE]\n\ndata: [DONe]\n\ndata: x[DONE]\n\nevent: [DONE]\n\n", outcome{}},
		{"end mark with more", "data: [DONE] \n\n", outcome{finished: true}},

		{"usage in content", `data: {"choices":[{"delta":{"content":"\"usage\":{\"prompt_tokens\":9},\"error\":1,"}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"tool_calls":[{"usage":{"prompt_tokens":9}}],"usage":{"prompt_tokens":9}},"usage":{"prompt_tokens":9}}],"delta":{"usage":{"prompt_tokens":9}}}` + "\n\n", outcome{}},
		{"lines in content", `data: {"choices":[{"delta":{"content":"\n\ndata: [DONE]\n\nevent: error\n\n"}}]}` + "\n\n", outcome{}},
		{"escaped keys", `data: {"\u0075sage":{"prompt_tokens":7,"completion\u005ftokens":2}}` + "\n\n", outcome{Usage: usage.Usage{Prompt: 7, Completion: 2, Known: true}}},

		{"error", "data: " + text + "\n\n" + `data: {"error":{"message":"no","code":500}}` + "\n\ndata: [DONE]\n\n", outcome{finished: true, failed: true}},
		{"error text", `data: {"error":"no"}` + "\n\n", outcome{failed: true}},
		{"error null", `data: {"error":null}` + "\n\n", outcome{}},
		{"error event", "event: error\n" + `data: {"type":"error","message":"no"}` + "\n\n", outcome{failed: true}},
		{"error event, name only", "event:error\n\n", outcome{failed: true}},
		{"error event, type only", `data: {"type":"error","message":"no"}` + "\n\n", outcome{failed: true}},
		{"no error event", "event: error-free\n\nevent: erro\n\nevent:  error\n\nerror: error\n\n: event: error\n\n", outcome{}},
		{"aborted", `data: {"choices":[{"delta":{"content":""},"finish_reason":"abort"}]}` + "\n\ndata: [DONE]\n\n", outcome{finished: true, failed: true}},

		{"messages", "event: message_start\n" + `data: {"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":0}}}` + "\n\n" +
			"event: content_block_delta\n" + `data: {"type":"content_block_delta","delta":{"text":"x"}}` + "\n\n" +
			"event: message_delta\n" + `data: {"type":"message_delta","usage":{"input_tokens":2,"output_tokens":2,"cache_creation_input_tokens":1,"cache_read_input_tokens":4}}` + "\n\n" +
			"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n", counted(7, 4, 2)},
		// vLLM before 0.24.0.
		{"messages, no cache", `data: {"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":0}}}` + "\n\n" +
			`data: {"type":"message_delta","usage":{"input_tokens":7,"output_tokens":2}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n", unmeasured(7, 2)},
		// As Anthropic does it: the cache fields come first, and the end has only the output.
		{"messages, cache first", `data: {"message":{"usage":{"input_tokens":2,"output_tokens":1,"cache_creation_input_tokens":1,"cache_read_input_tokens":4}},"type":"message_start"}` + "\n\n" +
			`data: {"usage":{"output_tokens":2},"type":"message_delta"}` + "\n\n" + `data: {"type":"message_stop"}`, counted(7, 4, 2)},
		{"message_stop, no blank line", "event: message_stop\n" + `data: {"type":"x"}`, outcome{finished: true}},
		{"message_stop, no data", "event: message_stop\n\n", outcome{finished: true}},
		{"message_stop, name only", "event: message_stop\n", outcome{}},
		{"message_stop, data cut off", "event: message_stop\n" + `data: {"type":"message_stop"`, outcome{}},
		{"no message_stop", "event: message_stopped\n\n" + `data: {"type":["message_stop"],"x":"message_stop","delta":{"type":"message_stop"}}` + "\n\nevent: message_stop\nevent: x\n\nevent: message_stop\nevent\n\n", outcome{}},
		{"the last type counts", `data: {"type":"message_stop","type":"x"}` + "\n\n" + `data: {"type":"message_stop","type":null}` + "\n\n", outcome{}},

		{"responses", "event: response.created\n" + `data: {"response":{"status":"in_progress","usage":null,"error":null},"type":"response.created"}` + "\n\n" +
			"event: response.output_text.delta\n" + `data: {"delta":"x","type":"response.output_text.delta"}` + "\n\n" +
			"event: response.completed\n" + `data: {"response":{"status":"completed","output":[{"usage":{"input_tokens":9}}],"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":4},"output_tokens":2}},"type":"response.completed"}` + "\n\n", counted(7, 4, 2)},
		{"responses, types only", `data: {"type":"response.in_progress","response":{"usage":null}}` + "\n\n" +
			`data: {"type":"response.incomplete","response":{"status":"incomplete","usage":{"input_tokens":7,"output_tokens":2}}}` + "\n\n", unmeasured(7, 2)},
		{"responses failed", "event: response.failed\n" + `data: {"response":{}}` + "\n\n", outcome{finished: true, failed: true}},
		{"responses failed, type only", `data: {"response":{},"type":"response.failed"}` + "\n\n", outcome{finished: true, failed: true}},
		{"responses failed, name only", "event: response.failed\n\n", outcome{finished: true, failed: true}},
		{"responses failed, error only", `data: {"response":{"error":{"code":"server_error"}},"type":"x"}` + "\n\n", outcome{failed: true}},
		{"responses cancelled", "event: response.completed\n" + `data: {"response":{"status":"cancelled"}}` + "\n\n", outcome{finished: true, failed: true}},
		{"responses, no response", `data: {"type":"response.completed"}` + "\n\n" + `data: {"type":"response.completed","response":null}` + "\n\n", outcome{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			everyWay(t, typeSSE, test.body, test.want)
			if !strings.Contains(test.body, "\r") {
				everyWay(t, typeSSE, strings.ReplaceAll(test.body, "\n", "\r\n"), test.want)
			}
		})
	}
}

// TestEveryAlignment has each thing a Reader acts upon at every distance from
// the beginning and the end of an event.
func TestEveryAlignment(t *testing.T) {
	seven := usage.Usage{Prompt: 7, Known: true}
	tests := []struct {
		member string
		want   outcome
	}{
		{`"usage":{"prompt_tokens":7}`, outcome{Usage: seven}},
		{`"us\u0061ge":{"prompt_tokens":7}`, outcome{Usage: seven}},
		{`"usage":{"prompt\u005Ftokens":7}`, outcome{Usage: seven}},
		{`"message":{"usage":{"input_tokens":7}}`, outcome{Usage: seven}},
		{`"response":{"usage":{"input_tokens":7}}`, outcome{Usage: seven}},
		{`"response":{"status":"failed"}`, outcome{failed: true}},
		{`"error":1`, outcome{failed: true}},
		{`"type":"error"`, outcome{failed: true}},
		{`"type":"e\u0072ror"`, outcome{failed: true}},
		{`"object":"error"`, outcome{failed: true}},
		{`"choices":[{"finish_reason":"abort"}]`, outcome{failed: true}},
		{`"type":"message_stop"`, outcome{finished: true}},
		{`"type":"message_sto\u0070"`, outcome{finished: true}},
		{`"response":{},"type":"response.failed"`, outcome{finished: true, failed: true}},
	}
	var r usage.Reader
	for _, test := range tests {
		for before := range 20 {
			for after := range 20 {
				body := `data: {"x":"` + strings.Repeat("x", before) + `",` + test.member
				if after > 0 {
					body += `,"y":"` + strings.Repeat("y", after) + `"`
				}
				body += "}\n\n"
				require.Equal(t, test.want, read(&r, typeSSE, []byte(body)), "%s", body)
			}
		}
	}
}
