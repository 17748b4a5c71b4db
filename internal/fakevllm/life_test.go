package fakevllm_test

import (
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

func TestStopAndStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{Ranks: 2})
		conversation := []chatMessage{user(words("long", 100))}
		chat(t, s, "1", 5, conversation...)
		require.Positive(t, chat(t, s, "1", 5, conversation...).cached)
		_, before := get(t, s, "/metrics")
		under, err := s.RoundTrip(ask{body: endless}.request(t))
		require.NoError(t, err)
		time.Sleep(time.Second)

		s.Stop()
		s.Stop() // once is enough
		_, err = io.ReadAll(under.Body)
		assert.ErrorIs(t, err, syscall.ECONNRESET)
		var op *net.OpError
		_, err = s.RoundTrip(ask{body: endless}.request(t))
		require.ErrorAs(t, err, &op)
		assert.Equal(t, "dial", op.Op)
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		assert.Equal(t, http.StatusServiceUnavailable, serve(s, http.MethodGet, "/health", ""))
		assert.Equal(t, 2, s.Rank(1).Finished, "until it starts again")

		time.Sleep(time.Minute)
		s.Start()
		s.Start()
		assert.Equal(t, s.Rank(0), s.Rank(1))
		assert.Zero(t, s.Rank(1).Requests)
		_, after := get(t, s, "/metrics")
		assert.NotEqual(t, started(before), started(after))
		assert.Zero(t, chat(t, s, "1", 5, conversation...).cached, "the cache is cold")
		assert.Positive(t, chat(t, s, "1", 5, conversation...).cached)
	})
}

// started is the line of a metrics page with the start of the process.
func started(page string) string { return lineWith(page, "process_start_time_seconds ") }

func TestStopBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{})
		failed := make(chan error, 1)
		go func() {
			_, err := s.RoundTrip(ask{body: chatBody{Messages: []chatMessage{user("hi")}, MaxTokens: 1000}}.request(t))
			failed <- err
		}()
		time.Sleep(time.Second)
		s.Stop()
		assert.ErrorIs(t, <-failed, syscall.ECONNRESET)
		require.NoError(t, s.Close())
		s.Start()
		_, err := s.RoundTrip(ask{body: endless}.request(t))
		assert.ErrorIs(t, err, http.ErrServerClosed, "a closed server does not start")
	})
}
