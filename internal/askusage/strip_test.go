package askusage_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/askusage"
	"github.com/warmroute/warmroute/internal/usage"
)

const (
	textEvent = `data: {"id":"c","model":"tiny","choices":[{"index":0,"delta":{"content":" a"}}]}` + "\n\n"
	bare      = `data: {"choices":[],"usage":{"prompt_tokens":1}}`
	kept      = "\x00" // in stripCases: the whole stream is passed on
)

// stripCases are streams, and what is passed on of them.
var stripCases = []struct{ name, stream, want string }{
	{"nothing", "", kept},
	{"chat", textEvent + usageEvent + doneEvent, textEvent + doneEvent},
	{"first", bare + "\n\n" + textEvent, textEvent},
	{"in the middle", textEvent + bare + "\n\n" + textEvent, textEvent + textEvent},
	{"two", bare + "\n\n" + bare + "\n\n" + doneEvent, doneEvent},
	{"no usage chunk", textEvent + textEvent + doneEvent, kept},
	{"text completion", `data: {"id":"c","object":"text_completion","choices":[],"usage":{},"service_tier":null}` + "\n\n" + doneEvent, doneEvent},
	{"usage before choices", `data: {"usage":{"a":[1,{"choices":[1]}]},"choices":[]}` + "\n\n" + doneEvent, doneEvent},
	{"spaces", "data:  {\t\"choices\" : [ ] , \"usage\" : { } } \t\n\n" + doneEvent, doneEvent},
	{"no space", `data:{"choices":[],"usage":{}}` + "\n\n" + doneEvent, doneEvent},
	{"escaped keys", `data: {"ch\u006fices":[],"\u0075sage":{}}` + "\n\n" + doneEvent, doneEvent},
	{"error null", `data: {"choices":[],"usage":{},"error":null}` + "\n\n" + doneEvent, doneEvent},
	{"keys twice", `data: {"choices":[],"usage":{},"choices":[],"usage":{}}` + "\n\n", ""},

	{"LF", bare + "\n\n" + doneEvent, doneEvent},
	{"CRLF", bare + "\r\n\r\n" + doneEvent, doneEvent},
	{"CR", bare + "\r\r" + doneEvent, doneEvent},
	{"CR LF", bare + "\r\n\n" + doneEvent, doneEvent},
	{"LF CR", bare + "\n\r" + doneEvent, doneEvent},
	{"LF CRLF", bare + "\n\r\n" + doneEvent, doneEvent},
	{"CR CRLF", bare + "\r\r\n" + doneEvent, doneEvent},
	{"CRLF and another blank line", bare + "\r\n\r\n\n" + doneEvent, "\n" + doneEvent},
	{"LF and another blank line", bare + "\n\n\n" + doneEvent, "\n" + doneEvent},
	{"blank lines before", "\n\r\n\r" + bare + "\n\n", "\n\r\n\r"},
	{"CRLF all over", "data: {\"choices\":[{}]}\r\n\r\n" + bare + "\r\n\r\ndata: [DONE]\r\n\r\n", "data: {\"choices\":[{}]}\r\n\r\ndata: [DONE]\r\n\r\n"},
	{"no blank line at the end", textEvent + bare + "\n", textEvent},
	{"no line end at the end", textEvent + bare, textEvent},
	{"CR at the end", textEvent + bare + "\r", textEvent},
	{"cut off", textEvent + bare[:len(bare)-1], kept},
	{"cut off in the field", textEvent + "dat", kept},
	{"no blank line before the end mark", bare + "\ndata: [DONE]\n\n", kept},
	{"end mark without blank line", bare + "\n\ndata: [DONE]", "data: [DONE]"},

	{"comments", ": keep-alive\n\n" + bare + "\n\n: keep-alive\n\n" + doneEvent, ": keep-alive\n\n: keep-alive\n\n" + doneEvent},
	{"comment above", ": keep-alive\n" + bare + "\n\n" + doneEvent, ": keep-alive\n" + doneEvent},
	{"comment below", bare + "\n: keep-alive\n\n" + doneEvent, kept},
	{"comment with the event", ": " + bare + "\n\n" + doneEvent, kept},
	{"named", "event: usage\n" + bare + "\n\n", kept},
	{"with an id", bare + "\nid: 7\n\n", kept},
	{"another line of data", bare + "\ndata: \n\n", kept},
	{"over two lines", "data: {\"choices\":[],\ndata: \"usage\":{}}\n\n", kept},
	{"data of two lines, the other first", "data: {\"a\":1}\n" + bare + "\n\n", kept},
	{"not a field of data", "datum: {\"choices\":[],\"usage\":{}}\n\n", kept},
	{"field in capitals", strings.ToUpper(bare[:4]) + bare[4:] + "\n\n", kept},
	{"indented", " " + bare + "\n\n", kept},
	{"field without colon", "data\n\n", kept},
	{"byte order mark", "\ufeff" + bare + "\n\n", kept},

	{"usage in every chunk", `data: {"choices":[{"index":0}],"usage":{"prompt_tokens":1}}` + "\n\n" + doneEvent, kept},
	{"usage in every chunk, before choices", `data: {"usage":{"prompt_tokens":1},"choices":[{"index":0}]}` + "\n\n" + doneEvent, kept},
	{"usage null", `data: {"choices":[],"usage":null}` + "\n\n" + doneEvent, kept},
	{"usage an array", `data: {"choices":[],"usage":[]}` + "\n\n" + doneEvent, kept},
	{"no usage", `data: {"choices":[],"prompt_filter_results":[{}]}` + "\n\n" + doneEvent, kept},
	{"no choices", `data: {"usage":{"prompt_tokens":1}}` + "\n\n" + doneEvent, kept},
	{"choices null", `data: {"choices":null,"usage":{}}` + "\n\n" + doneEvent, kept},
	{"choices an object", `data: {"choices":{},"usage":{}}` + "\n\n" + doneEvent, kept},
	{"choice null", `data: {"choices":[null],"usage":{}}` + "\n\n" + doneEvent, kept},
	{"choices twice", `data: {"choices":[],"usage":{},"choices":[{}]}` + "\n\n" + doneEvent, kept},
	{"usage twice", `data: {"choices":[],"usage":{},"usage":null}` + "\n\n" + doneEvent, kept},
	{"nested", `data: {"a":{"choices":[],"usage":{}}}` + "\n\n" + doneEvent, kept},
	{"in the text", `data: {"choices":[{"delta":{"content":"\n\ndata: {\"choices\":[],\"usage\":{}}\n\n"}}]}` + "\n\n" + doneEvent, kept},
	{"error event", textEvent + `data: {"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}` + "\n\n" + doneEvent, kept},
	{"with an error", `data: {"choices":[],"usage":{},"error":{"code":500}}` + "\n\n" + doneEvent, kept},
	{"in an array", `data: [{"choices":[],"usage":{}}]` + "\n\n", kept},
	{"text behind the object", bare + "x\n\n", kept},
	{"object behind the object", bare + "{}\n\n", kept},
	{"not JSON", `data: {"choices":[],"usage":{"a":}}` + "\n\n", kept},
	{"not JSON, comma", `data: {"choices":[],"usage":{},}` + "\n\n", kept},
	{"messages", "event: message_start\ndata: {\"type\":\"message_start\"}\n\n", kept},
	{"empty data", "data:\n\ndata: \n\ndata\n\n", kept},
	{"begins like a chunk with text", textEvent + strings.Replace(textEvent, `[{`, `[]`, 1) + strings.Replace(bare, "{", `{"id":"c","model":"tiny",`, 1) + "\n\n" + doneEvent,
		textEvent + strings.Replace(textEvent, `[{`, `[]`, 1) + doneEvent},
}

