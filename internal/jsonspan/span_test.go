package jsonspan_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/jsonspan"
)

func TestMembers(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"values": {` { "a" : 1 , "b":"x,}\"\\" ,"c":[{"d":"]"},2],"e":{"f":{}},"g":null } tail`,
			[]string{"a", "1", "b", `"x,}\"\\"`, "c", `[{"d":"]"},2]`, "e", `{"f":{}}`, "g", "null"}},
		"same key":          {`{"a":1,"a":2}`, []string{"a", "1", "a", "2"}},
		"key with escapes":  {`{"\u0061\"b":1}`, []string{`a"b`, "1"}},
		"empty":             {` {} `, nil},
		"array":             {`[1]`, nil},
		"nothing":           {``, nil},
		"cut in a key":      {`{"a":1,"b`, []string{"a", "1"}},
		"cut after a key":   {`{"a":1,"b"`, []string{"a", "1"}},
		"cut after a colon": {`{"a":1,"b": `, []string{"a", "1"}},
		"cut in a string":   {`{"a":"xy\"`, []string{"a", `"xy\"`}},
		"cut in an array":   {`{"a":[1,"]`, []string{"a", `[1,"]`}},
		"no comma":          {`{"a":1 "b":2}`, []string{"a", "1"}},
		"only a quote":      {`{"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for key, value := range jsonspan.Members([]byte(tc.text)) {
				got = append(got, string(key), string(value))
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestElements(t *testing.T) {
	for text, want := range map[string][]string{
		` [ 1 , "a]" , {"b":[1]} ,[ ] ]`: {"1", `"a]"`, `{"b":[1]}`, "[ ]"},
		`[]`:                             nil, `{}`: nil, ``: nil, `[`: nil, `[1`: {"1"}, `[1,`: {"1"}, `["a`: {`"a`},
	} {
		var got []string
		for value := range jsonspan.Elements([]byte(text)) {
			got = append(got, string(value))
		}
		assert.Equal(t, want, got, text)
	}
	for range jsonspan.Elements([]byte(`[1,2]`)) {
		break // an iterator that is left must not go on
	}
	for range jsonspan.Members([]byte(`{"a":1,"b":2}`)) {
		break
	}
}

func TestAppendText(t *testing.T) {
	for value, want := range map[string]string{
		`"a\"\\\/\b\f\n\r\tz"`: "a\"\\/\b\f\n\r\tz", `"\u00e9\ud83d\ude00"`: "é😀", `"\ud83dx"`: "\ufffdx", `"\ude00\u0041"`: "\ufffdA",
		`"\ud83d\ud83d\ude00"`: "\ufffd😀", `"ab`: "ab", `"ab\`: "ab", `"ab\u00`: "ab", `"ab\u00zz"`: "ab", `12`: "", ``: "", `""`: "",
	} {
		assert.Equal(t, ">"+want, string(jsonspan.AppendText([]byte(">"), []byte(value), 100)), value)
	}
	got := jsonspan.AppendText(nil, []byte(`"`+strings.Repeat("é", 100)+`"`), 9)
	assert.Len(t, got, 9)
	assert.Empty(t, jsonspan.AppendText(nil, []byte(`"a"`), 0))
}

// FuzzSpans walks a text and holds what it finds against encoding/json.
func FuzzSpans(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,{"b":"\u0041\ud83d\ude00\n"},null],"a":{"":-1.5e3}}`, `[[],{},"",true]`, `{"a":"\\\"","b":["]}"]}`, `{"a`, `"\ud800"`, ` { "a" : [ ] } `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		walk(t, b, json.Valid(b) && utf8.Valid(b), 0)
	})
}

func walk(t *testing.T, b []byte, valid bool, depth int) {
	if depth > 50 {
		return
	}
	var object map[string]json.RawMessage
	if valid && json.Unmarshal(b, &object) != nil {
		object = nil
	}
	last := map[string][]byte{}
	for key, value := range jsonspan.Members(b) {
		require.NotEmpty(t, value)
		last[string(key)] = value
		walk(t, value, valid, depth+1)
	}
	if valid {
		require.Len(t, last, len(object))
		for key, value := range object {
			require.Equal(t, string(value), string(last[key]))
		}
	}
	var array []json.RawMessage
	if valid && json.Unmarshal(b, &array) != nil {
		array = nil
	}
	n := 0
	for value := range jsonspan.Elements(b) {
		require.NotEmpty(t, value)
		if valid {
			require.Equal(t, string(array[n]), string(value))
		}
		n++
		walk(t, value, valid, depth+1)
	}
	if valid {
		require.Len(t, array, n)
	}
	b = bytes.TrimSpace(b)
	text := jsonspan.AppendText(nil, b, 1<<20)
	if valid && jsonspan.IsString(b) {
		var want string
		require.NoError(t, json.Unmarshal(b, &want))
		require.Equal(t, want, string(text))
	}
}

func BenchmarkMembers(b *testing.B) {
	body := []byte(`{"messages":[` + strings.Repeat(`{"role":"user","content":"func f() {\n\treturn \"a\", 1 // and so on, as code is written\n}\n"},`, 10_000) + `{}],"model":"m"}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for range jsonspan.Members(body) {
			n++
		}
		if n != 2 {
			b.Fatal(n)
		}
	}
}
