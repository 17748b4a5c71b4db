package askusage_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/askusage"
)

// askCases are requests, and what they become; "" stands for unchanged.
var askCases = []struct{ name, body, want string }{
	{"no options", `{"model":"m","stream":true,"n":1}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true},"n":1}`},
	{"white space and key order", " {\n\t\"stream\" : true ,\r\n \"model\" : \"m\" } \n", " {\n\t\"stream\" : true,\"stream_options\":{\"include_usage\":true} ,\r\n \"model\" : \"m\" } \n"},
	{"stream last", `{"messages":[{"role":"user","content":"}]\""}],"stream":true}`, `{"messages":[{"role":"user","content":"}]\""}],"stream":true,"stream_options":{"include_usage":true}}`},
	{"options null", `{"stream":true,"stream_options": null ,"a":1}`, `{"stream":true,"stream_options": {"include_usage":true} ,"a":1}`},
	{"options empty", `{"stream_options":{},"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`},
	{"options empty with space", `{"stream_options":{ },"stream":true}`, `{"stream_options":{"include_usage":true },"stream":true}`},
	{"options with others", `{"stream_options":{ "include_obfuscation":false},"stream":true}`, `{"stream_options":{"include_usage":true, "include_obfuscation":false},"stream":true}`},
	{"options with a long key", `{"stream_options":{"` + strings.Repeat("k", 100) + `":1},"stream":true}`, `{"stream_options":{"include_usage":true,"` + strings.Repeat("k", 100) + `":1},"stream":true}`},
	{"asks not", `{"stream":true,"stream_options":{"include_usage": false}}`, `{"stream":true,"stream_options":{"include_usage": true}}`},
	{"asks null", `{"stream":true,"stream_options":{"include_usage":null , "x":{}}}`, `{"stream":true,"stream_options":{"include_usage":true , "x":{}}}`},
	{"usage in every chunk off", `{"stream":true,"stream_options":{"continuous_usage_stats":false,"include_usage":false}}`, `{"stream":true,"stream_options":{"continuous_usage_stats":false,"include_usage":true}}`},
	{"usage in every chunk null", `{"stream":true,"stream_options":{"continuous_usage_stats":null}}`, `{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":null}}`},
	{"usage in every chunk on", `{"stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":false}}`, ""},
	{"usage in every chunk perhaps on", `{"stream":true,"stream_options":{"continuous_usage_stats":"yes"}}`, ""},
	{"asks", `{"stream":true,"stream_options":{"include_usage":true}}`, ""},
	{"asks perhaps, number", `{"stream":true,"stream_options":{"include_usage":1}}`, ""},
	{"asks perhaps, string", `{"stream":true,"stream_options":{"include_usage":"false"}}`, ""},
	{"asks perhaps, object", `{"stream":true,"stream_options":{"include_usage":{}}}`, ""},
	{"options a string", `{"stream":true,"stream_options":"include_usage"}`, ""},
	{"options an array", `{"stream":true,"stream_options":[]}`, ""},
	{"options false", `{"stream":true,"stream_options":false}`, ""},

	{"no stream", `{"model":"m"}`, ""},
	{"stream false", `{"stream":false}`, ""},
	{"stream null", `{"stream":null,"stream_options":null}`, ""},
	{"stream a string", `{"stream":"true"}`, ""},
	{"stream a number", `{"stream":1}`, ""},
	{"stream an object", `{"stream":{"stream":true}}`, ""},
	{"empty object", `{}`, ""},

	{"stream twice, last on", `{"stream":false,"stream":true}`, `{"stream":false,"stream":true,"stream_options":{"include_usage":true}}`},
	{"stream twice, last off", `{"stream":true,"stream":false}`, ""},
	{"stream twice, last an object", `{"stream":true,"stream":{}}`, ""},
	{"options twice, last null", `{"stream":true,"stream_options":{"include_usage":true},"stream_options":null}`, `{"stream":true,"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}`},
	{"options twice, last empty", `{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"stream_options":{}}`, `{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"stream_options":{"include_usage":true}}`},
	{"options twice, last asks", `{"stream":true,"stream_options":null,"stream_options":{"include_usage":true}}`, ""},
	{"asks twice, last not", `{"stream":true,"stream_options":{"include_usage":true,"include_usage":false}}`, `{"stream":true,"stream_options":{"include_usage":true,"include_usage":true}}`},
	{"asks twice, last does", `{"stream":true,"stream_options":{"include_usage":false,"include_usage":true}}`, ""},
	{"every chunk twice, last off", `{"stream":true,"stream_options":{"continuous_usage_stats":true,"continuous_usage_stats":false}}`, `{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true,"continuous_usage_stats":false}}`},
	{"escapes in keys", `{"stre\u0061m":true,"\u0073tream_options":{"include\u005fusage":false}}`, `{"stre\u0061m":true,"\u0073tream_options":{"include\u005fusage":true}}`},
	{"escapes in keys, asks", `{"stre\u0061m":true,"\u0073tream_options":{"include\u005Fusage":true}}`, ""},
	{"other case", `{"stream":true,"Stream_Options":{"include_usage":true}}`, `{"stream":true,"stream_options":{"include_usage":true},"Stream_Options":{"include_usage":true}}`},
	{"in other places", `{"metadata":{"stream":true,"stream_options":null},"stop":["stream_options"],"stream":true}`, `{"metadata":{"stream":true,"stream_options":null},"stop":["stream_options"],"stream":true,"stream_options":{"include_usage":true}}`},
	{"in a string", `{"prompt":"\"stream\":false,\"stream_options\":{}","stream":true}`, `{"prompt":"\"stream\":false,\"stream_options\":{}","stream":true,"stream_options":{"include_usage":true}}`},
	{"only in another place", `{"metadata":{"stream":true}}`, ""},

	{"nothing", ``, ""},
	{"space", ` `, ""},
	{"byte order mark", "\ufeff" + `{"stream":true}`, ""},
	{"UTF-16", "{\x00\"\x00s\x00", ""},
	{"array", `[{"stream":true}]`, ""},
	{"text behind", `{"stream":true}x`, ""},
	{"another object behind", `{"stream":true}{"stream":true}`, ""},
	{"NUL behind", "{\"stream\":true}\x00", ""},
	{"form feed behind", "{\"stream\":true}\f", ""},
	{"cut off", `{"stream":true`, ""},
	{"cut off in options", `{"stream":true,"stream_options":{`, ""},
	{"NaN", `{"stream":true,"temperature":NaN}`, ""},
	{"trailing comma", `{"stream":true,}`, ""},
	{"not a literal", `{"stream":True}`, ""},
}

