// Package peek reads the beginning of a request body to find the model and
// the ids a conversation may be named by, and hands the body on unread.
//
// It never changes a byte, never reads further than it needs, and never
// decodes or keeps what the fields lie between: of messages it sees only where
// they end.
package peek

import (
	"bytes"
	"io"

	"github.com/warmroute/warmroute/internal/jsonscan"
)

// maxEmptyReads is how many reads in a row may give neither bytes nor an
// error before Read gives up, as bufio does.
const maxEmptyReads = 100

// The smallest and the largest buffer to read into, in bytes.
const (
	minBuffer = 8 << 10
	maxBuffer = 128 << 10
)

// trust is how many times as much as a body has sent it is given room for on the
// strength of its announced size, so that one that announces much and sends
// little does not hold much.
const trust = 16

// Read reads r until the JSON object it holds has ended, stop says that the
// fields so far are enough, or limit bytes are read, whichever is first. It
// does not wait for bytes beyond that, nor for the end of r. A nil stop is
// never satisfied; it is asked after each read that found a field, and must
// not keep the Fields.
//
// It returns the fields, never nil, and head, every byte that was read, in
// order. eof says that r is known to be at its end: head is the whole body.
// A body that is not a JSON object is not an error: it has no fields. An
// error of r other than io.EOF comes back with what was read before it; it is
// io.ErrNoProgress if r keeps giving nothing. Pass it to ReplayError, so that
// the next reader meets it in its place.
func Read(r io.Reader, limit int64, stop func(*Fields) bool) (f *Fields, head []byte, eof bool, err error) {
	return ReadSized(r, -1, limit, stop)
}

// ReadSized is Read of a body that is said to have size bytes, below 0 if that
// is not known: what is read is then copied less often.
func ReadSized(r io.Reader, size, limit int64, stop func(*Fields) bool) (f *Fields, head []byte, eof bool, err error) {
	f = new(Fields)
	var s jsonscan.Scanner
	s.Reset(MaxValue)
	b := buffer{expected: min(size, limit)}
	for empty := 0; b.size < limit; {
		room := b.room(limit)
		n, err := r.Read(room)
		b.take(n)
		enough := f.scan(&s, room[:n], stop)
		switch {
		case err == io.EOF:
			return f, b.bytes(), true, nil
		case err != nil:
			return f, b.bytes(), false, err
		case enough:
			return f, b.bytes(), false, nil
		}
		if empty++; n > 0 {
			empty = 0
		}
		if empty == maxEmptyReads {
			return f, b.bytes(), false, io.ErrNoProgress
		}
	}
	return f, b.bytes(), false, nil
}

// buffer holds a body of unknown size. What it holds is joined once at the
// end, rather than copied as it grows, so that head has no room to spare that
// would be kept as long as the request runs.
type buffer struct {
	full     [][]byte
	last     []byte
	size     int64
	expected int64 // 0 or less if not known
}

// room is where to read the next bytes to, one at least if size is under limit.
func (b *buffer) room(limit int64) []byte {
	if len(b.last) == cap(b.last) {
		if b.size < b.expected && b.expected <= max(b.size*trust, maxBuffer/2) {
			whole := make([]byte, 0, b.expected)
			for _, piece := range b.full {
				whole = append(whole, piece...)
			}
			b.full, b.last = nil, append(whole, b.last...)
			return b.last[len(b.last):cap(b.last)]
		}
		if len(b.last) > 0 {
			b.full = append(b.full, b.last)
		}
		size := min(max(b.size, minBuffer), maxBuffer, limit-b.size)
		b.last = make([]byte, 0, size)
	}
	return b.last[len(b.last):cap(b.last)]
}

// take adds the first n bytes of room.
func (b *buffer) take(n int) {
	b.last = b.last[:len(b.last)+n]
	b.size += int64(n)
}

func (b *buffer) bytes() []byte {
	if len(b.full) == 0 {
		return b.last
	}
	return bytes.Join(append(b.full, b.last), nil)
}

// scan takes the next piece of the body and reports whether no more is needed.
func (f *Fields) scan(s *jsonscan.Scanner, piece []byte, stop func(*Fields) bool) bool {
	found := false
	for {
		n, token := s.Next(piece)
		piece = piece[n:]
		switch token {
		case jsonscan.Member:
			f.member(s)
			found = true
			continue
		case jsonscan.End:
			f.complete = true
			return true
		case jsonscan.Invalid:
			f.entries = nil
			return true
		}
		return found && stop != nil && stop(f)
	}
}
