package usage_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/usage"
)

// reference reads a whole response the plain way: all of it in memory, decoded
// by encoding/json. Its JSON must be valid, with no key twice in an object.
type reference struct {
	counts           map[string]int64
	finished, failed bool
}

var (
	lineEnds = regexp.MustCompile("\r\n|\r|\n")
	plain    = regexp.MustCompile(`^[0-9]{1,15}$`)
	endTypes = []string{"message_stop", "response.completed", "response.incomplete", "response.failed"}
)

func readReference(t *testing.T, contentType, body string) outcome {
	r := reference{counts: map[string]int64{}}
	if contentType == typeJSON {
		r.object(t, body, false)
		r.finished = true
		return r.outcome()
	}
	var data []string
	var name string
	for _, line := range lineEnds.Split(body, -1) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			r.event(t, name, strings.Join(data, "\n"))
			name, data = "", nil
		case key == "data":
			data = append(data, value)
		case key == "event":
			name = value
		}
	}
	return r.outcome()
}

func (r *reference) event(t *testing.T, name, data string) {
	if strings.HasPrefix(data, "[DONE]") {
		r.finished = true
	} else if data != "" {
		typed := r.object(t, data, true)
		r.finished = r.finished || slices.Contains(endTypes, typed)
		r.failed = r.failed || typed == "response.failed"
	}
	r.finished = r.finished || slices.Contains(endTypes, name)
	r.failed = r.failed || name == "error" || name == "response.failed"
}

// object takes a JSON object and returns its type.
func (r *reference) object(t *testing.T, text string, stream bool) (typed string) {
	var o map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&o), "%q", text)

	r.usage(o["usage"])
	response, isResponse := o["response"].(map[string]any)
	typed, _ = o["type"].(string)
	if stream {
		r.usage(response["usage"])
		message, _ := o["message"].(map[string]any)
		r.usage(message["usage"])
		r.failed = r.failed || response["error"] != nil || response["status"] == "failed" || response["status"] == "cancelled"
		if strings.HasPrefix(typed, "response.") && !isResponse {
			typed = ""
		}
	} else {
		r.failed = r.failed || o["status"] == "failed" || o["status"] == "cancelled"
	}
	r.failed = r.failed || o["error"] != nil || o["object"] == "error" || o["type"] == "error"
	choices, _ := o["choices"].([]any)
	for _, c := range choices {
		choice, _ := c.(map[string]any)
		r.failed = r.failed || choice["finish_reason"] == "abort"
	}
	return typed
}

func (r *reference) usage(v any) {
	u, _ := v.(map[string]any)
	take := func(name string, v any) {
		if n, ok := v.(json.Number); ok && plain.MatchString(n.String()) {
			r.counts[name], _ = n.Int64()
		}
	}
	for _, key := range []string{"prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"} {
		take(key, u[key])
	}
	for _, key := range []string{"prompt_tokens_details", "input_tokens_details"} {
		details, _ := u[key].(map[string]any)
		take(key, details["cached_tokens"])
	}
}

func (r *reference) outcome() outcome {
	first := func(names ...string) (int64, bool) {
		for _, name := range names {
			if n, ok := r.counts[name]; ok {
				return n, true
			}
		}
		return 0, false
	}
	prompt, known := first("prompt_tokens", "input_tokens")
	cached, measured := first("prompt_tokens_details")
	if _, chat := first("prompt_tokens"); !chat {
		cached, measured = first("input_tokens_details")
		if !measured && known {
			prompt += r.counts["cache_read_input_tokens"] + r.counts["cache_creation_input_tokens"]
		}
		if !measured {
			cached, measured = first("cache_read_input_tokens")
		}
	}
	completion, complete := first("completion_tokens", "output_tokens")
	u := usage.Usage{Prompt: prompt, Completion: completion, Known: known || complete, Measured: known && measured}
	if u.Measured {
		u.Cached = min(cached, prompt)
	}
	return outcome{u, r.finished, r.failed}
}

// generator writes random responses with every member a Reader looks at, in
// its place and in others.
type generator struct{ *rand.Rand }

func (g generator) pick(texts ...string) string { return texts[g.IntN(len(texts))] }

func (g generator) count() string {
	if g.IntN(2) == 0 {
		return strconv.Itoa(g.IntN(9000))
	}
	return g.pick("0", "null", "-1", "1.5", "1e3", `"7"`, "1000000000000000", "18446744073709551616", "[7]", `{"cached_tokens":7}`)
}

// object writes some of the members, keys and values by turns, in random order.
func (g generator) object(members ...string) string {
	var text []string
	for _, i := range g.Perm(len(members) / 2) {
		if g.IntN(3) > 0 {
			text = append(text, fmt.Sprintf(`%q%s:%s%s`, members[2*i], g.pick("", "", " "), g.pick("", "", " "), members[2*i+1]))
		}
	}
	return "{" + strings.Join(text, ",") + "}"
}

func (g generator) usage() string {
	details := g.pick("null", g.object("cached_tokens", g.count(), "created_cache_tokens", g.count()))
	switch g.IntN(8) {
	case 0:
		return g.pick("null", "[]", "7", `"prompt_tokens"`, `[{"prompt_tokens":9}]`)
	case 1, 2, 3:
		return g.object("prompt_tokens", g.count(), "completion_tokens", g.count(), "prompt_tokens_details", details, "total_tokens", g.count())
	case 4, 5:
		return g.object("input_tokens", g.count(), "output_tokens", g.count(), "input_tokens_details", details, "output_tokens_details", details)
	}
	return g.object("input_tokens", g.count(), "output_tokens", g.count(), "cache_read_input_tokens", g.count(), "cache_creation_input_tokens", g.count())
}

