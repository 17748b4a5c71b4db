package usage_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/usage"
)

const (
	typeJSON = "application/json"
	typeSSE  = "text/event-stream"
)

// outcome is all a Reader says of a response.
type outcome struct {
	usage.Usage
	finished, failed bool
}

func read(r *usage.Reader, contentType string, pieces ...[]byte) outcome {
	r.Reset(contentType)
	for _, p := range pieces {
		r.Write(p)
	}
	return outcome{r.Usage(), r.Finished(), r.Failed()}
}

// everyWay checks that body gives want, read whole, byte by byte and in every
// two pieces.
func everyWay(t *testing.T, contentType, body string, want outcome) {
	t.Helper()
	var r usage.Reader
	b := []byte(body)
	require.Equal(t, want, read(&r, contentType, b), "whole")
	require.Equal(t, want, read(&r, contentType, inPieces(b, 1)...), "byte by byte")
	for i := range b {
		require.Equal(t, want, read(&r, contentType, b[:i], b[i:]), "in two at %d", i)
	}
}

// counted is the outcome of a response with all counts.
func counted(prompt, cached, completion int64) outcome {
	return outcome{Usage: usage.Usage{Prompt: prompt, Cached: cached, Completion: completion, Known: true, Measured: true}, finished: true}
}

// unmeasured is the outcome of a response without a count of cached tokens.
func unmeasured(prompt, completion int64) outcome {
	return outcome{Usage: usage.Usage{Prompt: prompt, Completion: completion, Known: true}, finished: true}
}

func TestRecordedResponses(t *testing.T) {
	// As vLLM 0.26.0 sent them.
	for _, name := range []string{"chat.json", "chat.sse", "messages.json", "messages.sse", "responses.json"} {
		t.Run(name, func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join("testdata", name))
			require.NoError(t, err)
			contentType := typeSSE
			if filepath.Ext(name) == ".json" {
				contentType = typeJSON
			}
			text := string(body)
			everyWay(t, contentType, text, counted(5125, 5120, 16))
			if contentType == typeSSE {
				everyWay(t, contentType, strings.ReplaceAll(text, "\n", "\r\n"), counted(5125, 5120, 16))
				everyWay(t, contentType, strings.ReplaceAll(text, "\n", "\r"), counted(5125, 5120, 16))
				everyWay(t, contentType, strings.TrimRight(text, "\n"), counted(5125, 5120, 16))
			}
		})
	}
}

