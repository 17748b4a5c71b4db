package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/jsonscan"
)

// chatBody is a chat request of about size bytes: messages of 6 KB with the
// escapes of code and prose, then the small members.
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
		messages = append(messages, message{Role: "user", Content: text})
	}
	body, err := json.Marshal(struct {
		Messages []message         `json:"messages"`
		Model    string            `json:"model"`
		Stream   bool              `json:"stream"`
		Metadata map[string]string `json:"metadata"`
	}{messages, "tiny", true, map[string]string{"session_id": "0198c0de-7000-7000-8000-000000000000"}})
	require.NoError(tb, err)
	return body
}

// tokenArrays is a body of n arrays of numbers, the shape of logprobs and
// embeddings.
func tokenArrays(n int) []byte {
	row := `{"token_ids":[` + strings.Repeat("15339,1917,", 60) + `0],"logprob":-0.125},`
	return []byte(`{"choices":[` + strings.Repeat(row, n) + `{}],"model":"tiny"}`)
}

// find drains a scanner over body in pieces and returns the model.
func find(s *jsonscan.Scanner, body []byte, piece int) (model int) {
	s.Reset(1024)
	for len(body) > 0 {
		p := body[:min(piece, len(body))]
		body = body[len(p):]
		for {
			n, token := s.Next(p)
			p = p[n:]
			if token != jsonscan.Member {
				break
			}
			switch {
			case s.Kind() == jsonscan.Object && s.Depth() == 1:
				s.Descend()
			case string(s.Key(0)) == "model":
				v, _ := s.Value()
				model += len(v)
			}
		}
	}
	return model
}

func BenchmarkBody(b *testing.B) {
	bodies := []struct {
		name string
		body []byte
	}{
		{"chat-1MB", chatBody(b, 1<<20)},
		{"chat-8KB", chatBody(b, 8<<10)},
		{"numbers", tokenArrays(1000)},
	}
	for _, body := range bodies {
		scan := func(piece int) func(b *testing.B) {
			return func(b *testing.B) {
				b.SetBytes(int64(len(body.body)))
				b.ReportAllocs()
				var s jsonscan.Scanner
				for b.Loop() {
					if find(&s, body.body, piece) != 4 || !s.Done() {
						b.Fatal("model not found")
					}
				}
			}
		}
		b.Run(body.name+"/scanner", scan(len(body.body)))
		b.Run(body.name+"/scanner-4KB-pieces", scan(4096))
		b.Run(body.name+"/json.Decoder.Token", func(b *testing.B) {
			b.SetBytes(int64(len(body.body)))
			b.ReportAllocs()
			for b.Loop() {
				d := json.NewDecoder(bytes.NewReader(body.body))
				for {
					if _, err := d.Token(); err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(body.name+"/json.Unmarshal", func(b *testing.B) {
			b.SetBytes(int64(len(body.body)))
			b.ReportAllocs()
			for b.Loop() {
				var v struct {
					Model    string
					Metadata map[string]string
				}
				if err := json.Unmarshal(body.body, &v); err != nil || v.Model != "tiny" {
					b.Fatal("model not found")
				}
			}
		})
	}
}
