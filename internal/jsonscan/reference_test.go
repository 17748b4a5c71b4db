package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/jsonscan"
)

const testLimit = 48 // over MinValue, so that the larger buffer is used

// result is what a scan of one document gave.
type result struct {
	members []string // path, kind and value
	last    jsonscan.Token
	read    int // bytes up to the last token
}

// scan gives the pieces to s, descending depth containers deep.
func scan(s *jsonscan.Scanner, depth int, arrays bool, pieces ...[]byte) result {
	var r result
	for _, p := range pieces {
		for {
			n, token := s.Next(p)
			p, r.last = p[n:], token
			r.read += n
			if token != jsonscan.Member {
				break
			}
			r.members = append(r.members, describe(s))
			if s.Depth() < depth && (s.Kind() == jsonscan.Object || arrays && s.Kind() == jsonscan.Array) {
				s.Descend()
			}
		}
	}
	return r
}

func describe(s *jsonscan.Scanner) string {
	var path []string
	for i := range s.Depth() {
		path = append(path, strconv.Quote(string(s.Key(i))))
	}
	value, ok := s.Value()
	return member(path, s.Kind(), string(value), ok)
}

func member(path []string, kind jsonscan.Kind, value string, ok bool) string {
	return fmt.Sprintf("%s kind %d %q %t", strings.Join(path, " "), kind, value, ok)
}

// reference lists the members of doc, a valid JSON object in valid UTF-8, as
// encoding/json reads them.
func reference(tb testing.TB, doc []byte, depth int, arrays bool) []string {
	tb.Helper()
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	token := func() json.Token {
		t, err := d.Token()
		require.NoError(tb, err)
		return t
	}
	var members []string
	report := func(path []string, kind jsonscan.Kind, text string) {
		ok := kind != jsonscan.Object && kind != jsonscan.Array && len(text) <= testLimit
		if !ok {
			text = ""
		}
		members = append(members, member(path, kind, text, ok))
	}
	var value func(path []string, shown bool)
	value = func(path []string, shown bool) {
		switch t := token().(type) {
		case json.Delim:
			kind := jsonscan.Object
			if t == '[' {
				kind = jsonscan.Array
			}
			if shown && len(path) > 0 {
				report(path, kind, "")
			}
			inner := shown && len(path) < depth && (kind == jsonscan.Object || arrays && len(path) > 0)
			for d.More() {
				key, known := "", true
				if kind == jsonscan.Object {
					key = token().(string)
					known = len(key) <= jsonscan.MaxKey
				}
				value(append(path[:len(path):len(path)], strconv.Quote(key)), inner && known)
			}
			token()
		default:
			if !shown {
				return
			}
			switch t := t.(type) {
			case nil:
				report(path, jsonscan.Null, "null")
			case bool:
				report(path, jsonscan.Bool, strconv.FormatBool(t))
			case json.Number:
				report(path, jsonscan.Number, t.String())
			case string:
				report(path, jsonscan.String, t)
			}
		}
	}
	value(nil, true)
	return members
}

// cut cuts doc into pieces of random size, some of them empty.
func cut(rnd *rand.Rand, doc []byte) [][]byte {
	most := 1 << rnd.IntN(9)
	var pieces [][]byte
	for len(doc) > 0 {
		n := min(rnd.IntN(most+1), len(doc))
		pieces = append(pieces, doc[:n])
		doc = doc[n:]
	}
	return pieces
}

// single cuts doc into pieces of one byte.
func single(doc []byte) [][]byte {
	pieces := make([][]byte, len(doc))
	for i := range doc {
		pieces[i] = doc[i : i+1]
	}
	return pieces
}

// randomObject writes a random JSON object with every way to write a string,
// a number and white space.
func randomObject(rnd *rand.Rand, b []byte, depth int) []byte {
	b = append(b, '{')
	for i := range rnd.IntN(8) {
		if i > 0 {
			b = append(b, ',')
		}
		b = randomSpace(rnd, b)
		b = randomString(rnd, b)
		b = append(randomSpace(rnd, b), ':')
		b = randomSpace(rnd, randomValue(rnd, randomSpace(rnd, b), depth-1))
	}
	return append(randomSpace(rnd, b), '}')
}

func randomValue(rnd *rand.Rand, b []byte, depth int) []byte {
	switch k := rnd.IntN(10); {
	case k == 0:
		return append(b, "null"...)
	case k == 1:
		return strconv.AppendBool(b, rnd.IntN(2) == 0)
	case k == 2:
		return strconv.AppendInt(b, rnd.Int64()-rnd.Int64(), 10)
	case k == 3:
		return fmt.Appendf(b, "%.*e", rnd.IntN(60), rnd.NormFloat64())
	case k < 7 || depth <= 0:
		return randomString(rnd, b)
	case k < 9:
		return randomObject(rnd, b, depth)
	}
	b = append(b, '[')
	for i := range rnd.IntN(4) {
		if i > 0 {
			b = append(b, ',')
		}
		b = randomSpace(rnd, randomValue(rnd, randomSpace(rnd, b), depth-1))
	}
	return append(b, ']')
}

func randomString(rnd *rand.Rand, b []byte) []byte {
	b = append(b, '"')
	for range rnd.IntN(1 << rnd.IntN(8)) {
		switch rnd.IntN(12) {
		case 0:
			b = append(b, '\\', `"\/bfnrt`[rnd.IntN(8)])
		case 1: // any code unit, lone surrogates too
			b = fmt.Appendf(b, `\u%04x`, rnd.IntN(1<<16))
		case 2:
			high, low := utf16.EncodeRune(rune(0x10000 + rnd.IntN(0x100000)))
			b = fmt.Appendf(b, `\u%04X\u%04x`, high, low)
		case 3: // a high surrogate
			b = fmt.Appendf(b, `\ud8%02x`, rnd.IntN(256))
		case 4:
			b = append(b, "é漢😀"...)
		default:
			b = append(b, "abc:,{}[] 019"[rnd.IntN(13)])
		}
	}
	return append(b, '"')
}

func randomSpace(rnd *rand.Rand, b []byte) []byte {
	for range rnd.IntN(3) {
		b = append(b, " \t\r\n"[rnd.IntN(4)])
	}
	return b
}