func TestJSON(t *testing.T) {
	none := outcome{finished: true}
	failed := outcome{finished: true, failed: true}
	tests := []struct {
		name, body string
		want       outcome
	}{
		{"chat", `{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`, counted(7, 4, 2)},
		{"chat, nothing cached", `{"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}}`, counted(7, 0, 2)},
		{"chat, details null", `{"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":null}}`, unmeasured(7, 2)},
		{"chat, cached null", `{"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":null}}}`, unmeasured(7, 2)},
		{"chat, no details", `{"usage":{"completion_tokens":2,"prompt_tokens":7}}`, unmeasured(7, 2)},
		{"embeddings", `{"usage":{"prompt_tokens":7}}`, unmeasured(7, 0)},
		{"completion only", `{"usage":{"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`, unmeasured(0, 2)},
		{"responses", `{"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":4},"output_tokens":2}}`, counted(7, 4, 2)},
		{"messages", `{"usage":{"input_tokens":3,"output_tokens":2,"cache_creation_input_tokens":1,"cache_read_input_tokens":4}}`, counted(8, 4, 2)},
		{"messages, nothing cached", `{"usage":{"input_tokens":7,"output_tokens":2,"cache_read_input_tokens":0}}`, counted(7, 0, 2)},
		{"messages, cache null", `{"usage":{"input_tokens":7,"output_tokens":2,"cache_creation_input_tokens":null,"cache_read_input_tokens":null}}`, unmeasured(7, 2)},
		{"messages, only created", `{"usage":{"input_tokens":6,"output_tokens":2,"cache_creation_input_tokens":1}}`, unmeasured(7, 2)},
		{"cached over prompt", `{"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":9}}}`, counted(7, 7, 2)},
		{"no usage", `{"choices":[]}`, none},
		{"usage null", `{"usage":null}`, none},
		{"usage empty", `{"usage":{}}`, none},
		{"usage of another type", `{"usage":[{"prompt_tokens":7}],"usage":"prompt_tokens","usage":7}`, none},
		{"details of another type", `{"usage":{"prompt_tokens":7,"prompt_tokens_details":[{"cached_tokens":4}]}}`, unmeasured(7, 0)},
		{"negative", `{"usage":{"prompt_tokens":-7,"completion_tokens":-2,"prompt_tokens_details":{"cached_tokens":-4}}}`, none},
		{"fractions", `{"usage":{"prompt_tokens":7.5,"completion_tokens":2.0,"prompt_tokens_details":{"cached_tokens":4e1}}}`, none},
		{"strings", `{"usage":{"prompt_tokens":"7","completion_tokens":true}}`, none},
		{"huge", `{"usage":{"prompt_tokens":18446744073709551617,"completion_tokens":1000000000000000,"input_tokens":` + strings.Repeat("9", 400) + `}}`, none},
		{"largest", `{"usage":{"input_tokens":999999999999999,"cache_read_input_tokens":999999999999999,"cache_creation_input_tokens":999999999999999}}`, counted(2999999999999997, 999999999999999, 0)},
		{"a bad count leaves the last good one", `{"usage":{"prompt_tokens":7,"prompt_tokens":-1,"prompt_tokens":null}}`, unmeasured(7, 0)},
		{"usage in content", `{"choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":9}}],\"usage\":{\"prompt_tokens\":9}"}}]}`, none},
		{"usage in other places", `{"choices":[{"usage":{"prompt_tokens":9},"message":{"tool_calls":[{"usage":{"prompt_tokens":9}}]}}],"content":[{"usage":{"input_tokens":9}}],` +
			`"metadata":{"usage":{"prompt_tokens":9}},"response":{"usage":{"input_tokens":9}},"message":{"usage":{"input_tokens":9}},"prompt_tokens":9,"usage":{"x":{"prompt_tokens":9},"prompt_tokens":{"prompt_tokens":9}}}`, none},
		{"escaped key", `{"us\u0061ge":{"prompt_tokens":7}}`, unmeasured(7, 0)},
		{"error", `{"error":{"message":"no","type":"BadRequestError","param":null,"code":400}}`, failed},
		{"error text", `{"error":"Unauthorized"}`, failed},
		{"messages error", `{"type":"error","error":{"type":"internal_error","message":"no"}}`, failed},
		{"flat error", `{"object":"error","message":"no","type":"BadRequestError","param":null,"code":400}`, failed},
		{"responses error null", `{"object":"response","error":null,"status":"completed"}`, none},
		{"responses failed", `{"object":"response","status":"failed"}`, failed},
		{"responses cancelled", `{"object":"response","status":"cancelled"}`, failed},
		{"aborted", `{"choices":[{"finish_reason":"stop"},{"text":"","finish_reason":"abort"}]}`, failed},
		{"abort in other places", `{"choices":[{"message":{"content":"abort","finish_reason":"abort"},"stop_reason":"abort"},"abort",["abort"]],"finish_reason":"abort","x":[{"finish_reason":"abort"}],"choices":{"finish_reason":"abort"}}`, none},
		{"error in other places", `{"choices":[{"error":{"message":"no"}}],"x":{"error":"no"},"message":{"error":"no","status":"failed"},"id":"error"}`, none},
		{"cut off", `{"usage":{"prompt_tokens":7,"completion_tokens":`, outcome{Usage: usage.Usage{Prompt: 7, Known: true}}},
		{"followed by more", `{"usage":{"prompt_tokens":7}}{"usage":{"prompt_tokens":9}}`, unmeasured(7, 0)},
		{"not an object", `[{"usage":{"prompt_tokens":7}}]`, outcome{}},
		{"empty", ``, outcome{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			everyWay(t, typeJSON, test.body, test.want)
		})
	}
}

