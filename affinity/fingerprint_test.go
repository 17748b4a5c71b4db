package affinity_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/affinity"
)

func fingerprint(body string) string {
	r := affinity.NewRequest(nil, nil).WithBody(func() []byte { return []byte(body) })
	return affinity.Fingerprint(r).Session
}

func TestFingerprintStaysWithItsConversation(t *testing.T) {
	long := strings.Repeat("p", affinity.MinFingerprintPrompt)
	for name, turns := range map[string][]string{
		"chat": {
			`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"hello"}]}`,
			`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"hello"},{"role":"assistant","content":"hi"},{"role":"user","content":"more"}],"stream":true,"model":"other"}`,
			`{"messages":[{"content":[{"type":"text","text":"s"}],"role":"developer"},{"content":"\u0068ello","role":"user"}]}`,
			`{"messages":[{"role":"user","content":"dropped"}],"messages":[{"role":"system","content":"s"},{"role":"user","content":"hello"}]}`,
		},
		"messages": {
			`{"system":"s","messages":[{"role":"user","content":"hello"}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"hello","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":"x"}],"system":[{"type":"text","text":"s"}]}`,
			`{"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.117.48f; cch=71fea;"},{"type":"text","text":"s"}],"messages":[{"role":"user","content":"hello"}]}`,
			`{"system":"x-anthropic-billing-header: cch=00000;\ns","messages":[{"role":"user","content":"hello"}]}`,
			`{"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>\nToday is Monday\n</system-reminder>"},{"type":"text","text":"hello"}]}]}`,
			`{"system":"s","messages":[{"role":"user","content":"\u003csystem-reminder\u003ea\u003c/system-reminder\u003e\nhello\n<system-reminder>b</system-reminder>"}]}`,
			`{"system":"s","messages":[{"role":"user","content":[{"type":"image","source":{}},{"type":"text","text":"hello"}]}]}`,
			`{"system":"s","messages":[{"role":"user","content":"<system-reminder>a</system-reminder>"},{"role":"assistant","content":"x"},{"role":"user","content":"hello"}]}`,
		},
		"responses": {
			`{"instructions":"s","input":"hello"}`,
			`{"input":[{"role":"user","content":[{"type":"input_text","text":"hello"}]},{"type":"function_call_output","output":"x"}],"instructions":"s"}`,
			`{"input":[{"type":"reasoning"},{"type":"message","role":"user","content":"hello"}],"instructions":"s"}`,
		},
		"completions": {`{"prompt":"` + long + `"}`, `{"prompt":"` + long + ` and more","stream":true}`},
		"tokens":      {`{"prompt":[` + strings.Repeat("1,", 1000) + `2]}`, `{"prompt":[` + strings.Repeat("1,", 2000) + `3]}`},
	} {
		t.Run(name, func(t *testing.T) {
			want := fingerprint(turns[0])
			assert.Len(t, want, 35)
			assert.True(t, strings.HasPrefix(want, "fp-"))
			for _, turn := range turns[1:] {
				assert.Equal(t, want, fingerprint(turn), turn)
			}
		})
	}
}

