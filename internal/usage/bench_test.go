package usage_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/internal/usage"
)

// chatStream is a chat stream of n events with text, as vLLM 0.26 sends them.
func chatStream(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-ac160fad3676a706","object":"chat.completion.chunk","created":1795954916,"model":"tiny",`+
			`"choices":[{"index":0,"delta":{"content":" %s"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`+"\n\n",
			strings.Repeat("x", i%9))
	}
	b.WriteString(`data: {"id":"chatcmpl-ac160fad3676a706","object":"chat.completion.chunk","created":1795954916,"model":"tiny","choices":[],` +
		`"usage":{"prompt_tokens":5125,"total_tokens":5141,"completion_tokens":16,"prompt_tokens_details":{"cached_tokens":5120,"created_cache_tokens":0}}}` + "\n\ndata: [DONE]\n\n")
	return b.Bytes()
}

// messagesStream is a messages stream of n events with text.
func messagesStream(n int) []byte {
	var b bytes.Buffer
	for range n {
		b.WriteString("event: content_block_delta\n" + `data: {"type":"content_block_delta","delta":{"type":"text_delta","text":" Transport"},"index":0}` + "\n\n")
	}
	b.WriteString("event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"input_tokens":5,"output_tokens":16,"cache_read_input_tokens":5120}}` + "\n\n" +
		"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n")
	return b.Bytes()
}

// inPieces cuts a stream as a transport would give it: event by event, or in
// pieces of a size that does not fit the events.
func inPieces(body []byte, size int) [][]byte {
	if size == 0 {
		return bytes.SplitAfter(body, []byte("\n\n"))
	}
	var pieces [][]byte
	for len(body) > 0 {
		n := min(size, len(body))
		pieces = append(pieces, body[:n])
		body = body[n:]
	}
	return pieces
}

func BenchmarkStream(b *testing.B) {
	const events = 300
	streams := []struct {
		name string
		body []byte
	}{{"chat", chatStream(events)}, {"messages", messagesStream(events)}}
	for _, s := range streams {
		for _, size := range []int{0, 100, 4096, 32 << 10} {
			name := fmt.Sprintf("%s/pieces-%d", s.name, size)
			if size == 0 {
				name = s.name + "/by-event"
			}
			pieces := inPieces(s.body, size)
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(s.body)))
				var r usage.Reader
				for b.Loop() {
					r.Reset("text/event-stream; charset=utf-8")
					for _, p := range pieces {
						r.Write(p)
					}
					if u := r.Usage(); u.Prompt != 5125 || !r.Finished() {
						b.Fatalf("read %+v", u)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
			})
		}
	}
}

func BenchmarkJSON(b *testing.B) {
	body := []byte(`{"id":"chatcmpl-1","choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat(`a line of text\n`, 4096) +
		`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5125,"completion_tokens":16,"prompt_tokens_details":{"cached_tokens":5120}}}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	var r usage.Reader
	for b.Loop() {
		r.Reset("application/json")
		r.Write(body)
		if u := r.Usage(); u.Prompt != 5125 || !r.Finished() {
			b.Fatalf("read %+v", u)
		}
	}
}
