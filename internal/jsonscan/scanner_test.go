package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/jsonscan"
)

func TestMembers(t *testing.T) {
	long := strings.Repeat("x", testLimit)
	key := strings.Repeat("k", jsonscan.MaxKey)
	tests := []struct {
		name, doc string
		want      []string
	}{
		{"empty", `{}`, nil},
		{"kinds", `{"n":null,"b":true,"c":false,"i":-1,"f":1.5e+3,"s":"x","e":""}`, []string{
			`"n" kind 0 "null" true`, `"b" kind 1 "true" true`, `"c" kind 1 "false" true`,
			`"i" kind 2 "-1" true`, `"f" kind 2 "1.5e+3" true`, `"s" kind 3 "x" true`, `"e" kind 3 "" true`,
		}},
		{"space", " \r\n\t{ \"a\" : 1 ,\n\"b\"\t: [ ] } ", []string{`"a" kind 2 "1" true`, `"b" kind 5 "" false`}},
		{"nested", `{"u":{"d":{"c":{"x":7}},"p":8},"q":9}`, []string{
			`"u" kind 4 "" false`, `"u" "d" kind 4 "" false`, `"u" "d" "c" kind 4 "" false`, `"u" "p" kind 2 "8" true`, `"q" kind 2 "9" true`,
		}},
		{"array", `{"a":[{"u":1},[[["]"]]],"{"],"u":2}`, []string{`"a" kind 5 "" false`, `"u" kind 2 "2" true`}},
		{"text in an array", `{"a":["\"u\":{\"p\":1}\\","\\\"}]"],"u":2}`, []string{`"a" kind 5 "" false`, `"u" kind 2 "2" true`}},
		{"escapes", `{"\u0061\"\\\/\b\f\n\r\t":"\ud83d\uDE00\u00e9"}`, []string{`"a\"\\/\b\f\n\r\t" kind 3 "😀é" true`}},
		{"lone surrogates", `{"a":"\ud83d","b":"\ud83dx","c":"\ude00","d":"\ud83d\ud83d\ude00","e":"\ud83d\n"}`, []string{
			`"a" kind 3 "�" true`, `"b" kind 3 "�x" true`, `"c" kind 3 "�" true`, `"d" kind 3 "�😀" true`, `"e" kind 3 "�\n" true`,
		}},
		{"value at its limit", `{"a":"` + long + `","b":1}`, []string{`"a" kind 3 "` + long + `" true`, `"b" kind 2 "1" true`}},
		{"value over its limit", `{"a":"` + long + `x","b":1}`, []string{`"a" kind 3 "" false`, `"b" kind 2 "1" true`}},
		{"escaped value over its limit", `{"a":"\n` + long + `\"","b":1}`, []string{`"a" kind 3 "" false`, `"b" kind 2 "1" true`}},
		{"limit counts decoded bytes", `{"a":"\u0061` + long[1:] + `"}`, []string{`"a" kind 3 "a` + long[1:] + `" true`}},
		{"surrogate over its limit", `{"a":"` + long[1:] + `\ud83d","b":1}`, []string{`"a" kind 3 "" false`, `"b" kind 2 "1" true`}},
		{"number over its limit", `{"a":-` + strings.Repeat("1", testLimit) + `,"b":1}`, []string{`"a" kind 2 "" false`, `"b" kind 2 "1" true`}},
		{"key at its limit", `{"` + key + `":1}`, []string{`"` + key + `" kind 2 "1" true`}},
		{"keys over their limit", `{"` + key + `k":1,"` + key + `\n":{"a":1},"` + key + `k\\":["a"],"` + key + `k":"s","b":2}`, []string{`"b" kind 2 "2" true`}},
		{"duplicates", `{"a":1,"a":"x"}`, []string{`"a" kind 2 "1" true`, `"a" kind 3 "x" true`}},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", []string{`"a" kind 3 "\xff" true`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			everyWay(t, []byte(test.doc), 3, false, result{
				members: test.want, last: jsonscan.End, read: len(strings.TrimRight(test.doc, " ")),
			})
		})
	}
}

// everyWay checks that a scan of doc gives want, given whole, byte by byte and
// in every two pieces.
func everyWay(t *testing.T, doc []byte, depth int, arrays bool, want result) {
	t.Helper()
	var s jsonscan.Scanner
	check := func(how string, pieces ...[]byte) {
		t.Helper()
		s.Reset(testLimit)
		require.Equal(t, want, scan(&s, depth, arrays, pieces...), how)
		require.Equal(t, want.last == jsonscan.End, s.Done(), how)
	}
	check("whole", doc)
	check("byte by byte", single(doc)...)
	for i := range doc {
		check("in two", doc[:i], doc[i:])
	}
}

