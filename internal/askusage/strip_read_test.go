package askusage_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/askusage"
)

// TestStripHoldsNothingBack checks how much has been passed on when a stream
// stalls after each of its bytes.
func TestStripHoldsNothingBack(t *testing.T) {
	decided := func(event, at string) int {
		i := strings.Index(event, at)
		require.GreaterOrEqual(t, i, 0)
		return i + len(at)
	}
	for _, c := range []struct {
		name, event string
		from        int // bytes of the event from which on all is passed on
	}{
		{"text", textEvent, decided(textEvent, `"choices":[{`)},
		{"comment", ": keep-alive\n\n", 1},
		{"named", "event: message_start\ndata: {}\n\n", 1},
		{"end mark", doneEvent, decided(doneEvent, "data: [")},
		{"error", `data: {"error":{"message":"m"}}` + "\n\n", decided(`data: {"error":{"message":"m"}}`, `"error":{`)},
		{"no choices", `data: {"a":1}` + "\n\n", len(`data: {"a":1}`)},
		{"another line", bare + "\nid: 1\n\n", len(bare + "\ni")},
		{"usage chunk", bare + "\n\n", len(bare+"\n\n") + 1},
	} {
		for _, before := range []string{"", textEvent, ": c\n\n", "\r"} {
			for n := 1; n <= len(c.event); n++ {
				src := &source{pieces: [][]byte{[]byte(before + c.event[:n-1]), []byte(c.event[n-1 : n]), {}}, err: io.EOF}
				r := askusage.NewStrip(src, nil)
				want := before
				if n >= c.from {
					want += c.event[:n]
				}
				var got []byte
				p := make([]byte, 4096)
				for len(src.pieces) > 0 {
					k, err := r.Read(p)
					require.NoError(t, err)
					got = append(got, p[:k]...)
				}
				require.Equal(t, want, string(got), "%s, %d bytes after %q", c.name, n, before)
			}
		}
	}
}

// TestStripReturnsWhatItHas checks that a Read does not ask for more while
// there is something to pass on.
func TestStripReturnsWhatItHas(t *testing.T) {
	src := &source{pieces: [][]byte{[]byte(textEvent + textEvent[:20]), []byte(textEvent[20:] + textEvent[:9]), []byte(textEvent[9:])}, err: io.EOF}
	r := askusage.NewStrip(src, nil)
	p := make([]byte, 4096)
	for i := range 3 {
		n, err := r.Read(p)
		require.NoError(t, err)
		assert.Equal(t, textEvent, string(p[:n]))
		assert.Equal(t, i+1, src.reads)
	}
}

func TestStripEmptyReads(t *testing.T) {
	src := &source{pieces: [][]byte{{}, []byte("dat"), {}, []byte(textEvent[3:])}, err: io.EOF}
	r := askusage.NewStrip(src, nil)
	p := make([]byte, 4096)
	n, err := r.Read(nil)
	assert.Zero(t, n)
	assert.NoError(t, err)
	assert.Zero(t, src.reads)
	for range 2 {
		n, err = r.Read(p)
		assert.Zero(t, n, "a read that gave nothing is not repeated")
		assert.NoError(t, err)
	}
	assert.Equal(t, 3, src.reads)
	n, err = r.Read(p)
	assert.Equal(t, textEvent, string(p[:n]))
	assert.NoError(t, err)
	n, err = r.Read(p)
	assert.Zero(t, n)
	assert.Same(t, io.EOF, err)
}

// TestStripErrorWithBytes checks that an error comes in the Read that gives
// the last bytes before it.
func TestStripErrorWithBytes(t *testing.T) {
	for _, c := range []struct{ name, first, last, want string }{
		{"all passed", textEvent, textEvent, textEvent},
		{"last held back", textEvent, `data: {"id`, `data: {"id`},
		{"first held back", `data: {"id`, `":1`, `data: {"id":1`},
		{"both taken out", bare, "\n", ""},
	} {
		src := &source{pieces: [][]byte{[]byte(c.first), []byte(c.last)}, err: errBroken, early: true}
		r := askusage.NewStrip(src, nil)
		p := make([]byte, 4096)
		if c.first == textEvent {
			n, err := r.Read(p)
			require.NoError(t, err)
			require.Equal(t, c.first, string(p[:n]))
		}
		n, err := r.Read(p)
		assert.Equal(t, c.want, string(p[:n]), c.name)
		assert.Same(t, errBroken, err, c.name)
	}
}

// TestStripGoesOnAfterError checks that bytes after an error are passed on,
// those of the event it broke off as they are.
func TestStripGoesOnAfterError(t *testing.T) {
	src := &source{pieces: [][]byte{[]byte(bare[:20])}, err: errBroken}
	r := askusage.NewStrip(src, nil)
	p := make([]byte, 4096)
	n, err := r.Read(p)
	assert.Equal(t, bare[:20], string(p[:n]))
	assert.Same(t, errBroken, err)
	src.pieces = [][]byte{[]byte(bare[20:] + "\n\n" + bare + "\n\n" + doneEvent)}
	n, err = r.Read(p)
	assert.Equal(t, bare[20:]+"\n\n"+doneEvent, string(p[:n]))
	assert.NoError(t, err)
}

func TestStripClose(t *testing.T) {
	src := &source{pieces: [][]byte{[]byte(textEvent)}, err: io.EOF}
	r := askusage.NewStrip(src, nil)
	assert.Same(t, errBroken, r.Close())
	assert.NoError(t, r.Close())
	assert.Equal(t, 1, src.closed)
	assert.Zero(t, src.reads)
}

func TestStripCloseDuringRead(t *testing.T) {
	pr, pw := io.Pipe()
	r := askusage.NewStrip(pr, nil)
	done := make(chan error)
	go func() {
		_, err := r.Read(make([]byte, 100))
		done <- err
	}()
	_, err := pw.Write([]byte("da"))
	require.NoError(t, err)
	require.NoError(t, r.Close())
	// What was held back comes with the error or before it.
	if err := <-done; err == nil {
		_, err = r.Read(make([]byte, 100))
		require.Same(t, io.ErrClosedPipe, err)
	} else {
		require.Same(t, io.ErrClosedPipe, err)
	}
}

// forever gives one stream without end, in pieces.
type forever struct {
	pieces [][]byte
	next   int
}

func (f *forever) Read(p []byte) (int, error) {
	n := copy(p, f.pieces[f.next])
	f.next = (f.next + 1) % len(f.pieces)
	return n, nil
}

func (*forever) Close() error { return nil }

func TestStripAllocatesNothingPerRead(t *testing.T) {
	stream := bytes.TrimSuffix(chatStream(30), []byte(doneEvent))
	withoutUsage := bytes.TrimSuffix(stream, []byte(usageEvent))
	for _, c := range []struct {
		name   string
		pieces [][]byte
	}{
		{"by event", pieces(withoutUsage, 0)},
		{"split", pieces(withoutUsage, 100)},
		{"many at once", pieces(withoutUsage, 2000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &forever{pieces: c.pieces}
			if last := len(f.pieces) - 1; len(f.pieces[last]) == 0 {
				f.pieces = f.pieces[:last]
			}
			seen := 0
			r := askusage.NewStrip(f, func(p []byte) { seen += len(p) })
			p := make([]byte, 4096)
			read := func() {
				if _, err := r.Read(p); err != nil {
					t.Error(err)
				}
			}
			for range 3 * len(f.pieces) {
				read()
			}
			assert.Zero(t, testing.AllocsPerRun(1000, read))
			assert.Positive(t, seen)
		})
	}
}
