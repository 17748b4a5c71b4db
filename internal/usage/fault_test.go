package usage_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/internal/usage"
)

func TestFault(t *testing.T) {
	for _, test := range []struct {
		name, contentType, body string
		want                    usage.Fault
		client                  bool
	}{
		{"none", typeJSON, `{"code":400,"type":"BadRequestError"}`, usage.Fault{}, false},
		{"a rank out of range, streamed", typeSSE,
			`data: {"error":{"message":"data_parallel_rank 9 is out of range [0, 4).","type":"BadRequestError","param":null,"code":400}}` + "\n\ndata: [DONE]\n\n",
			usage.Fault{Code: 400, Type: "BadRequestError"}, true},
		{"the engine died", typeSSE, `data: {"error":{"message":"x","type":"InternalServerError","code":500}}` + "\n\n", usage.Fault{Code: 500, Type: "InternalServerError"}, false},
		{"a code in quotes", typeSSE, `data: {"error":{"code":"404"}}` + "\n\n", usage.Fault{Code: 404}, true},
		{"the code decides", typeJSON, `{"error":{"type":"BadRequestError","code":500}}`, usage.Fault{Code: 500, Type: "BadRequestError"}, false},
		{"too many", typeJSON, `{"error":{"code":429}}`, usage.Fault{Code: 429}, true},
		{"flat", typeJSON, `{"object":"error","message":"x","type":"BadRequestError","param":null,"code":400}`, usage.Fault{Code: 400}, true},
		{"messages", typeSSE, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"internal_error\",\"message\":\"x\"}}\n\n", usage.Fault{Type: "internal_error"}, false},
		{"messages, the client's", typeSSE, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"x\"}}\n\n", usage.Fault{Type: "invalid_request_error"}, true},
		{"responses", typeSSE, `data: {"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"x"}}}` + "\n\n", usage.Fault{Type: "server_error"}, false},
		{"responses, the client's", typeSSE, `data: {"type":"response.failed","response":{"error":{"code":"invalid_prompt"},"status":"failed"}}` + "\n\n", usage.Fault{Type: "invalid_prompt"}, true},
		{"responses cancelled", typeJSON, `{"object":"response","status":"cancelled"}`, usage.Fault{Aborted: true}, false},
		{"aborted", typeSSE, `data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"abort"}]}` + "\n\ndata: [DONE]\n\n", usage.Fault{Aborted: true}, false},
		{"a text", typeJSON, `{"error":"Unauthorized"}`, usage.Fault{}, false},
		{"of other kinds", typeJSON, `{"error":{"code":[400],"type":{"type":"BadRequestError"}}}`, usage.Fault{}, false},
		{"codes elsewhere", typeJSON, `{"error":{"message":{"code":400}},"usage":{"code":400},"choices":[{"code":400}]}`, usage.Fault{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := []byte(test.body)
			var r usage.Reader
			for _, size := range []int{len(b), 1, 7} {
				read(&r, test.contentType, inPieces(b, size)...)
				assert.Equal(t, test.want, r.Fault(), "pieces of %d", size)
				assert.Equal(t, test.client, r.Fault().Client())
			}
			r.Reset(typeSSE)
			assert.Equal(t, usage.Fault{}, r.Fault())
		})
	}
}

func TestFaultsTypeIsBounded(t *testing.T) {
	var r usage.Reader
	long := make([]byte, 4000)
	for i := range long {
		long[i] = 'x'
	}
	read(&r, typeJSON, []byte(`{"error":{"type":"`+string(long)+`"}}`))
	assert.True(t, r.Failed())
	assert.LessOrEqual(t, len(r.Fault().Type), 64)
}