func TestContentType(t *testing.T) {
	const json, sse = `{"usage":{"prompt_tokens":7}}`, `data: {"usage":{"prompt_tokens":8}}` + "\n\n"
	tests := []struct {
		contentType string
		prompt      int64
	}{
		{"application/json", 7}, {"application/json; charset=utf-8", 7}, {" Application/JSON ;x", 7},
		{"text/event-stream", 8}, {"text/event-stream;charset=UTF-8", 8}, {"TEXT/Event-Stream", 8},
		{"", 0}, {";", 0}, {"text/plain", 0}, {"application/json-seq", 0}, {"application/octet-stream", 0},
	}
	for _, test := range tests {
		var r usage.Reader
		got := max(read(&r, test.contentType, []byte(json)).Prompt, read(&r, test.contentType, []byte(sse)).Prompt)
		assert.Equal(t, test.prompt, got, "%q", test.contentType)
	}

	var zero usage.Reader
	zero.Write([]byte(json))
	zero.Write([]byte(sse))
	assert.Equal(t, usage.Usage{}, zero.Usage())
	assert.False(t, zero.Finished())
	assert.False(t, zero.Failed())
}

func TestResetForgets(t *testing.T) {
	var r usage.Reader
	for _, first := range []string{
		"event: response.failed\ndata: {\"error\":1,\"usage\":{\"prompt_tokens\":7,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n",
		"event: message_stop\ndata: {\"type\":\"message_stop", "event: message_stop\r", "data: [DON", "dat",
	} {
		for _, last := range []string{typeSSE, typeJSON} {
			read(&r, typeSSE, []byte(first))
			assert.Equal(t, outcome{}, read(&r, last), "after %q", first)
			body := `{"usage":{"input_tokens":7}}`
			if last == typeSSE {
				body = "data: " + body + "\n\ndata: [DONE]\n"
			}
			assert.Equal(t, unmeasured(7, 0), read(&r, last, []byte(body)), "after %q", first)
		}
	}
}

// TestLongResponse feeds far more than a Reader may keep.
func TestLongResponse(t *testing.T) {
	long := strings.Repeat(`\"usage\":{\"prompt_tokens\":9} `, 1<<16)
	object := `{"` + long + `":"` + long + `","choices":[{"message":{"content":"` + long + `"}}],"usage":{"` + long + `":1,"prompt_tokens":7,"prompt_tokens_details":` +
		strings.Repeat("[", 1<<16) + strings.Repeat("]", 1<<16) + `,"completion_tokens":2}}`
	streams := map[string]string{
		typeJSON: object,
		typeSSE:  ": " + long + "\n" + long + "\nevent: " + long + "\ndata: " + object + "\n\ndata: [DONE]\n\n",
	}
	for contentType, body := range streams {
		pieces := inPieces([]byte(body), 1000)
		var r usage.Reader
		assert.Equal(t, unmeasured(7, 2), read(&r, contentType, pieces...))
		assert.Zero(t, testing.AllocsPerRun(1, func() { read(&r, contentType, pieces...) }))
	}
}

func TestAllocs(t *testing.T) {
	streams := []struct {
		contentType string
		body        []byte
	}{
		{typeSSE, chatStream(20)},
		{typeSSE, messagesStream(20)},
		{typeSSE, []byte(`data: {"response":{"a_key_that_is_longer_than_any_known_one":1,"usage":{"input_tokens":5125,"input_tokens_details":{"cached_tokens":5120},` +
			`"a_key_that_is_longer_than_any_known_one":1,"output_tokens":16}},"type":"response.completed"}` + "\n\n")},
		{typeJSON, []byte(`{"choices":[{"message":{"content":"x"}}],"usage":{"a_key_that_is_longer_than_any_known_one":1,"prompt_tokens":5125,"prompt_tokens_details":{"cached_tokens":5120},"completion_tokens":16}}`)},
	}
	for _, s := range streams {
		for _, size := range []int{0, 1, 7, 1000} {
			pieces := inPieces(s.body, size)
			var got outcome
			allocs := testing.AllocsPerRun(20, func() {
				var r usage.Reader // a new one each time
				got = read(&r, s.contentType, pieces...)
			})
			assert.Zero(t, allocs, "pieces of %d", size)
			assert.Equal(t, counted(5125, 5120, 16), got)
		}
	}
}
