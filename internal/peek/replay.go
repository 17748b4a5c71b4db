package peek

import (
	"errors"
	"io"
	"sync/atomic"
)

// ErrClosed is what a replayed body gives when it is read after Close.
var ErrClosed = errors.New("peek: read on a closed body")

// Replay returns a body that gives head, then the rest of rest. Its Close
// closes rest, once, and may be called while another goroutine reads; further
// calls do nothing.
func Replay(head []byte, rest io.ReadCloser) io.ReadCloser {
	return &replay{head: head, rest: rest}
}

// ReplayError is Replay for a body whose reading failed after head: it gives
// head, then err. It never reads rest and only closes it.
func ReplayError(head []byte, err error, rest io.ReadCloser) io.ReadCloser {
	return &replay{head: head, err: err, rest: rest}
}

type replay struct {
	head   []byte
	err    error
	rest   io.ReadCloser
	closed atomic.Bool
}

func (b *replay) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, ErrClosed
	}
	if len(b.head) > 0 {
		n := copy(p, b.head)
		if b.head = b.head[n:]; len(b.head) == 0 {
			b.head = nil // the body may live much longer than its head
		}
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.rest.Read(p)
}

func (b *replay) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	return b.rest.Close()
}