func TestArrayElements(t *testing.T) {
	doc := `{"choices":[{"index":0,"delta":{"x":[1]},"finish_reason":"abort"},"s",[{"a":1},2],{}],"b":[]}`
	everyWay(t, []byte(doc), jsonscan.MaxDepth, true, result{
		members: []string{
			`"choices" kind 5 "" false`,
			`"choices" "" kind 4 "" false`,
			`"choices" "" "index" kind 2 "0" true`,
			`"choices" "" "delta" kind 4 "" false`,
			`"choices" "" "delta" "x" kind 5 "" false`,
			`"choices" "" "finish_reason" kind 3 "abort" true`,
			`"choices" "" kind 3 "s" true`,
			`"choices" "" kind 5 "" false`,
			`"choices" "" "" kind 4 "" false`,
			`"choices" "" "" "a" kind 2 "1" true`,
			`"choices" "" "" kind 2 "2" true`,
			`"choices" "" kind 4 "" false`,
			`"b" kind 5 "" false`,
		},
		last: jsonscan.End, read: len(doc),
	})
}

func TestEnded(t *testing.T) {
	doc := `{"a":{}}`
	everyWay(t, []byte(doc+`}{"model":"x"}`), 3, false, result{
		members: []string{`"a" kind 4 "" false`}, last: jsonscan.End, read: len(doc),
	})

	var s jsonscan.Scanner
	scan(&s, 1, false, []byte(doc))
	for _, more := range []string{"", " ", doc} {
		n, token := s.Next([]byte(more))
		assert.Equal(t, jsonscan.End, token, "final until Reset")
		assert.Zero(t, n)
	}
}

