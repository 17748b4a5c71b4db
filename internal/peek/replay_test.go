package peek_test

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/peek"
)

// body counts how often it is closed.
type body struct {
	io.Reader
	mu     sync.Mutex
	closed int
}

func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed++
	return errors.New("closing failed")
}

func TestReplay(t *testing.T) {
	for _, head := range []string{"", "h", "head and ", strings.Repeat("head", 5000)} {
		rest := "the rest"
		require.NoError(t, iotest.TestReader(peek.Replay([]byte(head), io.NopCloser(strings.NewReader(rest))), []byte(head+rest)))
		all, err := io.ReadAll(iotest.OneByteReader(peek.Replay([]byte(head), io.NopCloser(strings.NewReader(rest)))))
		require.NoError(t, err)
		assert.Equal(t, head+rest, string(all))
	}
}

func TestReplayError(t *testing.T) {
	broken := errors.New("broken")
	b := &body{Reader: strings.NewReader("never read")}
	r := peek.ReplayError([]byte("head"), broken, b)
	all, err := io.ReadAll(r)
	assert.Equal(t, "head", string(all))
	assert.Equal(t, broken, err)
	n, err := r.Read(make([]byte, 1))
	assert.Zero(t, n)
	assert.Equal(t, broken, err, "the error stays")
	require.Error(t, r.Close())
	assert.Equal(t, 1, b.closed)
}

func TestReplayClose(t *testing.T) {
	b := &body{Reader: strings.NewReader("rest")}
	r := peek.Replay([]byte("head"), b)
	n, err := r.Read(make([]byte, 2))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	assert.EqualError(t, r.Close(), "closing failed")
	assert.NoError(t, r.Close(), "a second time")
	assert.Equal(t, 1, b.closed)
	n, err = r.Read(make([]byte, 2))
	assert.Zero(t, n)
	assert.Equal(t, peek.ErrClosed, err)
}

// TestReplayCloseWhileReading is for the race detector: a transport may close
// a request body while it is read.
func TestReplayCloseWhileReading(t *testing.T) {
	b := &body{Reader: strings.NewReader(strings.Repeat("rest", 1000))}
	r := peek.Replay([]byte("head"), b)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(io.Discard, iotest.OneByteReader(r)) })
	for range 4 {
		wg.Go(func() { _ = r.Close() })
	}
	wg.Wait()
	assert.Equal(t, 1, b.closed)
}
