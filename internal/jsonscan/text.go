package jsonscan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// escape is how much of an escape sequence was read.
type escape uint8

const (
	noEscape escape = iota
	backslash
	hexDigit1 // \u was read, its first digit is next
	hexDigit2
	hexDigit3
	hexDigit4
)

// openString starts on a key or value whose first byte, after the quote, is
// p[i]. It returns where it stopped and whether a member is to be reported.
func (s *Scanner) openString(key bool, p []byte, i int) (int, bool) {
	s.key, s.stored, s.escape, s.high = key, 0, noEscape, 0

	// Most strings are short, whole in the piece, and have no escape: their
	// bytes can be used where they are.
	window := p[i:min(len(p), i+s.textLimit()+1)]
	if key {
		for n, c := range window {
			if c == '\\' {
				break
			}
			if c == '"' {
				return i + n + 1, s.endString(inPiece, window[:n])
			}
		}
	} else if n := bytes.IndexByte(window, '"'); n >= 0 && bytes.IndexByte(window[:n], '\\') < 0 {
		return i + n + 1, s.endString(inPiece, window[:n])
	}
	s.state = inString
	return s.capture(p, i)
}

// capture goes on with a string that is being decoded and stored.
func (s *Scanner) capture(p []byte, i int) (int, bool) {
	for i < len(p) {
		if s.escape != noEscape {
			c := p[i]
			i++
			if !s.unescape(c) {
				return i, false
			}
			continue
		}
		run := p[i:min(len(p), i+s.textLimit()+1)]
		n := 0
		for n < len(run) && run[n] != '"' && run[n] != '\\' {
			n++
		}
		i += n
		if n > 0 && (!s.flushSurrogate() || !s.store(run[:n])) {
			return i, false
		}
		if n == len(run) {
			continue
		}
		i++
		if run[n] == '\\' {
			s.escape = backslash
			continue
		}
		if !s.flushSurrogate() {
			return i, s.endString(nowhere, nil)
		}
		return i, s.endString(inStorage, nil)
	}
	return i, false
}

// unescape takes the next byte of an escape sequence. It reports false when
// the string is no longer captured: it is over its limit or malformed.
func (s *Scanner) unescape(c byte) bool {
	if s.escape == backslash {
		switch c {
		case 'u':
			s.escape, s.hex = hexDigit1, 0
			return true
		case '"', '\\', '/':
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		default:
			s.state = atError
			return false
		}
		s.escape = noEscape
		return s.flushSurrogate() && s.store([]byte{c})
	}

	var digit byte
	switch {
	case '0' <= c && c <= '9':
		digit = c - '0'
	case 'a' <= c && c <= 'f':
		digit = c - 'a' + 10
	case 'A' <= c && c <= 'F':
		digit = c - 'A' + 10
	default:
		s.state = atError
		return false
	}
	s.hex = s.hex<<4 | uint16(digit)
	if s.escape < hexDigit4 {
		s.escape++
		return true
	}
	s.escape = noEscape
	return s.unicode(rune(s.hex))
}

// unicode takes one UTF-16 code unit.
func (s *Scanner) unicode(unit rune) bool {
	if s.high != 0 {
		if r := utf16.DecodeRune(rune(s.high), unit); r != utf8.RuneError {
			s.high = 0
			return s.storeRune(r)
		}
		if !s.flushSurrogate() {
			return false
		}
	}
	if 0xd800 <= unit && unit < 0xdc00 {
		s.high = uint16(unit)
		return true
	}
	return s.storeRune(unit)
}

// flushSurrogate decodes a high surrogate that has no low one.
func (s *Scanner) flushSurrogate() bool {
	if s.high == 0 {
		return true
	}
	s.high = 0
	return s.storeRune(utf8.RuneError)
}

func (s *Scanner) storeRune(r rune) bool {
	var b [utf8.UTFMax]byte
	// A lone low surrogate is no valid rune and is encoded as U+FFFD.
	return s.store(b[:utf8.EncodeRune(b[:], r)])
}

// store appends to the text being captured. When the limit is passed it
// reports false, and the rest of the string will be passed over.
func (s *Scanner) store(b []byte) bool {
	limit := s.textLimit()
	if len(b) > limit-s.stored {
		s.state, s.escaped = inLongString, false
		return false
	}
	if !s.key && limit > MinValue && len(s.large) < limit {
		s.large = make([]byte, limit)
	}
	s.stored += copy(s.storage()[s.stored:], b)
	return true
}

// text is what was stored of the key or value.
func (s *Scanner) text() []byte { return s.storage()[:s.stored] }

func (s *Scanner) storage() []byte {
	switch {
	case s.key:
		return s.keys[s.depth-1][:]
	case s.textLimit() > MinValue:
		return s.large
	}
	return s.small[:]
}

func (s *Scanner) textLimit() int {
	if s.key {
		return MaxKey
	}
	return max(s.limit, MinValue)
}

// endString takes a string at its closing quote and reports whether it ends a
// member to be reported.
func (s *Scanner) endString(where found, piece []byte) bool {
	if !s.key {
		return s.end(String, where, piece)
	}
	s.state = atColon
	s.mute = where == nowhere
	if where == inPiece {
		s.stored = copy(s.storage(), piece)
	}
	s.keyLen[s.depth-1] = uint8(s.stored)
	return false
}
