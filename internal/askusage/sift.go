package askusage

import (
	"bytes"
	"encoding/json"
)

const (
	// maxEvent is the size of the largest event that is looked at, in bytes:
	// its line and the first byte of the blank line after it. A usage chunk
	// of vLLM has about 300.
	maxEvent = 64 << 10
	// maxLook bounds how far ahead the end of a line is searched for, so that
	// a stream without one kind of line end is not read again and again.
	maxLook = 4 << 10
)

// dataField begins the only line of a usage chunk.
const dataField = "data:"

// place says what the next byte of the stream belongs to.
type place uint8

const (
	// Bytes that are passed on.
	atEvent      place = iota // where an event, a comment or a blank line begins
	inComment                 // a comment before an event
	inPassed                  // a line of an event that is not the usage chunk
	atPassedLine              // the start of a further line of it

	// Bytes that are held back.
	inField // dataField
	inData  // the object
	afterData
	atBlank // the start of the next line, which has to be blank
)

// sifter finds the usage chunks in a stream of server-sent events. A line may
// end in LF, CR or CRLF.
type sifter struct {
	place   place
	afterCR bool // a line feed now belongs to the line before
	cut     bool // and that line was taken out
	field   int  // bytes of dataField read
	chunk   chunk

	// common is how the last event began that was seen to have a choice, up
	// to there. All chunks of a stream with text begin alike, and one that
	// begins like this has a choice too.
	common    [256]byte
	commonLen int
}

// holds reports whether an event is being held back.
func (s *sifter) holds() bool { return s.place >= inField }

// sift reads b from i on; what is before was held back and has been read. It
// moves what is to be passed on to the front of b and returns how much that
// is. b[begin:] is held back now.
func (s *sifter) sift(b []byte, i int) (passed, begin int) {
	from := 0 // b[from:] is not yet dealt with
	for i < len(b) {
		if s.afterCR {
			s.afterCR = false
			if b[i] == '\n' {
				i++
				if s.cut {
					from = i
				}
				continue
			}
		}
		switch {
		case s.place == atEvent:
			begin = i
			i = s.event(b, i)
		case !s.holds():
			i = s.pass(b, i)
		default:
			var found bool
			if i, found = s.look(b, begin, i); found {
				passed = closeUp(b, passed, from, begin)
				from, s.cut = i, true
			}
		}
	}
	if s.holds() && len(b)-begin > maxEvent {
		s.release()
	}
	if !s.holds() {
		begin = len(b)
	}
	return closeUp(b, passed, from, begin), begin
}

// event reads the first byte of an event, a comment or a blank line, or all
// of an event that it takes to pass it on.
func (s *sifter) event(b []byte, i int) int {
	switch c := b[i]; {
	case isEnd(c):
		return s.endLine(c, i, atEvent)
	case c == ':':
		s.place = inComment
	case s.commonLen > 0 && bytes.HasPrefix(b[i:], s.common[:s.commonLen]):
		s.place = inPassed
		return i + s.commonLen
	default:
		s.place, s.field = inField, 0
	}
	return i
}

// pass reads on in a line that is passed on.
func (s *sifter) pass(b []byte, i int) int {
	if s.place == atPassedLine {
		if isEnd(b[i]) {
			return s.endLine(b[i], i, atEvent)
		}
		s.place = inPassed
	}
	i += lineEnd(b[i:])
	if i == len(b) || !isEnd(b[i]) {
		return i
	}
	if s.place == inComment {
		return s.endLine(b[i], i, atEvent)
	}
	return s.endLine(b[i], i, atPassedLine)
}

// look reads on in an event that is held back and begins at begin. found is
// true after the blank line of a usage chunk; of another event the first byte
// that shows it need not have been read.
func (s *sifter) look(b []byte, begin, i int) (next int, found bool) {
	c := b[i]
	switch s.place {
	case inField:
		if c != dataField[s.field] {
			break
		}
		if s.field++; s.field == len(dataField) {
			s.place = inData
			s.chunk.reset()
		}
		return i + 1, false
	case inData:
		if isEnd(c) {
			break // its object does not end on this line
		}
		line := b[i : i+lineEnd(b[i:])]
		n, v := s.chunk.read(line)
		i += n
		switch v {
		case undecided:
			return i, false
		case usageOnly:
			s.place = afterData
			return i, false
		case hasChoice:
			if start := b[begin:i]; len(start) <= len(s.common) {
				s.commonLen = copy(s.common[:], start)
			}
		}
	case afterData:
		if c == ' ' || c == '\t' {
			return i + 1, false
		}
		if isEnd(c) {
			return s.endLine(c, i, atBlank), false
		}
	case atBlank:
		if isEnd(c) {
			data := b[begin+len(dataField) : i]
			i = s.endLine(c, i, atEvent)
			return i, i-begin <= maxEvent && json.Valid(data)
		}
	}
	s.place = inPassed
	return i, false
}

// closeUp moves b[from:to] down to b[at:] and returns where it ends there.
func closeUp(b []byte, at, from, to int) int {
	if at == from {
		return to
	}
	return at + copy(b[at:], b[from:to])
}

// end takes the end of the stream and reports whether what is held back is a
// usage chunk, but for its blank line.
func (s *sifter) end(held []byte) bool {
	whole := s.place == afterData || s.place == atBlank
	s.release()
	return whole && json.Valid(held[len(dataField):])
}

// release gives up on the event that is held back, if there is one.
func (s *sifter) release() {
	switch s.place {
	case atBlank:
		s.place = atPassedLine
	case inField, inData, afterData:
		s.place = inPassed
	}
}

// endLine takes c, the byte at i, which ends a line.
func (s *sifter) endLine(c byte, i int, next place) int {
	s.place, s.afterCR, s.cut = next, c == '\r', false
	return i + 1
}

// isEnd reports whether c ends a line.
func isEnd(c byte) bool { return c == '\n' || c == '\r' }

// lineEnd is the index of the first line end in p, or how much of p is known
// to have none.
func lineEnd(p []byte) int {
	p = p[:min(len(p), maxLook)]
	if n := bytes.IndexByte(p, '\n'); n >= 0 {
		p = p[:n]
	}
	if n := bytes.IndexByte(p, '\r'); n >= 0 {
		p = p[:n]
	}
	return len(p)
}
