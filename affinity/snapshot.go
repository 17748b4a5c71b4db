package affinity

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"math"
	"time"
)

// ErrSnapshot is wrapped by the error for what is not a whole snapshot: cut
// off, changed, of a version this package does not know, or something else
// altogether.
var ErrSnapshot = errors.New("not a valid session snapshot")

// snapshotMagic begins every snapshot; its number is the version.
const snapshotMagic = "warmroute sessions 1\n"

const maxNameLen = 1 << 12

// Snapshot is the conversations of any number of tables at one moment, by the
// names of their homes. It holds session keys as they are: keep it as safe as
// the logs of what is asked with them.
type Snapshot struct {
	Time  time.Time
	Homes []HomeSnapshot
}

// HomeSnapshot is the conversations bound to one home.
type HomeSnapshot struct {
	// Table and Home name it; 4,096 bytes each at the most.
	Table, Home string
	Bindings    []Binding
}

// Write writes the snapshot. What it writes ends with a checksum.
func (s *Snapshot) Write(out io.Writer) error {
	sum := newChecksum()
	w := snapshotWriter{out: bufio.NewWriter(io.MultiWriter(out, sum))}
	w.raw(snapshotMagic)
	w.number(uint64(max(0, s.Time.UnixNano())))
	w.number(uint64(len(s.Homes)))
	for _, h := range s.Homes {
		w.text(h.Table, maxNameLen)
		w.text(h.Home, maxNameLen)
		w.number(uint64(len(h.Bindings)))
		for _, b := range h.Bindings {
			w.text(b.Key, MaxKeyLen)
			w.number(uint64(max(0, b.Idle)))
		}
	}
	if w.err == nil {
		w.err = w.out.Flush()
	}
	if w.err == nil {
		_, w.err = out.Write(sum.Sum(nil))
	}
	if w.err != nil {
		return fmt.Errorf("write session snapshot: %w", w.err)
	}
	return nil
}

func newChecksum() hash.Hash64 { return crc64.New(crc64.MakeTable(crc64.ECMA)) }

type snapshotWriter struct {
	out *bufio.Writer
	buf [binary.MaxVarintLen64]byte
	err error
}

func (w *snapshotWriter) raw(s string) {
	if w.err == nil {
		_, w.err = w.out.WriteString(s)
	}
}

func (w *snapshotWriter) number(n uint64) {
	if w.err == nil {
		_, w.err = w.out.Write(binary.AppendUvarint(w.buf[:0], n))
	}
}

func (w *snapshotWriter) text(s string, most int) {
	if w.err == nil && len(s) > most {
		w.err = fmt.Errorf("%d bytes where at most %d are allowed", len(s), most)
	}
	w.number(uint64(len(s)))
	w.raw(s)
}

// ReadSnapshot reads what [Snapshot.Write] wrote, to the end of in. It returns
// an error that wraps [ErrSnapshot], or in's own, and never a part of a
// snapshot. Memory is bounded by the size of what is read.
func ReadSnapshot(in io.Reader) (*Snapshot, error) {
	r := snapshotReader{in: bufio.NewReader(in), sum: newChecksum()}
	s := r.snapshot()
	if r.err != nil {
		return nil, fmt.Errorf("read session snapshot at byte %d: %w", r.offset, r.err)
	}
	return s, nil
}

type snapshotReader struct {
	in     *bufio.Reader
	sum    hash.Hash64
	buf    []byte
	offset int64
	err    error
}

func (r *snapshotReader) snapshot() *Snapshot {
	if r.raw(len(snapshotMagic)) != snapshotMagic {
		r.invalid("it does not begin with %q", snapshotMagic)
		return nil
	}
	s := &Snapshot{Time: time.Unix(0, int64(r.number(math.MaxInt64)))}
	for homes := r.number(math.MaxUint32); homes > 0 && r.err == nil; homes-- {
		h := HomeSnapshot{Table: r.text(maxNameLen), Home: r.text(maxNameLen)}
		for bindings := r.number(math.MaxUint32); bindings > 0 && r.err == nil; bindings-- {
			h.Bindings = append(h.Bindings, Binding{Key: r.text(MaxKeyLen), Idle: time.Duration(r.number(math.MaxInt64))})
		}
		s.Homes = append(s.Homes, h)
	}
	want := string(r.sum.Sum(nil))
	if r.raw(len(want)) != want {
		r.invalid("its checksum does not match")
	}
	if _, err := r.in.ReadByte(); r.err == nil && err != io.EOF {
		r.invalid("it goes on after its end")
	}
	return s
}

func (r *snapshotReader) invalid(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrSnapshot, fmt.Sprintf(format, args...))
	}
}

// raw reads n bytes.
func (r *snapshotReader) raw(n int) string {
	if r.err != nil {
		return ""
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, max(n, 512))
	}
	b := r.buf[:n]
	got, err := io.ReadFull(r.in, b)
	r.offset += int64(got)
	if err != nil {
		r.readError(err)
		return ""
	}
	r.sum.Write(b) //nolint:errcheck // a hash.Hash never returns one
	return string(b)
}

func (r *snapshotReader) number(most uint64) uint64 {
	if r.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(byteReader{r})
	switch {
	case err == nil && n > most:
		r.invalid("a number is too large")
	case err != nil && r.err == nil:
		r.invalid("a number is malformed")
	}
	if r.err != nil {
		return 0
	}
	return n
}

func (r *snapshotReader) text(most uint64) string { return r.raw(int(r.number(most))) }

func (r *snapshotReader) readError(err error) {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		r.invalid("it is cut off")
		return
	}
	if r.err == nil {
		r.err = err
	}
}

// byteReader is for binary.ReadUvarint.
type byteReader struct{ r *snapshotReader }

func (b byteReader) ReadByte() (byte, error) {
	c, err := b.r.in.ReadByte()
	if err != nil {
		b.r.readError(err)
		return 0, err
	}
	b.r.offset++
	b.r.sum.Write([]byte{c}) //nolint:errcheck // a hash.Hash never returns one
	return c, nil
}

// Restore binds a conversation that has been idle for some time to the home,
// as if its last request had ended that long ago. It does nothing, and returns
// false, if the conversation is in the table already, if its TTL is over, if
// the table is full, or if the home is closed.
func (h *Home[H]) Restore(b Binding, now time.Time) bool {
	t := h.table
	if b.Key == "" || len(b.Key) > MaxKeyLen || b.Idle < 0 || int64(b.Idle) >= t.ttl || t.n.Load() >= t.max {
		return false
	}
	use := t.at(now.Add(-b.Idle))
	hash := t.Hash(b.Key)
	sh := t.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.index.find(b.Key, hash) != nil || h.closed.Load() {
		return false
	}
	s := &Session[H]{}
	s.key.set(b.Key)
	s.minute.Store(minuteOf(use))
	s.lastUse.Store(use)
	t.insert(sh, hash, s)
	s.bind(h, sh.id)
	s.state.Or(warm)
	return true
}
