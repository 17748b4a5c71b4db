// Package peek_test holds what the router reads of a request body against
// encoding/json and gjson on the same bodies. It is a module of its own since
// the library does not depend on gjson.
//
//	go test -bench . -benchmem
package peek_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/warmroute/warmroute/internal/peek"
)

// Bytes by which the prompts of a recorded agent session grew from one request
// to the next (trace_0001 of callanjfox/kv-cache-tester, four bytes a token):
// its tool definitions, system prompt and first message, then its turns.
var grown = []int{
	51896, 16972, 215832, 6348, 76252, 19840, 3060, 1704, 1808, 3144, 4132, 904, 4524, 1972, 972, 10256, 2844, 7404, 10428, 880, 3296, 48868,
	11656, 1672, 2348, 1452, 2292, 1500, 2352, 3360, 3632, 4448, 2960, 3944, 1528, 4212, 5984, 3200, 2400, 8800, 12000, 4100, 2300, 9100,
	24000, 6200, 3100, 8000, 16000, 4400, 30000, 7200, 5100, 2900, 3800, 11000, 40000, 6100, 5200, 13000, 64000, 4800, 5900, 21000, 38000,
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type tool struct {
	Name   string         `json:"name"`
	About  string         `json:"description"`
	Schema map[string]any `json:"input_schema"`
}

// write encodes a body as Python's and JavaScript's clients do: the small
// members behind the messages, and no escapes for HTML.
func write(tb testing.TB, v any) []byte {
	tb.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(tb, enc.Encode(v))
	return b.Bytes()
}

func agent(tb testing.TB, line string, size int) []byte {
	tb.Helper()
	text := func(n int) string { return strings.Repeat(line, n/len(line)+1) }
	var tools []tool
	for n := 0; n < grown[0]; n += 1200 {
		tools = append(tools, tool{"Read", text(600), map[string]any{"type": "object", "required": []string{"path"}, "properties": map[string]any{
			"path": map[string]any{"type": "string", "description": "The file's path"}, "limit": map[string]any{"type": "integer", "minimum": 1}}}})
	}
	var messages []message
	for n, i := 0, 2; n < size; i++ {
		grew := grown[i%len(grown)]
		messages = append(messages, message{[]string{"user", "assistant"}[i%2], text(grew)})
		n += grew
	}
	return write(tb, struct {
		Messages []message         `json:"messages"`
		System   string            `json:"system"`
		Tools    []tool            `json:"tools"`
		Model    string            `json:"model"`
		Max      int               `json:"max_tokens"`
		Stream   bool              `json:"stream"`
		Metadata map[string]string `json:"metadata"`
	}{messages, text(grown[1]), tools, "tiny", 32000, true, map[string]string{"user_id": `{"device_id":"d","session_id":"0198c0de-7000-7000-8000-000000000000"}`}})
}

func with(list string) []byte {
	return []byte(`{"messages":[` + list + `null],"model":"tiny","max_tokens":32000,"stream":true,"metadata":{"user_id":"u"}}`)
}

func bodies(tb testing.TB) map[string][]byte {
	const size = 1 << 20
	return map[string][]byte{
		// A line break, a tab and quotes each 30 bytes or so.
		"code":  agent(tb, "\tif err != nil {\n\t\treturn fmt.Errorf(\"read %q: %w\", name, err)\n", size),
		"prose": agent(tb, "The scanner reads the beginning of the body and leaves the rest of it where it is.\n", size),
		// Nothing but what a scanner has to stop at.
		"quotes":   with(`"` + strings.Repeat(`\"`, size/2) + `",`),
		"slashes":  with(`"` + strings.Repeat(`\\`, size/2) + `",`),
		"strings":  with(strings.Repeat(`"",`, size/3)),
		"brackets": with(strings.Repeat(`[[]],`, size/5)),
		"objects":  with(strings.Repeat(`{"a":"b"},`, size/10)),
		"tokens":   with(strings.Repeat(`15339,1917,`, size/11)),
	}
}

// fields is what routing asks a body for.
type fields struct {
	Model    string `json:"model"`
	Max      int    `json:"max_tokens"`
	Stream   bool   `json:"stream"`
	Metadata struct {
		UserID string `json:"user_id"`
	} `json:"metadata"`
}

func byPeek(tb testing.TB, body []byte) (f fields) {
	got, _, _, err := peek.ReadSized(bytes.NewReader(body), int64(len(body)), 8<<20, nil)
	if err != nil {
		tb.Fatal(err)
	}
	f.Model, f.Metadata.UserID = got.String("model"), got.String("metadata.user_id")
	if got.Raw("max_tokens") == "32000" {
		f.Max = 32000
	}
	f.Stream = got.Raw("stream") == "true"
	return f
}

func byJSON(tb testing.TB, body []byte) (f fields) {
	if err := json.Unmarshal(body, &f); err != nil {
		tb.Fatal(err)
	}
	return f
}

// byGJSON looks each path up from the beginning, as gjson is mostly used.
func byGJSON(_ testing.TB, body []byte) (f fields) {
	f.Model, f.Max = gjson.GetBytes(body, "model").Str, int(gjson.GetBytes(body, "max_tokens").Int())
	f.Stream, f.Metadata.UserID = gjson.GetBytes(body, "stream").Bool(), gjson.GetBytes(body, "metadata.user_id").Str
	return f
}

// byGJSONOnce walks the members once, which takes the last of several as the
// router does.
func byGJSONOnce(_ testing.TB, body []byte) (f fields) {
	gjson.ParseBytes(body).ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "model":
			f.Model = value.Str
		case "max_tokens":
			f.Max = int(value.Int())
		case "stream":
			f.Stream = value.Bool()
		case "metadata":
			f.Metadata.UserID = value.Get("user_id").Str
		}
		return true
	})
	return f
}

var readers = []struct {
	name string
	read func(testing.TB, []byte) fields
}{{"warmroute", byPeek}, {"gjson", byGJSON}, {"gjson-once", byGJSONOnce}, {"encoding-json", byJSON}}

func TestAllReadTheSame(t *testing.T) {
	for name, body := range bodies(t) {
		want := byJSON(t, body)
		require.Equal(t, "tiny", want.Model)
		for _, r := range readers {
			require.Equal(t, want, r.read(t, body), "%s: %s", name, r.name)
		}
	}
}

func BenchmarkPeek(b *testing.B) {
	all := bodies(b)
	for _, name := range []string{"code", "prose", "tokens", "objects", "strings", "brackets", "quotes", "slashes"} {
		for _, r := range readers {
			b.Run(name+"/"+r.name, func(b *testing.B) {
				b.SetBytes(int64(len(all[name])))
				b.ReportAllocs()
				for b.Loop() {
					if r.read(b, all[name]).Model != "tiny" {
						b.Fatal("model not found")
					}
				}
			})
		}
	}
}
