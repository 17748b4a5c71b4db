package askusage_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/askusage"
)

// chatBody is a streamed chat request of about size bytes: messages of 6 KB
// with the escapes of code and prose, then the small members.
func chatBody(tb testing.TB, size int) []byte {
	tb.Helper()
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	text := strings.Repeat("func scan(p []byte) error {\n\treturn fmt.Errorf(\"at %d: %w\", len(p), err) // état\n}\n"+
		"The scanner reads the beginning of the body and leaves the rest of it where it is.\n", 36)
	var messages []message
	for n := 0; n < size; n += len(text) + len(text)/10 {
		messages = append(messages, message{"user", text})
	}
	body, err := json.Marshal(struct {
		Messages []message `json:"messages"`
		Model    string    `json:"model"`
		Stream   bool      `json:"stream"`
	}{messages, "tiny", true})
	require.NoError(tb, err)
	return body
}

// longStrings is a streamed request of about size bytes, in strings of 64 KB
// without escapes.
func longStrings(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"tiny","messages":[{}`)
	for b.Len() < size {
		b.WriteString(`,{"role":"user","content":"` + strings.Repeat("a line of the prompt, ", 64<<10/22) + `"}`)
	}
	b.WriteString(`],"stream":true}`)
	return b.Bytes()
}

// chatStream is a chat stream of n events with text, as vLLM 0.26 sends them,
// in front of the usage chunk and the end mark.
func chatStream(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-ac160fad3676a706","object":"chat.completion.chunk","created":1795954916,"model":"tiny",`+
			`"choices":[{"index":0,"delta":{"content":" %s"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`+"\n\n",
			strings.Repeat("x", i%9))
	}
	b.WriteString(usageEvent + doneEvent)
	return b.Bytes()
}

func BenchmarkAsk(b *testing.B) {
	for _, body := range []struct {
		name string
		body []byte
	}{
		{"long-strings-1MB", longStrings(1 << 20)},
		{"chat-1MB", chatBody(b, 1<<20)},
		{"chat-8KB", chatBody(b, 8<<10)},
	} {
		b.Run(body.name, func(b *testing.B) {
			b.SetBytes(int64(len(body.body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := askusage.Ask(body.body); !ok {
					b.Fatal("not asked")
				}
			}
		})
	}
}

func BenchmarkStrip(b *testing.B) {
	const events = 300
	body := chatStream(events)
	for _, size := range []int{0, 100, 4096, 32 << 10} {
		name := fmt.Sprintf("pieces-%d", size)
		if size == 0 {
			name = "by-event"
		}
		all := pieces(body, size)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			p := make([]byte, 32<<10)
			src := source{err: io.EOF}
			for b.Loop() {
				src.pieces = all
				r := askusage.NewStrip(&src, nil)
				total := 0
				for {
					n, err := r.Read(p)
					if total += n; err != nil {
						break
					}
				}
				if total != len(body)-len(usageEvent) {
					b.Fatalf("%d bytes of %d", total, len(body))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
		})
	}
}
