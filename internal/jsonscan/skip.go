package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// skip goes on with a container that is passed over and returns where it
// stopped: after the container, or at the end of p.
func (s *Scanner) skip(p []byte, i int) int {
	depth := s.skipped
	for i < len(p) {
		if s.state == inSkippedText {
			var ended bool
			if i, ended = s.skipString(p, i); !ended {
				break
			}
			s.state = inSkipped
		}
		i = indexStructure(p, i)
		if i == len(p) {
			break
		}
		c := p[i]
		i++
		switch c {
		case '"':
			s.state, s.escaped = inSkippedText, false
		case '{', '[':
			depth++
		default:
			depth--
			if depth == 0 {
				s.state = atDelimiter
				return i
			}
		}
	}
	s.skipped = depth
	return i
}

// skipString goes on with a string that is passed over. It returns where it
// stopped, and whether that is after the closing quote rather than at the end
// of p.
func (s *Scanner) skipString(p []byte, i int) (int, bool) {
	if s.escaped && i < len(p) {
		s.escaped = false
		i++
	}
	from := i
	for {
		n := bytes.IndexByte(p[i:], '"')
		if n < 0 {
			s.escaped = oddBackslashes(p[from:])
			return len(p), false
		}
		i += n + 1
		if !oddBackslashes(p[from : i-1]) {
			return i, true
		}
	}
}

// oddBackslashes reports whether b ends in an odd number of backslashes, so
// that the byte after it is escaped.
func oddBackslashes(b []byte) bool {
	n := len(b)
	for n > 0 && b[n-1] == '\\' {
		n--
	}
	return (len(b)-n)&1 != 0
}

// indexStructure is the index of the first quote, brace or bracket in p from i
// on, or len(p).
func indexStructure(p []byte, i int) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	// Eight bytes at a time: a byte of x^(c*ones) is zero where c is, and the
	// lowest bit that (y-ones)&^y&highs sets belongs to a zero byte of y.
	// Braces differ from brackets in one bit only.
	for len(p)-i >= 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		quote := x ^ '"'*ones
		folded := x | 0x20*ones
		open := folded ^ '{'*ones
		shut := folded ^ '}'*ones
		found := ((quote-ones)&^quote | (open-ones)&^open | (shut-ones)&^shut) & highs
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
		i += 8
	}
	for ; i < len(p); i++ {
		if c := p[i]; c == '"' || c|0x20 == '{' || c|0x20 == '}' {
			break
		}
	}
	return i
}