// bufferSizes are sizes of the buffers of a reader, in turn.
var bufferSizes = [][]int{{4096}, {1}, {7, 0, 30}, {300}}

func TestStrip(t *testing.T) {
	for _, c := range stripCases {
		t.Run(c.name, func(t *testing.T) {
			stream := []byte(c.stream)
			if c.want == kept {
				c.want = c.stream
			}
			require.Equal(t, c.want, string(stripped(stream)), "the reference")
			for _, sizes := range bufferSizes {
				for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, errBroken} {
					for _, early := range []bool{false, true} {
						for _, size := range []int{0, 1, 2, 10, len(stream) + 1} {
							src := &source{pieces: pieces(stream, size), err: end, early: early && size > 0}
							require.Equal(t, c.want, string(strip(t, src, sizes...)), "pieces of %d", size)
						}
					}
				}
			}
		})
	}
}

func TestStripEverySplit(t *testing.T) {
	for _, c := range stripCases {
		stream := []byte(c.stream)
		want := string(stripped(stream))
		for i := range stream {
			for _, sizes := range bufferSizes {
				src := &source{pieces: [][]byte{stream[:i], stream[i:]}, err: io.EOF}
				require.Equal(t, want, string(strip(t, src, sizes...)), "%s at %d", c.name, i)
			}
		}
	}
	// Two splits, with every kind of line end.
	for _, blank := range []string{"\n\n", "\r\n\r\n", "\r\r", "\n\r\n"} {
		stream := []byte(strings.ReplaceAll("data: {\"choices\":[{}]}\n\n"+`data: {"choices":[],"usage":{}}`+"\n\n"+doneEvent, "\n\n", blank))
		want := string(stripped(stream))
		for i := range stream {
			for j := i; j < len(stream); j++ {
				src := &source{pieces: [][]byte{stream[:i], stream[i:j], stream[j:]}, err: io.EOF}
				require.Equal(t, want, string(strip(t, src, 4096)), "%q at %d and %d", blank, i, j)
			}
		}
	}
}

