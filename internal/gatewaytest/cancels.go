package gatewaytest

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

// slow is an engine that takes a second for a hundred tokens.
func slow() fakevllm.Config { return fakevllm.Config{StepTime: 10 * time.Millisecond} }

// long is more tokens than a test waits for: half a minute of them.
const long = 3000

// ended checks that the one request was given up, and is nobody's failure.
func (f *fleet) ended() {
	f.t.Helper()
	Eventually(f.t, "nothing is in flight", func() bool { return f.pool().InFlight == 0 })
	Eventually(f.t, "the engine's run has ended", func() bool { return f.ranks().Running == 0 })
	counts := f.ranks()
	assert.Equal(f.t, 1, counts.Requests)
	assert.Equal(f.t, 1, counts.Aborted, "the engine was told")
	assert.Zero(f.t, f.pool().Requests.Failed, "a client's cancel is not a replica's failure")
}

func (g Gateway) clientLeavesStream(t *testing.T) {
	for _, a := range apis {
		t.Run(a.path[len("/v1/"):], func(t *testing.T) {
			f := g.start(t, 1, slow())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := f.ask(ctx, a, "s", []string{"hello"}, true, long)
			require.NoError(t, err)
			defer resp.Body.Close()
			lines := bufio.NewReader(resp.Body)
			for range 12 { // into the answer itself
				_, err = lines.ReadString('\n')
				require.NoError(t, err)
			}
			cancel()
			f.ended()
		})
	}
}

func (g Gateway) clientNeverReads(t *testing.T) {
	f := g.start(t, 1, slow())
	resp, err := f.ask(t.Context(), chat, "s", []string{"hello"}, true, long)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	f.ended()
}

func (g Gateway) clientLeavesEarly(t *testing.T) {
	f := g.start(t, 1, slow())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tokens := long
	if g.NoticesLate {
		tokens = 50
	}
	failed := make(chan error, 1)
	go func() {
		resp, err := f.ask(ctx, chat, "s", []string{"hello"}, false, tokens)
		if err == nil {
			err = resp.Body.Close()
		}
		failed <- err
	}()
	Eventually(t, "the engine runs it", func() bool { return f.ranks().Running == 1 })
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	if !g.NoticesLate {
		f.ended()
		return
	}
	Eventually(t, "nothing is in flight", func() bool { return f.pool().InFlight == 0 })
	assert.Equal(t, 1, f.ranks().Requests)
	assert.Zero(t, f.pool().Requests.Failed)
}

// engineDies has the client see that the answer is not whole: a gateway that
// ends the body as if it were lets half an answer pass for one.
func (g Gateway) engineDies(t *testing.T) {
	f := g.start(t, 1, slow())
	resp, err := f.ask(t.Context(), chat, "s", []string{"hello"}, true, long)
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	lines := bufio.NewReader(resp.Body)
	_, err = lines.ReadString('\n')
	require.NoError(t, err)
	f.servers[0].CloseClientConnections()
	_, err = io.Copy(io.Discard, lines)
	require.Error(t, err, "half an answer must not look whole")
	Eventually(t, "nothing is in flight", func() bool { return f.pool().InFlight == 0 })
	failed := uint64(1)
	if g.BreaksUnseen {
		failed = 0
	}
	assert.Equal(t, failed, f.pool().Requests.Failed)
}
