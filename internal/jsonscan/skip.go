package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// ContainerEnd is the length of the object or array that p begins with, len(p)
// if it does not end there.
func ContainerEnd(p []byte) int {
	s := Scanner{skipped: 1}
	return s.skip(p, 1)
}

// StringEnd is the length of the string that p begins with, quotes included,
// len(p) if it does not end there.
func StringEnd(p []byte) int {
	var s Scanner
	n, _ := s.skipString(p, 1)
	return n
}

// skip goes on with a container that is passed over and returns where it
// stopped: after the container, or at the end of p.
func (s *Scanner) skip(p []byte, i int) int {
	depth := s.skipped
	if s.state == inSkippedText {
		var ended bool
		if i, ended = s.skipString(p, i); !ended {
			return i
		}
		s.state = inSkipped
	}
	for i < len(p) {
		c := p[i]
		if !isStructure(c) {
			if i++; i < len(p) && !isStructure(p[i]) {
				i = indexStructure(p, i+1)
			}
			if i == len(p) {
				break
			}
			c = p[i]
		}
		i++
		switch c {
		case '"':
			s.escaped = false
			var ended bool
			if i, ended = s.skipString(p, i); !ended {
				s.state, s.skipped = inSkippedText, depth
				return i
			}
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
	for i < len(p) {
		// Near: short strings end here, and escapes mostly come in clusters.
		if c := p[i]; c != '"' && c != '\\' && len(p)-i >= 8 {
			x := binary.LittleEndian.Uint64(p[i:])
			i += bits.TrailingZeros64(zeros(x^'"'*ones)|zeros(x^'\\'*ones)|1<<63) / 8
		}
		switch p[i] {
		case '"':
			return i + 1, true
		case '\\':
			if i += 2; i > len(p) {
				s.escaped = true
				return len(p), false
			}
			continue
		}
		// Far: the next quote, unless it is escaped.
		from := i
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
	return i, false
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

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// zeros has the high bit set of every byte that is zero in x, and perhaps of
// bytes above one that is: the lowest is right.
func zeros(x uint64) uint64 { return (x - ones) &^ x & highs }

// isStructure reports whether c is a quote, brace or bracket. Braces differ from
// brackets in one bit only.
func isStructure(c byte) bool { return c == '"' || c|0x20 == '{' || c|0x20 == '}' }

// indexStructure is the index of the first quote, brace or bracket in p from i
// on, or len(p).
func indexStructure(p []byte, i int) int {
	for len(p)-i >= 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		folded := x | 0x20*ones
		if found := zeros(x^'"'*ones) | zeros(folded^'{'*ones) | zeros(folded^'}'*ones); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
		i += 8
	}
	for ; i < len(p); i++ {
		if isStructure(p[i]) {
			break
		}
	}
	return i
}