func TestAsk(t *testing.T) {
	for _, c := range askCases {
		t.Run(c.name, func(t *testing.T) {
			body := []byte(c.body)
			changed, ok := askusage.Ask(body)
			assert.Equal(t, c.want != "", ok)
			assert.Equal(t, c.body, string(body), "the body was written to")
			if c.want == "" {
				c.want = c.body
			}
			assert.Equal(t, c.want, string(changed))
			checkAsk(t, body)
		})
	}
}

// TestAskTwice checks that what was asked for once is found to ask.
func TestAskTwice(t *testing.T) {
	for _, c := range askCases {
		changed, _ := askusage.Ask([]byte(c.body))
		again, ok := askusage.Ask(changed)
		assert.False(t, ok, c.name)
		assert.Equal(t, string(changed), string(again), c.name)
	}
}

func TestAskLargeBody(t *testing.T) {
	for _, tail := range []string{`,"stream_options":{"include_usage":false}}`, `,"stream_options":null}`, `}`} {
		body := bytes.TrimSuffix(chatBody(t, 4<<20), []byte(`}`))
		body = append(body, tail...)
		checkAsk(t, body)
		allocs := testing.AllocsPerRun(3, func() {
			if _, ok := askusage.Ask(body); !ok {
				t.Error("not asked")
			}
		})
		assert.EqualValues(t, 1, allocs)
	}
}

func TestAskUnchangedBodyIsNotCopied(t *testing.T) {
	body := []byte(`{"stream":true,"stream_options":{"include_usage":true}}`)
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		if same, ok := askusage.Ask(body); ok || &same[0] != &body[0] {
			t.Error("not the same body")
		}
	}))
}

// checkAsk compares Ask with a reading of the body by encoding/json, whose
// maps take the last of several members as Python's decoder does.
func checkAsk(t *testing.T, body []byte) {
	t.Helper()
	before := bytes.Clone(body)
	changed, ok := askusage.Ask(body)
	require.Equal(t, before, body)
	if !ok {
		require.Equal(t, before, changed)
	} else {
		checkEdit(t, body, changed)
	}

	var request map[string]json.RawMessage
	if !json.Valid(body) {
		require.False(t, json.Valid(changed), "%s", changed)
		return
	}
	if json.Unmarshal(body, &request) != nil || request == nil {
		require.False(t, ok)
		return
	}
	options, could := optionsOf(t, request)
	require.Equal(t, could && string(request["stream"]) == "true", ok, "%s", body)
	if !ok {
		return
	}

	var after map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(changed, &after))
	var optionsAfter map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(after["stream_options"], &optionsAfter))
	options["include_usage"] = json.RawMessage("true")
	require.Equal(t, options, optionsAfter)
	delete(request, "stream_options")
	delete(after, "stream_options")
	require.Equal(t, request, after)
}

// optionsOf returns the stream options of a request, and whether it asks for
// no usage in a way that can be changed without another effect.
func optionsOf(t *testing.T, request map[string]json.RawMessage) (options map[string]json.RawMessage, ok bool) {
	raw := request["stream_options"]
	if raw == nil || string(raw) == "null" {
		return map[string]json.RawMessage{}, true
	}
	if raw[0] != '{' {
		return nil, false
	}
	require.NoError(t, json.Unmarshal(raw, &options))
	off := func(key string) bool {
		v := string(options[key])
		return v == "" || v == "null" || v == "false"
	}
	return options, off("include_usage") && off("continuous_usage_stats")
}

// checkEdit checks that nothing but a null or false was taken out of body, and
// nothing but what asks put in its place.
func checkEdit(t *testing.T, body, changed []byte) {
	t.Helper()
	type edit struct{ out, in string }
	edits := []edit{
		{"", `,"stream_options":{"include_usage":true}`},
		{"null", `{"include_usage":true}`},
		{"", `"include_usage":true`},
		{"", `"include_usage":true,`},
		{"null", `true`},
		{"false", `true`},
	}
	same := 0
	for same < len(body) && same < len(changed) && body[same] == changed[same] {
		same++
	}
	for _, e := range edits {
		// What was put in may begin like what stood behind it.
		for from := same; from >= max(0, same-len(e.in)); from-- {
			rest, found := bytes.CutPrefix(body[from:], []byte(e.out))
			restAfter, foundAfter := bytes.CutPrefix(changed[from:], []byte(e.in))
			if found && foundAfter && bytes.Equal(rest, restAfter) {
				return
			}
		}
	}
	require.Fail(t, "not an edit that asks", "%q became %q", body, changed)
}

func FuzzAsk(f *testing.F) {
	for _, c := range askCases {
		f.Add([]byte(c.body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkAsk(t, body) })
}
