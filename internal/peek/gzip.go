package peek

import (
	"compress/gzip"
	"io"
	"sync"
)

// ReadGzip is Read for a body that is compressed with gzip. text is what was
// read of it decompressed, head the bytes as they came. Both are bounded by
// limit, so that neither a body that unpacks to much more nor one that unpacks
// to nothing costs more than another. What is no gzip, or breaks off in it, is
// not an error: it has the fields before.
func ReadGzip(r io.Reader, limit int64, stop func(*Fields) bool) (f *Fields, text, head []byte, eof bool, err error) {
	source := &recorder{r: r, limit: limit}
	z := unpackers.Get().(*gzip.Reader)
	// It goes on pointing to what it read last, which may be large and belongs to
	// a connection.
	defer func() { source.r, source.b = nil, buffer{}; unpackers.Put(z) }()
	if z.Reset(source) == nil {
		f, text, _, _ = Read(z, limit, stop)
	} else {
		f = new(Fields)
	}
	return f, text, source.b.bytes(), source.err == io.EOF, source.failure()
}

// An unpacker is some 40 KB.
var unpackers = sync.Pool{New: func() any { return new(gzip.Reader) }}

// recorder keeps what is read through it, up to its limit. There it ends.
type recorder struct {
	r     io.Reader
	limit int64
	b     buffer
	err   error // of r
}

func (t *recorder) Read(p []byte) (int, error) {
	if t.err != nil {
		return 0, t.err
	}
	if t.b.size >= t.limit {
		return 0, io.EOF
	}
	room := t.b.room(t.limit)
	n, err := t.r.Read(room[:min(len(room), len(p))])
	copy(p, room[:n])
	t.b.take(n)
	t.err = err
	return n, err
}

func (t *recorder) failure() error {
	if t.err == io.EOF {
		return nil
	}
	return t.err
}
