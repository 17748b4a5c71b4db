// Package jsonspan finds values in a JSON text that lies in memory, as parts of
// that memory: nothing is copied but the text of a string that is asked for.
//
// A text that is cut off has the members before the cut, the last of them cut
// off as well. What is passed over is not checked: of a text that is no JSON
// there may be members, or none.
package jsonspan

import (
	"bytes"
	"iter"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/warmroute/warmroute/internal/jsonscan"
)

// Members are the members of the object that b begins with, in order, as key and
// value; none if it is no object. A key with escapes is decoded, any other is a
// part of b; every value is a part of b.
func Members(b []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		b = space(b)
		if len(b) == 0 || b[0] != '{' {
			return
		}
		for b = space(b[1:]); len(b) > 0 && b[0] == '"'; {
			n := jsonscan.StringEnd(b)
			key := b[1:max(1, n-1)]
			if bytes.IndexByte(key, '\\') >= 0 {
				key = AppendText(nil, b[:n], n)
			}
			b = space(b[n:])
			if len(b) == 0 || b[0] != ':' {
				return
			}
			b = space(b[1:])
			n = valueEnd(b)
			if n == 0 || !yield(key, b[:n]) {
				return
			}
			b = space(b[n:])
			if len(b) == 0 || b[0] != ',' {
				return
			}
			b = space(b[1:])
		}
	}
}

// Elements are the elements of the array that b begins with, in order, as parts
// of b; none if it is no array.
func Elements(b []byte) iter.Seq[[]byte] {
	return func(yield func(value []byte) bool) {
		b = space(b)
		if len(b) == 0 || b[0] != '[' {
			return
		}
		b = space(b[1:])
		for {
			n := valueEnd(b)
			if n == 0 || !yield(b[:n]) {
				return
			}
			b = space(b[n:])
			if len(b) == 0 || b[0] != ',' {
				return
			}
			b = space(b[1:])
		}
	}
}

// IsString reports whether the value is a string.
func IsString(value []byte) bool { return len(value) > 0 && value[0] == '"' }

// AppendText appends the text of a string value, decoded, to dst, and stops when
// it has appended most bytes or a few more. As encoding/json does, it decodes a
// lone surrogate as U+FFFD; invalid UTF-8 is left as it is. A value that is no
// string has no text.
func AppendText(dst, value []byte, most int) []byte {
	if !IsString(value) {
		return dst
	}
	b, end := value[1:], len(dst)+most
	for len(b) > 0 && b[0] != '"' && len(dst) < end {
		n := 0
		for n < len(b) && n < end-len(dst) && b[n] != '\\' && b[n] != '"' {
			n++
		}
		dst = append(dst, b[:n]...)
		if b = b[n:]; len(b) == 0 || b[0] != '\\' {
			continue
		}
		if len(b) < 2 {
			break // cut off
		}
		if b[1] != 'u' {
			dst = append(dst, unescape(b[1]))
			b = b[2:]
			continue
		}
		r, ok := codeUnit(b)
		if !ok {
			break
		}
		b = b[6:]
		if utf16.IsSurrogate(r) {
			low, _ := codeUnit(b)
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				b = b[6:]
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// codeUnit is the \uXXXX that b begins with.
func codeUnit(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// space is b without the white space it begins with.
func space(b []byte) []byte {
	for i, c := range b {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return b[i:]
		}
	}
	return nil
}

// valueEnd is the length of the value that b begins with, 0 if there is none.
func valueEnd(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"':
		return jsonscan.StringEnd(b)
	case '{', '[':
		return jsonscan.ContainerEnd(b)
	}
	n := 0
	for n < len(b) && b[n] != ',' && b[n] != '}' && b[n] != ']' && len(space(b[n:n+1])) > 0 {
		n++
	}
	return n
}
