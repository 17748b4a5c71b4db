package sdktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/gatewaytest"
)

// long is more tokens than a test waits for: half a minute of them.
const long = 3000

// givenUp checks that the engine was told, and that it is nobody's failure.
func (f *fleet) givenUp(t *testing.T) {
	t.Helper()
	gatewaytest.Eventually(t, "nothing is in flight", func() bool { return f.pool().InFlight == 0 })
	gatewaytest.Eventually(t, "the engine's run has ended", func() bool { return f.counts().Running == 0 })
	counts := f.counts()
	assert.Equal(t, 1, counts.Requests)
	assert.Equal(t, 1, counts.Aborted)
	assert.Zero(t, f.pool().Requests.Failed)
}

// begin starts a long stream and reads the first text of it.
func begin(ctx context.Context, t *testing.T, f *fleet) stream {
	t.Helper()
	s, err := f.sdk.stream(ctx, "s", []string{"hello"}, long)
	require.NoError(t, err)
	for {
		piece, ok := s.next()
		require.True(t, ok, "%v", s.err())
		if piece != "" {
			return s
		}
	}
}

func TestCancelInAStream(t *testing.T) {
	each(t, slow, func(t *testing.T, _ sdk, f *fleet) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := begin(ctx, t, f)
		assert.Equal(t, 1, f.pool().InFlight)
		cancel()
		_, err := read(s)
		require.ErrorIs(t, err, context.Canceled)
		f.givenUp(t)
		_ = s.close() // an SDK may say that it is closed already
	})
}

func TestCancelBeforeTheAnswer(t *testing.T) {
	each(t, slow, func(t *testing.T, _ sdk, f *fleet) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := f.sdk.ask(ctx, "s", []string{"hello"}, 500)
			failed <- err
		}()
		gatewaytest.Eventually(t, "an engine runs it", func() bool { return f.counts().Running == 1 })
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		f.givenUp(t)
	})
}

func TestAbandonedStream(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, s stream, cancel func()){
		"closed after some":  func(t *testing.T, s stream, _ func()) { assert.NoError(t, s.close()) },
		"dropped, cancelled": func(_ *testing.T, _ stream, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, slow, func(t *testing.T, _ sdk, f *fleet) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				leave(t, begin(ctx, t, f), cancel)
				f.givenUp(t)
			})
		})
	}
	t.Run("closed without reading", func(t *testing.T) {
		each(t, slow, func(t *testing.T, _ sdk, f *fleet) {
			s, err := f.sdk.stream(t.Context(), "s", []string{"hello"}, long)
			require.NoError(t, err)
			require.NoError(t, s.close())
			f.givenUp(t)
		})
	})
}

// TestReadToTheEndAndNeverClosed is what programs do that forget the Close: the
// answer is over when its end mark has passed.
func TestReadToTheEndAndNeverClosed(t *testing.T) {
	each(t, quick, func(t *testing.T, _ sdk, f *fleet) {
		s, err := f.sdk.stream(context.WithoutCancel(t.Context()), "s", []string{"hello"}, 8)
		require.NoError(t, err)
		answer, err := read(s)
		require.NoError(t, err)
		assert.Len(t, answer, 32)
		gatewaytest.Eventually(t, "nothing is in flight", func() bool { return f.pool().InFlight == 0 })
		assert.Equal(t, uint64(8), f.pool().Tokens.Completion)
		assert.NoError(t, s.close()) // for the goroutines that are counted
	})
}

func TestTimeout(t *testing.T) {
	each(t, slow, func(t *testing.T, _ sdk, f *fleet) {
		err := f.sdk.within(t.Context(), 300*time.Millisecond, 500)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		f.givenUp(t)
	})
}
