package usage

import "bytes"

// maxLook bounds how far ahead the end of a line is searched for, so that a
// body without one kind of line end is not read through again and again.
const maxLook = 4 << 10

// lineState says which part of a line is next.
type lineState uint8

const (
	lineStart  lineState = iota
	inName               // in the name of a field
	afterColon           // where one space is not part of the value
	inData               // in the value of a data field
	inEvent              // in the value of an event field
	inIgnored            // in another field, or a comment
)

// lines splits a stream into lines and their fields.
type lines struct {
	state   lineState
	value   lineState // the state after afterColon
	afterCR bool      // a line feed now belongs to the line before
	stored  uint8
	// text is the name of a field, and then the value of an event field, with
	// one byte to spare so that a longer text is told from any known.
	text [len("response.incomplete") + 1]byte
}

// store keeps the bytes of p there is room for.
func (l *lines) store(p []byte) { l.stored += uint8(copy(l.text[l.stored:], p)) }

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

// stream reads the next piece of a stream of server-sent events. A line may
// end in LF, CR or CRLF.
func (r *Reader) stream(p []byte) {
	l := &r.lines
	for len(p) > 0 {
		if l.afterCR {
			l.afterCR = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		n := 0
		switch l.state {
		case lineStart:
			if isEnd(p[0]) {
				r.endEvent()
				break
			}
			if !r.event.data {
				if n := quietEvent(p); n > 0 {
					r.endEvent()
					p = p[n:]
					continue
				}
			}
			l.state, l.stored = inName, 0
			continue
		case inName:
			for n < len(p) && p[n] != ':' && !isEnd(p[n]) {
				n++
			}
			l.store(p[:n])
			if n < len(p) {
				r.beginField()
			}
			if n < len(p) && p[n] == ':' {
				l.state = afterColon
				p = p[n+1:]
				continue
			}
		case afterColon:
			l.state = l.value
			if p[0] == ' ' {
				p = p[1:]
			}
			continue
		case inData:
			n = lineEnd(p)
			r.data(p[:n])
		case inEvent:
			n = lineEnd(p)
			l.store(p[:n])
		case inIgnored:
			n = lineEnd(p)
		}
		if n < len(p) && isEnd(p[n]) {
			if l.state == inEvent {
				r.nameEvent(string(l.text[:l.stored]))
			}
			l.state, l.afterCR = lineStart, p[n] == '\r'
			n++
		}
		p = p[n:]
	}
}

// beginField takes the name of a field.
func (r *Reader) beginField() {
	l := &r.lines
	switch string(l.text[:l.stored]) {
	case "data":
		l.value = inData
		r.beginData()
	case "event":
		l.value, l.stored = inEvent, 0
		r.event.named = endNone
	default:
		l.value = inIgnored
	}
}
