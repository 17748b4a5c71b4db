package askusage

import (
	"io"
	"slices"
	"sync/atomic"
)

// minRoom is how many bytes at least there is room for when more is read
// behind an event that is held back.
const minRoom = 512

// NewStrip returns a reader that passes on a stream of server-sent events as
// it comes, but for the event that Ask brought: one with a single line, data,
// that is a JSON object with an empty array as its choices, a usage object,
// and no error. It goes with its blank line, or without if the stream ends
// before that. Comments before it stay. No other byte is ever changed. Should
// there be more than one such event, which no engine sends, all are taken out.
//
// An event is held back only until it is certain that it is another one: in a
// chunk with text, until its choices turn out to have an element. An event of
// more than 64 KiB is passed on without a further look, which bounds what is
// held.
//
// see, if it is not nil, is called with every byte that is read from inner,
// taken out or not, in order and before it is passed on. It must not keep or
// change the bytes.
//
// Errors of inner come as they are, behind the bytes before them; a Read that
// gives neither bytes nor an error gives neither here. The first Close closes
// inner, further ones do nothing; like inner's it may be called during a Read.
func NewStrip(inner io.ReadCloser, see func([]byte)) io.ReadCloser {
	return &strip{inner: inner, see: see}
}

type strip struct {
	inner  io.ReadCloser
	see    func([]byte)
	closed atomic.Bool
	sifter sifter

	// buf[:ready] can be passed on, buf[ready:] is held back. buf is used
	// only while something is held back; the rest never leaves the slice it
	// was read into.
	buf   []byte
	ready int
	sent  int   // bytes of buf[:ready] that were passed on
	err   error // of inner, comes after them
}

func (s *strip) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if s.sent < s.ready {
			return s.send(p)
		}
		var passed, read int
		var err error
		if s.ready == len(s.buf) {
			passed, read, err = s.readThrough(p)
		} else if read, err = s.readBehind(); s.ready > 0 {
			s.err = err
			continue
		}
		if passed > 0 || read == 0 || err != nil {
			return passed, err
		}
	}
}

func (s *strip) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.inner.Close()
}

// send passes on what is ready.
func (s *strip) send(p []byte) (int, error) {
	n := copy(p, s.buf[s.sent:s.ready])
	s.sent += n
	if s.sent < s.ready {
		return n, nil
	}
	err := s.err
	s.err = nil
	return n, err
}

// readThrough reads into p while nothing is held back.
func (s *strip) readThrough(p []byte) (passed, read int, err error) {
	read, err = s.read(p)
	passed, held := s.sift(p[:read], 0, err)
	s.ready, s.sent = 0, 0
	s.buf = s.buf[:0]
	if held > 0 {
		s.buf = append(slices.Grow(s.buf, held+minRoom), p[passed:passed+held]...)
	}
	return passed, read, err
}

// readBehind reads into buf behind what is held back.
func (s *strip) readBehind() (read int, err error) {
	old := closeUp(s.buf, 0, s.ready, len(s.buf))
	s.buf = slices.Grow(s.buf[:old], minRoom)
	room := s.buf[old:cap(s.buf)]
	read, err = s.read(room)
	passed, held := s.sift(s.buf[:old+read], old, err)
	s.buf = s.buf[:passed+held]
	s.ready, s.sent = passed, 0
	return read, err
}

// read reads from inner.
func (s *strip) read(p []byte) (int, error) {
	n, err := s.inner.Read(p)
	if n > 0 && s.see != nil {
		s.see(p[:n])
	}
	return n, err
}

// sift sifts b, of which the first old bytes were held back. It leaves what
// can be passed on at the front of b, and behind that what is held back:
// nothing once err, which is what inner gave, is an error.
func (s *strip) sift(b []byte, old int, err error) (passed, held int) {
	passed, begin := s.sifter.sift(b, old)
	if err != nil && s.sifter.end(b[begin:]) {
		begin = len(b)
	}
	end := closeUp(b, passed, begin, len(b))
	if err != nil {
		return end, 0
	}
	return passed, end - passed
}