func (g generator) body() string {
	usage := g.usage()
	text := g.pick(`"x"`, `"\"usage\":{\"prompt_tokens\":9}}"`, `"\u0011é\\"`, `"error"`, `"abort"`, `"message_stop"`, `""`)
	rarely := func(text, other string) string {
		if g.IntN(8) == 0 {
			return text
		}
		return other
	}
	choice := g.object("index", "0", "finish_reason", rarely(`"abort"`, g.pick("null", `"stop"`)), "usage", usage,
		"delta", g.object("content", text, "finish_reason", `"abort"`), "error", text)
	part := g.object("usage", rarely("null", usage), "error", rarely(text, "null"), "status", g.pick(`"completed"`, `"in_progress"`, "null", rarely(`"cancelled"`, `"x"`), rarely(`"failed"`, `"x"`)), "output", "["+choice+"]")
	return g.object("id", text, "object", rarely(`"error"`, `"chat.completion"`), "choices", g.pick("[]", "["+choice+"]", "["+choice+","+choice+"]", choice, "[[],1,"+text+"]"),
		"usage", rarely("null", usage), "message", g.pick(part, text), "response", g.pick(part, text, "null"), "delta", part, "error", rarely(text, "null"),
		"type", g.pick(`"x"`, `"message_delta"`, `"response.created"`, "null", rarely(`"error"`, `"x"`), rarely(strconv.Quote(g.pick(endTypes...)), `"x"`)))
}

func (g generator) stream() string {
	var b strings.Builder
	end := g.pick("\n", "\n", "\r\n", "\r")
	line := func(texts ...string) {
		if g.IntN(6) == 0 {
			b.WriteString(g.pick(": keep-alive", ":", "id: 1", `: data: {"usage":{"prompt_tokens":9}}`, "x") + end)
		}
		b.WriteString(strings.Join(texts, "") + end)
	}
	for range g.IntN(8) {
		if g.IntN(3) == 0 {
			line("event:", g.pick("", " "), g.pick("x", "message_start", "response.created", "response.output_text.delta", g.pick("x", "error"), g.pick("x", g.pick(endTypes...))))
		}
		data := g.body()
		if g.IntN(5) == 0 { // two lines, cut where white space may stand
			if i := strings.IndexByte(data, ','); i >= 0 && json.Valid([]byte(data[:i]+"\n"+data[i:])) {
				line("data:", g.pick("", " "), data[:i])
				data = data[i:]
			}
		}
		line("data:", g.pick("", " "), data)
		line()
	}
	if g.IntN(2) == 0 {
		line("data: [DONE]")
		line()
	}
	return b.String()
}

func TestRandomResponses(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	var r usage.Reader
	var measured, finished, failed int
	for range 2000 {
		contentType, body := typeJSON, g.body()
		if g.IntN(3) > 0 {
			contentType, body = typeSSE, g.stream()
		}
		want := readReference(t, contentType, body)
		require.Equal(t, want, read(&r, contentType, []byte(body)), "%q", body)
		require.Equal(t, want, read(&r, contentType, inPieces([]byte(body), 1)...), "%q", body)
		require.Equal(t, want, read(&r, contentType, inPieces([]byte(body), 1+g.IntN(300))...), "%q", body)
		if want.Measured {
			measured++
		}
		if want.finished && contentType == typeSSE {
			finished++
		}
		if want.failed {
			failed++
		}
	}
	assert.Greater(t, measured, 150)
	assert.Greater(t, finished, 200)
	assert.Greater(t, failed, 200)
	assert.Less(t, failed, 1800)
}

// FuzzReader checks that the pieces a response arrives in change nothing, and
// that no count is out of range.
func FuzzReader(f *testing.F) {
	g := generator{rand.New(rand.NewPCG(3, 4))}
	for i := range 20 {
		f.Add([]byte(g.stream()), uint16(i), true)
		f.Add([]byte(g.body()), uint16(i), false)
	}
	f.Add(chatStream(2), uint16(100), true)
	f.Add(messagesStream(2), uint16(3), true)
	f.Fuzz(func(t *testing.T, body []byte, size uint16, stream bool) {
		contentType := typeJSON
		if stream {
			contentType = typeSSE
		}
		var r usage.Reader
		before := bytes.Clone(body)
		whole := read(&r, contentType, body)
		require.Equal(t, whole, read(&r, contentType, inPieces(body, 1)...))
		require.Equal(t, whole, read(&r, contentType, inPieces(body, int(size)%1000+1)...))
		require.Equal(t, before, body, "the body was changed")

		fault := r.Fault()
		require.LessOrEqual(t, len(fault.Type), 64)
		require.True(t, r.Failed() || fault == usage.Fault{}, "%+v", fault)
		require.True(t, fault.Code == 0 || fault.Code >= 100 && fault.Code <= 999, "%+v", fault)

		u := whole.Usage
		require.True(t, 0 <= u.Cached && u.Cached <= u.Prompt && u.Prompt < 3e15 && 0 <= u.Completion && u.Completion < 1e15, "%+v", u)
		require.True(t, u.Measured || u.Cached == 0, "%+v", u)
		require.True(t, u.Known || u == usage.Usage{}, "%+v", u)
	})
}
