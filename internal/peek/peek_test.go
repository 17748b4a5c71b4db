package peek_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/peek"
)

const userID = `{\"device_id\":\"5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c\",\"account_uuid\":\"\",\"session_id\":\"0f5c2a34-9d1e-4a59-8d0b-1f2e3d4c5b6a\"}`

// chat has its model last, as the Python client writes it.
var chat = `{"messages":[{"role":"system","content":"{\"model\":\"no\"}"},{"role":"user","content":[{"type":"text","text":"model \\\" }]"}]}],` +
	`"metadata":{"user_id":"` + userID + `","tags":["a"],"deep":{"model":"no"}},"stream":true,"temperature":0.5,"stop":null,"model":"tiny\u002dllama"}`

func TestFields(t *testing.T) {
	many := func(n int, format string) string {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprintf(format, i))
		}
		return strings.Join(members, ",")
	}
	longest := strings.Repeat("v", peek.MaxValue)
	type paths map[string]string
	tests := []struct {
		name, body string
		strings    paths
		raw        paths
		incomplete bool
	}{
		{name: "chat", body: chat,
			strings: paths{
				"model": "tiny-llama", "metadata.user_id": strings.ReplaceAll(userID, `\`, ""),
				"metadata": "", "metadata.deep": "", "metadata.deep.model": "", "messages": "", "stream": "", "temperature": "", "stop": "", "absent": "", "": "",
			},
			raw: paths{"stream": "true", "temperature": "0.5", "stop": "", "model": ""}},
		{name: "last duplicate", body: `{"model":"a","m":{"x":"1"},"model":"b","m":{"x":"2","x":"3"}}`, strings: paths{"model": "b", "m.x": "3"}},
		{name: "last duplicate of another type", body: `{"a":"1","a":["2"],"b":"1","b":null,"c":"1","c":2,"d":"1","d":{},"e":1,"e":"2"}`,
			strings: paths{"a": "", "b": "", "c": "", "d": "", "e": "2"}, raw: paths{"c": "2", "e": ""}},
		{name: "last duplicate too long", body: `{"a":"1","a":"x` + longest + `"}`, strings: paths{"a": ""}},
		{name: "the last object replaces the first", body: `{"m":{"x":"1","y":"2"},"mm":{"x":"3"},"m":{"y":"4"},"n":{"x":"5"},"n":"6"}`,
			strings: paths{"m.x": "", "m.y": "4", "mm.x": "3", "n.x": "", "n": "6"}},
		{name: "keys with dots", body: `{"m.x":"1","m":{"x":"2","y.z":"3"},"m.y":"4","m.y":{"z":"5"}}`,
			strings: paths{"m.x": "2", "m.y.z": "3", "m.y": ""}},
		{name: "empty keys", body: `{"":"1","m":{"":"2"}}`, strings: paths{"": "1", "m.": "2"}},
		{name: "messages of another type", body: `{"messages":{"content":"1"},"a":"2","messages":"3"}`, strings: paths{"messages": "", "messages.content": "", "a": "2"}},
		{name: "limits of a value", body: `{"a":"` + longest + `","b":"x` + longest + `","c":"3"}`, strings: paths{"a": longest, "b": "", "c": "3"}},
		{name: "too many fields", body: `{` + many(peek.MaxFields, `"k%d":"v"`) + `,"model":"a","k0":"w"}`,
			// The duplicate makes room before it is taken.
			strings: paths{"k1": "v", "k63": "v", "model": "", "k0": "w"}},
		{name: "too many nested fields", body: `{"metadata":{` + many(1000, `"k%d":"v"`) + `},"model":"a"}`,
			strings: paths{"metadata.k0": "v", "metadata.k31": "v", "metadata.k32": "", "model": "a"}},
		{name: "many nested numbers", body: `{"logit_bias":{` + many(300, `"%d":-100`) + `,"x":"y"},"metadata":{"user_id":"u"},"model":"a"}`,
			strings: paths{"logit_bias.x": "y", "metadata.user_id": "u", "model": "a"}, raw: paths{"logit_bias.0": ""}},
		{name: "cut off", body: `{"model":"a","metadata":{"x":"1","y":"2`, strings: paths{"model": "a", "metadata.x": "1", "metadata.y": ""}, incomplete: true},
		{name: "empty", body: ``, strings: paths{"model": ""}, incomplete: true},
		{name: "malformed", body: `{"model":"a",}`, strings: paths{"model": ""}, incomplete: true},
		{name: "array", body: `[{"model":"a"}]`, strings: paths{"model": ""}, incomplete: true},
		{name: "text", body: `model=a`, strings: paths{"model": ""}, incomplete: true},
		{name: "zstd", body: "\x28\xb5\x2f\xfd\x04\x00", strings: paths{"model": ""}, incomplete: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			check := func(r io.Reader) {
				f, head, _, err := peek.Read(r, math.MaxInt64, nil)
				require.NoError(t, err)
				assert.True(t, strings.HasPrefix(test.body, string(head)))
				for path, want := range test.strings {
					assert.Equal(t, want, f.String(path), "String(%q)", path)
				}
				for path, want := range test.raw {
					assert.Equal(t, want, f.Raw(path), "Raw(%q)", path)
				}
				assert.Equal(t, !test.incomplete, f.Complete())
			}
			check(strings.NewReader(test.body))
			check(iotest.OneByteReader(strings.NewReader(test.body)))
			check(iotest.DataErrReader(strings.NewReader(test.body)))
			for i := 0; i < len(test.body); i += 1 + len(test.body)/1000 { // every one in all but the largest
				check(io.MultiReader(strings.NewReader(test.body[:i]), strings.NewReader(test.body[i:])))
			}
		})
	}
}

func TestReadEnds(t *testing.T) {
	hasModel := func(f *peek.Fields) bool { return f.String("model") != "" }
	body := `{"model":"a","user":"b"}`
	broken := errors.New("broken")
	tests := []struct {
		name  string
		r     io.Reader
		limit int64
		stop  func(*peek.Fields) bool
		head  string
		eof   bool
		err   error
	}{
		{name: "at the end of the object", r: strings.NewReader(body), limit: 99, head: body},
		{name: "at the end of the object, byte by byte", r: iotest.OneByteReader(strings.NewReader(body + "\n")), limit: 99, head: body},
		{name: "at the end of the body", r: iotest.DataErrReader(strings.NewReader(body)), limit: 99, head: body, eof: true},
		{name: "at the end of a body cut off", r: strings.NewReader(body[:20]), limit: 99, head: body[:20], eof: true},
		{name: "at once when empty", r: strings.NewReader(""), limit: 99, eof: true},
		{name: "at the limit", r: strings.NewReader(body), limit: 13, head: body[:13]},
		{name: "at the limit, byte by byte", r: iotest.OneByteReader(strings.NewReader(body)), limit: 13, head: body[:13]},
		{name: "at no limit", r: strings.NewReader(body), limit: 0},
		{name: "at a negative limit", r: strings.NewReader(body), limit: -1},
		{name: "when stopped", r: iotest.OneByteReader(strings.NewReader(body)), limit: 99, stop: hasModel, head: body[:12]},
		{name: "when not stopped", r: iotest.OneByteReader(strings.NewReader(body)), limit: 99, stop: func(*peek.Fields) bool { return false }, head: body},
		{name: "at what is not JSON", r: iotest.OneByteReader(strings.NewReader("model")), limit: 99, head: "m"},
		{name: "at an error", r: io.MultiReader(strings.NewReader(body[:5]), iotest.ErrReader(broken)), limit: 99, head: body[:5], err: broken},
		{name: "at an error with bytes", r: withError{body, broken}, limit: 99, head: body, err: broken},
		{name: "at an error with enough bytes", r: withError{body, broken}, limit: 99, stop: hasModel, head: body, err: broken},
		{name: "at no progress", r: withError{}, limit: 99, err: io.ErrNoProgress},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f, head, eof, err := peek.Read(test.r, test.limit, test.stop)
			assert.NotNil(t, f)
			assert.Equal(t, test.head, string(head))
			assert.Equal(t, test.eof, eof)
			assert.Equal(t, test.err, err)
		})
	}
}

// withError gives all its text and its error in every call.
type withError struct {
	text string
	err  error
}

func (r withError) Read(p []byte) (int, error) { return copy(p, r.text), r.err }

// TestReadDoesNotWait has the sender keep the connection open: a Read that
// wants more than it needs would never come back.
func TestReadDoesNotWait(t *testing.T) {
	hasModel := func(f *peek.Fields) bool { return f.String("model") != "" }
	tests := []struct {
		name, sent string
		stop       func(*peek.Fields) bool
	}{
		{"whole object", `{"model":"a"}`, nil},
		{"enough", `{"model":"a","messages":[`, hasModel},
		{"not JSON", `model`, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				go w.Write([]byte(test.sent))
				_, head, eof, err := peek.Read(r, 1<<20, test.stop)
				require.NoError(t, err)
				assert.False(t, eof)
				assert.Equal(t, test.sent, string(head))
			})
		})
	}
}