func TestFingerprintTellsConversationsApart(t *testing.T) {
	seen := map[string]string{}
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"hello"}]}`,
		`{"messages":[{"role":"user","content":"hello!"}]}`,
		`{"messages":[{"role":"system","content":"hello"},{"role":"user","content":"hello"}]}`,
		`{"messages":[{"role":"system","content":"hell"},{"role":"user","content":"ohello"}]}`,
		`{"system":"s","messages":[{"role":"user","content":"hello"}]}`,
		`{"system":"t","messages":[{"role":"user","content":"hello"}]}`,
		`{"input":"hello"}`,
		`{"instructions":"s","input":"hello"}`,
		`{"prompt":"` + strings.Repeat("p", affinity.MinFingerprintPrompt) + `"}`,
		`{"prompt":"` + strings.Repeat("q", affinity.MinFingerprintPrompt) + `"}`,
	} {
		got := fingerprint(body)
		require.NotEmpty(t, got, body)
		assert.Empty(t, seen[got], body)
		seen[got] = body
	}
}

func TestNoFingerprintWhereNothingTellsConversationsApart(t *testing.T) {
	for _, body := range []string{
		``, `[]`, `x`, `{}`, `{"model":"m"}`, `{"system":"s"}`, `{"system":"s","messages":[]}`, `{"messages":[{"role":"system","content":"s"}]}`,
		`{"messages":[{"role":"user","content":""}]}`, `{"messages":[{"role":"user","content":" \n"}]}`, `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`,
		`{"messages":[{"role":"user","content":"<system-reminder>never closed"}]}`, `{"messages":"hello no more","messages":[]}`, `{"prompt":"short"}`, `{"input":""}`,
		`{"messages":[{"role":"assistant","content":"hello"}]}`, `{"messages":{"role":"user","content":"hello"}}`, `{"input":["embedding"],"model":"m"}`,
	} {
		assert.Empty(t, fingerprint(body), body)
	}
	assert.Zero(t, affinity.Fingerprint(affinity.NewRequest(nil, nil)))
}

// What is read of a text is bounded, and what comes behind the bound does not
// matter.
func TestFingerprintIsBounded(t *testing.T) {
	of := func(end string) string {
		return fingerprint(`{"messages":[{"role":"user","content":[{"text":"` + strings.Repeat("x", affinity.MaxFingerprintText-1) + `"},{"text":"` + end + `"}]}]}`)
	}
	assert.Equal(t, of("ab"), of("ac"))
	assert.NotEqual(t, of("ab"), of("bb"))
}

// FuzzFingerprint holds the fingerprint against one of the body decoded by
// encoding/json: bodies that it says begin alike must have the same.
func FuzzFingerprint(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"text":"a\u0041"},{"text":7},"x"]}]}`,
		`{"system":[{"text":"x-anthropic-billing-header: 1\ns"}],"messages":[{"role":"user","content":"<system-reminder>a</system-reminder>b"}]}`,
		`{"instructions":"i","input":"hello","input":[{"role":"user","content":" "},{"role":"user","content":"x","content":"y"}]}`,
		`{"prompt":"` + strings.Repeat("p", affinity.MinFingerprintPrompt) + `"}`,
		`{"messages":[{"role":"user","content":"` + `\ud800` + `"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := fingerprint(string(body))
		if !json.Valid(body) || !utf8.Valid(body) {
			return
		}
		plain, ok := normalized(body)
		require.Equal(t, ok, got != "")
		// What is left may be put together to what is dropped when it is read again.
		if ok && !strings.Contains(plain, "<system-reminder>") && !strings.Contains(plain, "x-anthropic-billing-header:") {
			require.Equal(t, fingerprint(plain), got, plain)
		}
	})
}

// normalized writes what the fingerprint is of as a body in one plain form.
func normalized(body []byte) (string, bool) {
	var top map[string]json.RawMessage
	if json.Unmarshal(body, &top) != nil {
		return "", false
	}
	out, named := map[string]any{}, false
	for _, key := range []string{"system", "instructions"} {
		out[key] = texts(top[key])
	}
	for _, key := range []string{"messages", "input"} {
		if first, ok := opening(top[key]); ok {
			out[key], named = first, true
		} else {
			out[key] = first
		}
	}
	if prompt := top["prompt"]; len(prompt) > affinity.MinFingerprintPrompt {
		out["prompt"], named = prompt, true
	}
	b := bytes.Buffer{}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return "", false
	}
	if prompt := top["prompt"]; out["prompt"] != nil {
		// Encode compacts what it is given; the fingerprint is of the text as it is.
		delete(out, "prompt")
		rest, _ := json.Marshal(out)
		return `{"prompt":` + string(prompt) + "," + string(rest[1:]), named
	}
	return b.String(), named
}

type plainMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func opening(value json.RawMessage) ([]plainMessage, bool) {
	var text string
	if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &text) == nil {
		text = clean(text)
		return []plainMessage{{"user", text}}, text != ""
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return nil, false
	}
	var out []plainMessage
	for _, item := range list {
		var m map[string]json.RawMessage
		var role string
		if json.Unmarshal(item, &m) != nil || len(m["role"]) == 0 || json.Unmarshal(m["role"], &role) != nil {
			continue
		}
		switch role {
		case "system", "developer":
			out = append(out, plainMessage{"system", texts(m["content"])})
		case "user":
			if text := texts(m["content"]); text != "" {
				return append(out, plainMessage{"user", text}), true
			}
		}
	}
	return out, false
}

func texts(value json.RawMessage) string {
	var text string
	if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &text) == nil {
		return clean(text)
	}
	var blocks []json.RawMessage
	if json.Unmarshal(value, &blocks) != nil {
		return ""
	}
	all := ""
	for _, block := range blocks {
		var members map[string]json.RawMessage
		var text string
		if json.Unmarshal(block, &members) == nil && len(members["text"]) > 0 && members["text"][0] == '"' && json.Unmarshal(members["text"], &text) == nil {
			all += clean(text)
		}
	}
	return all
}

// clean is what is left of a text.
func clean(text string) string {
	if rest := strings.TrimLeft(text, " \t\r\n"); strings.HasPrefix(rest, "x-anthropic-billing-header:") {
		_, text, _ = strings.Cut(rest, "\n")
	}
	kept := ""
	for {
		before, rest, _ := strings.Cut(text, "<system-reminder>")
		kept += before
		if _, text, _ = strings.Cut(rest, "</system-reminder>"); text == "" {
			return strings.TrimSpace(kept)
		}
	}
}

func BenchmarkFingerprint(b *testing.B) {
	system := strings.Repeat("You write Go.\\nBe \\\"brief\\\".\\n", 1000)
	body := []byte(`{"system":"` + system + `","messages":[{"role":"user","content":"hello"},` +
		strings.Repeat(`{"role":"assistant","content":"`+strings.Repeat(`return \"a\"\n`, 100)+`"},`, 800) + `{}]}`)
	r := affinity.NewRequest(nil, nil).WithBody(func() []byte { return body })
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if affinity.Fingerprint(r).Session == "" {
			b.Fatal("no fingerprint")
		}
	}
}

func ExampleFingerprint() {
	key := affinity.First(affinity.Default(), affinity.Fingerprint)
	session := func(body string) string {
		field := func(string) string { return "" } // it names no session
		return key(affinity.NewRequest(nil, field).WithBody(func() []byte { return []byte(body) })).Session
	}
	first := session(`{"messages":[{"role":"user","content":"Why is the sky blue?"}]}`)
	second := session(`{"messages":[{"role":"user","content":"Why is the sky blue?"},{"role":"assistant","content":"..."},{"role":"user","content":"And at dusk?"}]}`)
	fmt.Println(first == second)
	// Output: true
}