func TestUnended(t *testing.T) {
	for _, doc := range []string{``, ` `, `{`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":"x`, `{"a":"\u00`, `{"a":1,`, `{"a":[`, `{"a":["x\`, `{"a":{}`} {
		t.Run(doc, func(t *testing.T) {
			var s jsonscan.Scanner
			whole := scan(&s, 3, false, []byte(doc))
			assert.Equal(t, jsonscan.More, whole.last)
			assert.Equal(t, len(doc), whole.read)
			assert.False(t, s.Done())
			everyWay(t, []byte(doc), 3, false, whole)
		})
	}
}

func TestInvalid(t *testing.T) {
	tests := []struct {
		doc  string
		read int // bytes before the one that is wrong, or the end of its word
	}{
		{`[]`, 0}, {`"a"`, 0}, {`1`, 0}, {`null`, 0}, {"\x28\xb5\x2f\xfd", 0}, {`}`, 0},
		{`{a":1}`, 1}, {`{1:1}`, 1}, {`{,}`, 1}, {`{"a" 1}`, 5}, {`{"a",}`, 4}, {`{"a":}`, 5}, {`{"a":,}`, 5}, {`{"a":1 2}`, 7},
		{`{"a":1,}`, 7}, {`{"a":1]`, 6}, {`{"a":"b" "c"}`, 9}, {`{"a":{"b":1]}`, 11},
		{`{"a":tru}`, 8}, {`{"a":truex}`, 10}, {`{"a":True}`, 9}, {`{"a":NaN}`, 8}, {`{"a":'b'}`, 5}, {`{"a":#}`, 5},
		{`{"a":01}`, 7}, {`{"a":-}`, 6}, {`{"a":1.}`, 7}, {`{"a":.5}`, 7}, {`{"a":1e}`, 7}, {`{"a":1e+}`, 8}, {`{"a":+1}`, 7}, {`{"a":1.2.3}`, 10}, {`{"a":--1}`, 8},
		{`{"a":x` + strings.Repeat("1", testLimit) + `}`, 6 + testLimit},
		{`{"a":"\x"}`, 8}, {`{"a":"\u00g0"}`, 11}, {`{"\x":1}`, 4},
	}
	for _, test := range tests {
		t.Run(test.doc, func(t *testing.T) {
			doc := []byte(test.doc + "   ")
			var s jsonscan.Scanner
			s.Reset(testLimit)
			whole := scan(&s, 3, false, doc)
			assert.Equal(t, jsonscan.Invalid, whole.last)
			assert.Equal(t, test.read, whole.read)
			assert.False(t, s.Done())
			n, token := s.Next([]byte(`{"model":"x"}`))
			assert.Equal(t, jsonscan.Invalid, token, "final until Reset")
			assert.Zero(t, n)
			everyWay(t, doc, 3, false, whole)
		})
	}
}

func TestDescend(t *testing.T) {
	var s jsonscan.Scanner
	assert.False(t, s.Descend(), "no token yet")
	p := []byte(`{"a":{"b":{"c":{"d":{"e":1}}}},"f":2}`)
	next := func() jsonscan.Token {
		n, token := s.Next(p)
		p = p[n:]
		return token
	}
	for depth := 1; depth < jsonscan.MaxDepth; depth++ {
		require.Equal(t, jsonscan.Member, next())
		require.Equal(t, depth, s.Depth())
		require.True(t, s.Descend())
		require.False(t, s.Descend(), "twice")
	}
	require.Equal(t, jsonscan.Member, next())
	assert.Equal(t, jsonscan.Object, s.Kind())
	assert.False(t, s.Descend(), "below MaxDepth")
	require.Equal(t, jsonscan.Member, next())
	assert.Equal(t, "f", string(s.Key(0)))
	assert.False(t, s.Descend(), "a scalar")
	assert.Equal(t, jsonscan.End, next())
}

func TestDeepNesting(t *testing.T) {
	const deep = 1_000_000
	doc := []byte(`{"a":` + strings.Repeat(`[`, deep) + strings.Repeat(`]`, deep) + `,"b":` +
		strings.Repeat(`{"x":`, deep) + `1` + strings.Repeat(`}`, deep) + `,"model":"tiny"}`)
	var s jsonscan.Scanner
	assert.Equal(t, 4, find(&s, doc, 1000))
	assert.True(t, s.Done())

	s.Reset(0)
	assert.Equal(t, 0, find(&s, bytes.Repeat([]byte(`{"":`), deep), 1000))
	assert.False(t, s.Done())
}

func TestRandomDocuments(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var s jsonscan.Scanner
	var members int
	for range 1000 {
		doc := randomObject(rnd, nil, 6)
		require.True(t, json.Valid(doc), "%s", doc)
		depth, arrays := 1+rnd.IntN(jsonscan.MaxDepth), rnd.IntN(2) == 0
		want := result{members: reference(t, doc, depth, arrays), last: jsonscan.End, read: len(doc)}
		members += len(want.members)
		for _, pieces := range [][][]byte{{doc}, single(doc), cut(rnd, doc), cut(rnd, doc)} {
			s.Reset(testLimit)
			require.Equal(t, want, scan(&s, depth, arrays, pieces...), "%s", doc)
		}
	}
	assert.Greater(t, members, 5000, "the documents are too small to prove anything")
}

func TestAllocs(t *testing.T) {
	doc := randomObject(rand.New(rand.NewPCG(5, 6)), nil, 8)
	doc = append(append([]byte(`{"x":`), doc...), `,"model":"ti\u006ey","n":`+strings.Repeat("1", 40)+`}`...)
	var s jsonscan.Scanner
	find(&s, doc, 1) // makes the buffer
	for _, piece := range []int{1, 7, 64, len(doc)} {
		assert.Zero(t, testing.AllocsPerRun(100, func() { find(&s, doc, piece) }), "pieces of %d", piece)
	}
	assert.True(t, s.Done())
}

// FuzzScanner holds the scanner against encoding/json on valid objects, and
// against itself, in other pieces, on anything.
func FuzzScanner(f *testing.F) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range 20 {
		f.Add(randomObject(rnd, nil, 4), uint64(i), uint8(i))
	}
	for _, doc := range []string{`{"a":"\ud83d\ude00","b":[{"c":"\\\""}],"d":{"e":-1.5e3}} x`, `[1]`, `{"a":tru}`, `{"a" 1}`, `{"":`} {
		f.Add([]byte(doc), uint64(1), uint8(7))
	}
	f.Fuzz(func(t *testing.T, doc []byte, seed uint64, how uint8) {
		depth, arrays := 1+int(how>>1)%jsonscan.MaxDepth, how&1 == 0
		var s jsonscan.Scanner
		s.Reset(testLimit)
		whole := scan(&s, depth, arrays, doc)
		object := bytes.HasPrefix(bytes.TrimLeft(doc, " \t\r\n"), []byte("{"))
		if object && json.Valid(doc) && utf8.Valid(doc) {
			require.Equal(t, jsonscan.End, whole.last)
			require.Equal(t, reference(t, doc, depth, arrays), whole.members)
			require.Equal(t, len(bytes.TrimRight(doc, " \t\r\n")), whole.read)
		}
		if len(doc) == 0 {
			return
		}
		for _, pieces := range [][][]byte{single(doc), cut(rand.New(rand.NewPCG(seed, 0)), doc)} {
			s.Reset(testLimit)
			require.Equal(t, whole, scan(&s, depth, arrays, pieces...))
		}
	})
}