func TestStripFixture(t *testing.T) {
	stream, err := os.ReadFile("testdata/chat.sse")
	require.NoError(t, err)
	events := bytes.SplitAfter(stream, []byte("\n\n"))
	require.Equal(t, 20, len(events), "17 with a choice, the usage chunk, the end mark and nothing")
	want := bytes.Join(append(events[:17:17], events[18:]...), nil)
	require.NotContains(t, string(want), `"usage"`)
	for size := range 300 {
		src := &source{pieces: pieces(stream, size), err: io.EOF}
		require.Equal(t, string(want), string(strip(t, src, 4096)), "pieces of %d", size)
	}
}

// TestStripSees checks that the usage can be read out of what is seen.
func TestStripSees(t *testing.T) {
	var u usage.Reader
	u.Reset("text/event-stream")
	r := askusage.NewStrip(&source{pieces: pieces(chatStream(5), 50), err: io.EOF}, u.Write)
	passed, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.NotContains(t, string(passed), `"usage"`)
	assert.Equal(t, usage.Usage{Prompt: 5125, Cached: 5120, Completion: 16, Known: true, Measured: true}, u.Usage())
	assert.True(t, u.Finished())
}

// pieceOf is a random piece of a stream that is likely to be, or to be close
// to, a usage chunk.
func pieceOf(r *rand.Rand) string {
	all := []string{
		"\n", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "data:", "data: ", "event: x", ": c", ":", " ", "x", "{", "}", "[", "]", ",",
		`{"choices":[],"usage":{}}`, `"choices":[]`, `"choices":[{"a":"b"}]`, `"usage":{"n":1}`, `"usage":null`, `"error":1`, `"id":"\"\\"`,
		bare, bare + "\n", bare + "\n\n", bare + "\r\n\r\n", textEvent, usageEvent, doneEvent,
	}
	return all[r.IntN(len(all))]
}

func TestStripRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	removed := 0
	for range 5_000 {
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteString(pieceOf(r))
		}
		stream := []byte(b.String())
		want := stripped(stream)
		if len(want) < len(stream) {
			removed++
		}
		var cut [][]byte
		for rest := stream; len(rest) > 0; {
			n := min(r.IntN(20), len(rest))
			cut, rest = append(cut, rest[:n]), rest[n:]
		}
		src := &source{pieces: cut, err: io.EOF, early: r.IntN(2) == 0 && len(cut) > 0}
		got := strip(t, src, 1+r.IntN(60), r.IntN(60), 1+r.IntN(600))
		require.Equal(t, string(want), string(got), "%q", stream)
	}
	assert.Greater(t, removed, 500)
}

func FuzzStrip(f *testing.F) {
	for _, c := range stripCases {
		f.Add([]byte(c.stream), uint64(3), uint(40))
	}
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64, size uint) {
		r := rand.New(rand.NewPCG(seed, 0))
		var cut [][]byte
		for rest := stream; len(rest) > 0; {
			n := min(r.IntN(40), len(rest))
			cut, rest = append(cut, rest[:n]), rest[n:]
		}
		want := string(stripped(stream))
		require.Equal(t, want, string(strip(t, &source{pieces: cut, err: io.EOF}, 1+int(size%5000))))
		require.Equal(t, want, string(strip(t, &source{pieces: [][]byte{stream}, err: io.EOF}, 4096)))
	})
}

func TestStripLargeEvents(t *testing.T) {
	event := func(size int) string {
		head, tail := `data: {"pad":"`, `","choices":[],"usage":{}}`+"\n\n"
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	for _, c := range []struct {
		size    int
		removed bool
	}{{5000, true}, {maxEvent, true}, {maxEvent + 1, false}, {maxEvent + 2, false}, {3 * maxEvent, false}} {
		for _, size := range []int{1000, 4096, 64 << 10, 1 << 20} {
			stream := []byte(textEvent + event(c.size) + doneEvent)
			want := string(stream)
			if c.removed {
				want = textEvent + doneEvent
			}
			require.Equal(t, want, string(stripped(stream)), "the reference")
			for _, p := range []int{500, 1 << 20} {
				src := &source{pieces: pieces(stream, size), err: io.EOF}
				require.True(t, want == string(strip(t, src, p)), "event of %d in pieces of %d", c.size, size)
			}
		}
	}
}

// TestStripBoundsMemory checks that an event without end is passed on as soon
// as it is too large.
func TestStripBoundsMemory(t *testing.T) {
	for _, begin := range []string{`data: {"pad":"`, bare, `data: {"usage":{"a":[`, `data: {"choices":[`, "data: "} {
		src := &source{pieces: [][]byte{[]byte(begin), bytes.Repeat([]byte(" "), 10*maxEvent)}, err: errBroken}
		r := askusage.NewStrip(src, nil)
		n, err := r.Read(make([]byte, 1000))
		require.NoError(t, err)
		require.Equal(t, 1000, n)
		require.LessOrEqual(t, src.part, 2*maxEvent)
	}
}

// TestStripChunksThatBeginAlike checks that how one event began is not taken for how
// another one goes on.
func TestStripChunksThatBeginAlike(t *testing.T) {
	prefix := func(n int) string { return fmt.Sprintf(`data: {"id":"%s","choices":[`, strings.Repeat("i", n)) }
	for _, n := range []int{0, 10, 200, 220, 225, 230, 235, 240, 245, 300, 5000} {
		text, last := prefix(n)+"{}]}\n\n", prefix(n)+"],\"usage\":{}}\n\n"
		stream := text + text + last + text + prefix(n) + "1]}\n\n" + prefix(n) + "12],\"usage\":{}}\n\n" + last + doneEvent
		for _, size := range []int{1, 100, 1 << 20} {
			src := &source{pieces: pieces([]byte(stream), size), err: io.EOF}
			require.Equal(t, strings.ReplaceAll(stream, last, ""), string(strip(t, src, 1<<20)))
		}
	}
}
