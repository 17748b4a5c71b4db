package bench_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench"
)

func traceFile(t testing.TB) []bench.TraceSession {
	t.Helper()
	f, err := os.Open("testdata/trace.jsonl")
	require.NoError(t, err)
	defer f.Close()
	sessions, err := bench.ReadTrace(f)
	require.NoError(t, err)
	return sessions
}

func TestReadTrace(t *testing.T) {
	sessions := traceFile(t)
	require.Len(t, sessions, 3)
	plain := sessions[0]
	assert.Equal(t, "plain", plain.ID)
	assert.Equal(t, [2]int{200, 50}, [2]int{plain.Tool, plain.System})
	assert.Equal(t, bench.TraceRequest{
		At: 5 * time.Second, Prompt: 450, Answer: 30, Common: 400, Block: 10, Took: time.Second, Think: 3 * time.Second,
	}, plain.Requests[1])

	unordered, err := bench.ReadTrace(strings.NewReader(`{"reqs":[[9,130,1,2,3,0,0,0],[1,70,1,9,1,0,0,0]]}`))
	require.NoError(t, err)
	assert.Equal(t, time.Second, unordered[0].Requests[0].At, "in the order of their times")
	assert.Equal(t, 64, unordered[0].Requests[0].Common, "no more than the prompt has")
	assert.Equal(t, 128, unordered[0].Requests[1].Common, "blocks of 64 tokens")
}

func TestReadTraceRefuses(t *testing.T) {
	const good = `{"reqs":[[0,9,1,0,1,1,0,0]]}` + "\n"
	for name, line := range map[string]string{
		"no JSON":         "{",
		"no requests":     `{"reqs":[]}`,
		"no main agent":   `{"reqs":[[0,9,1,0,1,1,0,1]]}`,
		"too few numbers": `{"reqs":[[0,9,1,0,1,1,0]]}`,
		"no prompt":       `{"reqs":[[0,0,1,0,1,1,0,0]]}`,
		"half a token":    `{"reqs":[[0,9.5,1,0,1,1,0,0]]}`,
		"negative time":   `{"reqs":[[-1,9,1,0,1,1,0,0]]}`,
		"endless time":    `{"reqs":[[0,9,1,0,1,1e300,0,0]]}`,
		"no block":        `{"block":0,"reqs":[[0,9,1,0,1,1,0,0]]}`,
		"negative tools":  `{"tool":-1,"reqs":[[0,9,1,0,1,1,0,0]]}`,
		"a string":        `{"reqs":[[0,"9",1,0,1,1,0,0]]}`,
	} {
		_, err := bench.ReadTrace(strings.NewReader(good + "\n" + line))
		assert.ErrorContains(t, err, "line 3", name)
	}
}

func FuzzReadTrace(f *testing.F) {
	whole, err := os.ReadFile("testdata/trace.jsonl")
	require.NoError(f, err)
	for line := range bytes.Lines(whole) {
		f.Add(line)
	}
	f.Add([]byte(`{"block":1,"tool":1073741824,"reqs":[[0,1,0,0,0,0,0,0],[3e8,1073741824,1073741824,1073741824,0,3e8,3e8,0],[1,1,1,1,1,1,1,7]]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		sessions, err := bench.ReadTrace(bytes.NewReader(in))
		if err != nil || len(sessions) == 0 {
			return
		}
		w, err := bench.Trace(sessions, bench.TraceOptions{MaxPause: -1, MaxTurns: -1, MaxPrompt: -1, MaxAnswer: -1, Speed: 0.5})
		require.NoError(t, err, "nothing is left out")
		assertPlayable(t, w.Conversation(newRand(1)))
	})
}

// assertPlayable checks what a player relies on.
func assertPlayable(t testing.TB, c bench.Conversation) {
	t.Helper()
	assert.NotEmpty(t, c.Turns)
	assert.GreaterOrEqual(t, c.System.Tokens, 0)
	for _, turn := range c.Turns {
		assert.Positive(t, turn.New)
		assert.Positive(t, turn.Answer)
		assert.GreaterOrEqual(t, turn.Cut, 0)
		assert.GreaterOrEqual(t, turn.Pause, time.Duration(0))
		for _, agents := range [][]bench.Conversation{turn.Agents, turn.Background} {
			for _, a := range agents {
				assertPlayable(t, a)
			}
		}
	}
}