func TestReadLargeBody(t *testing.T) {
	body := `{"messages":[{"content":"` + strings.Repeat(`x \n`, 1<<18) + `"}],"model":"a"}`
	for _, r := range []io.Reader{strings.NewReader(body), iotest.HalfReader(strings.NewReader(body))} {
		f, head, _, err := peek.Read(r, 2<<20, nil)
		require.NoError(t, err)
		assert.Equal(t, "a", f.String("model"))
		assert.True(t, string(head) == body, "head is not the body")
	}
	f, head, _, err := peek.Read(strings.NewReader(body), 1000, nil)
	require.NoError(t, err)
	assert.False(t, f.Complete())
	assert.Equal(t, body[:1000], string(head))
	assert.Equal(t, 1000, cap(head), "the limit bounds the memory")
}

func TestReadAllocs(t *testing.T) {
	r := strings.NewReader(chat)
	allocs := testing.AllocsPerRun(100, func() {
		r.Reset(chat)
		if f, _, _, err := peek.Read(r, 1<<20, nil); err != nil || !f.Complete() {
			t.Error("not read")
		}
	})
	// The fields and their list as it grows, head, a buffer for what is
	// escaped, and each of the four fields.
	assert.LessOrEqual(t, allocs, 10.0)
}

// FuzzRead checks that nothing is lost or changed on the way, however the body
// arrives, and that the fields do not depend on it.
func FuzzRead(f *testing.F) {
	f.Add([]byte(chat), int64(1<<20), uint8(7), true)
	f.Add([]byte(`{"model":"a"} rest`), int64(5), uint8(1), false)
	f.Add([]byte(`{"a":{"b":"\ud83d\ude00"},"a":1,`), int64(99), uint8(3), true)
	f.Fuzz(func(t *testing.T, body []byte, limit int64, piece uint8, fails bool) {
		broken := errors.New("broken")
		rest := func() io.Reader {
			r := io.Reader(&pieces{body, int(piece)%64 + 1})
			if fails {
				r = io.MultiReader(r, iotest.ErrReader(broken))
			}
			return r
		}
		limit %= 1 << 16
		r := rest()
		fields, head, eof, err := peek.Read(r, limit, nil)
		require.LessOrEqual(t, int64(len(head)), max(limit, 0))
		replayed := peek.Replay(head, io.NopCloser(r))
		if err != nil {
			require.Equal(t, broken, err)
			replayed = peek.ReplayError(head, err, io.NopCloser(r))
		}
		all, err := io.ReadAll(replayed)
		require.True(t, bytes.Equal(body, all), "%q became %q", body, all)
		require.Equal(t, fails, err == broken)
		require.False(t, eof && (fails || len(head) < len(body)))

		// All of the object in one piece gives the same fields.
		whole, _, _, _ := peek.Read(bytes.NewReader(head), 1<<20, nil)
		require.Equal(t, whole, fields)
		require.NoError(t, iotest.TestReader(peek.Replay(head, io.NopCloser(bytes.NewReader(body[len(head):]))), body))
	})
}

// pieces gives a body size bytes at a time.
type pieces struct {
	body []byte
	size int
}

func (r *pieces) Read(p []byte) (int, error) {
	if len(r.body) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.size)], r.body)
	r.body = r.body[n:]
	return n, nil
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		body := `{"messages":[{"role":"user","content":"` + strings.Repeat(`a line of text\n`, size/16) + `"}],` + chat[1:]
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			r := strings.NewReader(body)
			for b.Loop() {
				r.Reset(body)
				if _, _, _, err := peek.Read(r, 4<<20, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
