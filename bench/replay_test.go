package bench_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func script(t *testing.T, session int, o bench.TraceOptions) bench.Conversation {
	t.Helper()
	w, err := bench.Trace(traceFile(t)[session:session+1], o)
	require.NoError(t, err)
	return w.Conversation(newRand(1))
}

func TestTraceScript(t *testing.T) {
	assert.Equal(t, bench.Conversation{
		System: bench.Text{Name: "tools", Tokens: 200},
		Turns: []bench.Turn{
			{New: 200, Answer: 20, Back: bench.Reworded},
			{Pause: 3 * time.Second, New: 30, Answer: 30, Back: bench.Nothing},         // 450 is 400 and the answer of 20
			{Pause: 30 * time.Second, New: 10, Answer: 10, Back: bench.Nothing},        // 460 has no room for the answer of 30
			{Pause: 3 * time.Second, New: 50, Answer: 10, Cut: 210, Back: bench.Whole}, // 250 of 460 are kept
		},
	}, script(t, 0, bench.TraceOptions{Back: bench.Reworded}))

	quick := script(t, 0, bench.TraceOptions{Speed: 10, MaxPause: -1, MaxTurns: 3, MaxPrompt: 455, MaxAnswer: 25})
	var pauses []time.Duration
	for _, turn := range quick.Turns {
		pauses = append(pauses, turn.Pause)
		assert.LessOrEqual(t, turn.Answer, 25)
	}
	assert.Equal(t, []time.Duration{0, 300 * time.Millisecond, 300 * time.Millisecond}, pauses, "the third request is too long")
	assert.Len(t, script(t, 0, bench.TraceOptions{MaxTurns: 3}).Turns, 3)
	assert.Equal(t, 10*time.Second, script(t, 0, bench.TraceOptions{MaxPause: -1, Speed: 10}).Turns[2].Pause)
}

func TestTraceAgents(t *testing.T) {
	c := script(t, 1, bench.TraceOptions{})
	require.Len(t, c.Turns, 3)
	require.Len(t, c.Turns[0].Agents, 2, "both had ended before the next request")
	first, second := c.Turns[0].Agents[0], c.Turns[0].Agents[1]
	assert.Equal(t, second.System, first.System, "what they have in common is one text")
	assert.Equal(t, 120, first.System.Tokens)
	assert.Len(t, first.Turns, 2)
	assert.Equal(t, 30, first.Turns[0].New)
	assert.Equal(t, []time.Duration{time.Second, 2 * time.Second}, []time.Duration{first.Turns[0].Pause, second.Turns[0].Pause}, "after the answer that starts them")
	assert.Equal(t, 5*time.Second, c.Turns[1].Pause, "after the sub-agents have ended")

	assert.Empty(t, c.Turns[1].Agents)
	require.Len(t, c.Turns[1].Background, 1, "it was still going on")
	assert.Equal(t, 120, c.Turns[1].Background[0].System.Tokens)

	cut := script(t, 1, bench.TraceOptions{MaxTurns: 1}).Turns
	require.Len(t, cut, 1)
	assert.Len(t, cut[0].Background, 2, "the third begins after what is taken")
}

func TestTraceRefuses(t *testing.T) {
	for name, o := range map[string]bench.TraceOptions{
		"speed": {Speed: -1}, "nothing left": {MaxPrompt: 1},
	} {
		_, err := bench.Trace(traceFile(t), o)
		assert.Error(t, err, name)
	}
	_, err := bench.Trace(nil, bench.TraceOptions{})
	assert.Error(t, err, "empty")
}

func TestTraceRun(t *testing.T) {
	w, err := bench.Trace(traceFile(t), bench.TraceOptions{Speed: 4})
	require.NoError(t, err)
	w.Engines = small().Engines
	w.Steps, w.StepTime, w.Stagger = []int{4}, time.Minute, time.Second
	rows, err := bench.Run(t.Context(), w, bench.Affinity(), 1)
	require.NoError(t, err)
	again, err := bench.Run(t.Context(), w, bench.Affinity(), 1)
	require.NoError(t, err)
	assert.Equal(t, rows, again)
	assert.Zero(t, rows[0].Failed)
	assert.Positive(t, float64(rows[0].SessionsPerHour))
	assert.Greater(t, float64(rows[0].CachedShare), 0.5)
	assert.Greater(t, float64(rows[0].Requests), 40.0, "sub-agents' too")
}
