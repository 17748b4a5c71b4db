package fakevllm

import (
	"bytes"
	"io"
	"net/http"
	"sync"
)

// buffer is a pipe with room for everything: a writer never waits.
type buffer struct {
	news chan struct{} // signalled when a reader may find more

	mu    sync.Mutex
	bytes bytes.Buffer
	ended bool
	err   error // what a reader gets at the end
}

func (b *buffer) write(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.bytes.Write(p)
		b.signal()
	}
}

// end says that nothing follows. A reader gets err, or io.EOF if err is nil.
func (b *buffer) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.ended, b.err = true, io.EOF
	if err != nil {
		b.err = err
	}
	b.signal()
}

// close drops what has not been read.
func (b *buffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes = bytes.Buffer{}
	b.ended, b.err = true, http.ErrBodyReadAfterClose
	b.signal()
}

// read takes what is there. It reports done with the error when nothing is
// there and nothing follows.
func (b *buffer) read(p []byte) (n int, done bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes.Len() > 0 {
		n, err = b.bytes.Read(p)
		return n, false, err
	}
	return 0, b.ended, b.err
}

func (b *buffer) signal() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}
