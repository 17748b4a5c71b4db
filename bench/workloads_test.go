package bench_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench"
	"github.com/warmroute/warmroute/bench/report"
)

// one runs one short step of a workload, off and on.
func one(t *testing.T, w bench.Workload, sessions int, length time.Duration) (off, on report.Row) {
	t.Helper()
	require.Contains(t, w.Steps, sessions, "a step of the workload")
	w.Steps, w.StepTime, w.Seeds = []int{sessions}, length, nil
	table := bench.Compare(t, w, bench.Off(), bench.Affinity())
	return table.Rows[0], table.Rows[1]
}

func TestOpenLoopWorkload(t *testing.T) {
	off, on := one(t, bench.OpenLoop(), 4, 3*time.Minute)
	assert.Equal(t, off.Requests > 0, on.Requests > 0)
	assert.Greater(t, on.CachedShare, off.CachedShare)
	assert.Less(t, on.TTFB.P50, off.TTFB.P50)
}

func TestInBursts(t *testing.T) {
	gap := bench.InBursts(4, time.Minute)(newRand(1), 2)
	var total time.Duration
	long := 0
	for i := range 4000 {
		d := gap()
		total += d
		if d > time.Millisecond {
			long++
			assert.Zero(t, i%4, "the first of a burst")
		}
	}
	assert.Equal(t, 1000, long)
	assert.InEpsilon(t, (2000 * time.Minute).Seconds(), total.Seconds(), 0.15, "two a minute")
	lone := bench.InBursts(0, time.Minute)(newRand(1), 2)
	assert.NotEqual(t, time.Millisecond, max(lone(), lone()))
}

func TestBursts(t *testing.T) {
	steady, _ := one(t, bench.OpenLoop(), 4, 3*time.Minute)
	off, on := one(t, bench.Bursts(), 4, 3*time.Minute)
	assert.Greater(t, off.TTFB.P95, steady.TTFB.P95)
	assert.Less(t, on.TTFB.P50, off.TTFB.P50)
}

func TestSharedPrompt(t *testing.T) {
	_, on := one(t, bench.SharedPrompt(), 32, time.Minute)
	assert.Greater(t, float64(on.CachedShare), 0.8, "wherever a user goes, the prompt is there")
	assert.Greater(t, float64(on.Busy), 2.5, "and they are not all sent to one replica for it")
}

func TestTwoTeams(t *testing.T) {
	_, shared := one(t, bench.SharedPrompt(), 16, time.Minute)
	_, on := one(t, bench.TwoTeams(), 16, time.Minute)
	assert.Greater(t, float64(on.CachedShare), 0.5)
	assert.Less(t, on.CachedShare, shared.CachedShare, "two prompts have to be computed on each")
}

func TestHotConversation(t *testing.T) {
	w := bench.HotConversation()
	off, on := one(t, w, 4, time.Minute)
	w.Hot = nil
	_, without := one(t, w, 4, time.Minute)
	assert.Greater(t, float64(on.Requests), 2*float64(without.Requests))
	assert.Greater(t, on.TTFB.P95, without.TTFB.P95)
	assert.Greater(t, on.CachedShare, off.CachedShare)
	assert.Less(t, float64(on.Stayed), 1.0, "the hot one spills")
}

func TestChurn(t *testing.T) {
	w := bench.Churn()
	assert.Len(t, w.Outages, 3*len(w.Steps))
	w.Outages = []bench.Outage{{Step: 0, Endpoint: 0, From: 20 * time.Second, To: 40 * time.Second}}
	off, on := one(t, w, 4, time.Minute)
	assert.Positive(t, float64(on.Failed))
	assert.Less(t, on.Failed, off.Failed, "off goes on sending to an endpoint that is away")
	assert.Greater(t, on.CachedShare, off.CachedShare)
	idle := 0
	for i, at := range on.Load[0].At {
		if at > 25 && at < 40 {
			assert.Zero(t, on.Load[0].Running[i], "away")
			idle++
		}
	}
	assert.Positive(t, idle)
}

// Background sub-agents go on beside the main agent, and their conversation
// ends with them.
func TestBackgroundAgents(t *testing.T) {
	w := small()
	w.Outages, w.Think, w.Steps, w.Gateways = nil, nil, []int{1}, 1
	sub := bench.Conversation{Turns: []bench.Turn{{New: 50, Answer: 20, Pause: 2 * time.Second}, {New: 50, Answer: 20, Pause: 2 * time.Second}}}
	turns := []bench.Turn{{New: 50, Answer: 20}, {New: 50, Answer: 20}}
	run := func(foreground, background []bench.Conversation) report.Row {
		turns[0].Agents, turns[0].Background = foreground, background
		w.Conversation = fixed(bench.Conversation{Turns: turns})
		rows, err := bench.Run(t.Context(), w, bench.Affinity(), 1)
		require.NoError(t, err)
		return rows[0]
	}
	alone := run(nil, nil)
	agents := []bench.Conversation{sub}
	foreground, background := run(agents, nil), run(nil, agents)
	assert.Less(t, float64(alone.Completion.P50), 2.0)
	assert.Greater(t, float64(background.Completion.P50), 4.0, "both pauses")
	assert.Greater(t, foreground.Completion.P50, background.Completion.P50, "the second turn comes after them")
}

func fixed(c bench.Conversation) func(*rand.Rand) bench.Conversation {
	return func(*rand.Rand) bench.Conversation { return c }
}
