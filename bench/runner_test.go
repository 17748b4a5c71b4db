package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/bench"
	"github.com/warmroute/warmroute/bench/report"
)

// small is a workload of all that a workload can have, in little time.
func small() bench.Workload {
	return bench.Workload{
		Name: "small",
		Engines: bench.Engines{
			Endpoints: 2, Ranks: 2, KVTokens: 3000, PrefillRate: 3000, StepTime: 20 * time.Millisecond, StreamInterval: 8,
		},
		Steps:    []int{3, 6},
		StepTime: 10 * time.Second,
		Gateways: 2,
		Think:    bench.Exponential(100 * time.Millisecond),
		Outages:  []bench.Outage{{Step: 1, Endpoint: 1, From: 3 * time.Second, To: 5 * time.Second}},
		Conversation: func(rng *rand.Rand) bench.Conversation {
			c := bench.Conversation{System: bench.Text{Name: "small", Tokens: 100}}
			for i := range 3 {
				c.Turns = append(c.Turns, bench.Turn{New: 50 + rng.IntN(100), Answer: 20 + rng.IntN(20), Back: bench.Back(i)})
			}
			c.Turns[1].Extra = 1
			c.Turns[2].Cut = 60
			sub := bench.Conversation{System: bench.Text{Name: "agent", Tokens: 60}, Turns: []bench.Turn{c.Turns[0], c.Turns[0]}}
			c.Turns[0].Agents = []bench.Conversation{sub, sub}
			return c
		},
		Seeds: []uint64{1, 2},
	}
}

func policies() []bench.Policy {
	return []bench.Policy{
		bench.Off(),
		bench.Affinity(),
		bench.Picker("soft", func() balance.Picker {
			p, err := balance.SoftAffinity(0.25)
			if err != nil {
				panic(err)
			}
			return p
		}),
		bench.Scorers("sessions", balance.Weight(balance.Sessions(), 1)),
		bench.Options("round robin", func() []warmroute.Option {
			return []warmroute.Option{warmroute.WithAffinity(false), warmroute.WithPicker(balance.RoundRobin)}
		}),
	}
}

func encoded(t *testing.T, r bench.Runner, w bench.Workload) string {
	t.Helper()
	table, err := r.Table(t.Context(), w, policies()...)
	require.NoError(t, err)
	b, err := json.Marshal(table)
	require.NoError(t, err)
	return string(b)
}

func TestSameSeedSameBytes(t *testing.T) {
	w := small()
	if raceEnabled {
		w.Seeds = w.Seeds[:1]
	}
	want := encoded(t, bench.Runner{}, w)
	assertSame(t, want, encoded(t, bench.Runner{Parallel: 4}, w), "4 at a time")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 2} {
		runtime.GOMAXPROCS(procs)
		assertSame(t, want, encoded(t, bench.Runner{}, w), fmt.Sprint(procs, " threads"))
	}
}

func TestSameSeedSameBytesUnderLoad(t *testing.T) {
	w := bench.SeedTable()
	w.Steps, w.StepTime, w.Seeds = []int{16, 8}, 15*time.Second, nil
	assertSame(t, encoded(t, bench.Runner{}, w), encoded(t, bench.Runner{Parallel: 1}, w), "one at a time")
}

// assertSame shows where two long texts part and no more.
func assertSame(t *testing.T, want, got, when string) {
	t.Helper()
	if want == got {
		return
	}
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	around := func(s string) string { return s[max(0, at-300):min(len(s), at+60)] }
	t.Errorf("%s: want ...%s\ngot ...%s", when, around(want), around(got))
}

func TestAnotherSeedIsAnotherRun(t *testing.T) {
	w := small()
	w.Seeds = []uint64{1}
	one, err := bench.Runner{}.Table(t.Context(), w, bench.Affinity())
	require.NoError(t, err)
	w.Seeds = []uint64{2}
	two, err := bench.Runner{}.Table(t.Context(), w, bench.Affinity())
	require.NoError(t, err)
	require.Len(t, two.Rows, len(one.Rows))
	for i := range one.Rows {
		assert.Equal(t, one.Rows[i].Sessions, two.Rows[i].Sessions)
		assert.NotEqual(t, one.Rows[i].TTFB, two.Rows[i].TTFB)
		assert.InDelta(t, float64(one.Rows[i].OutputPerMinute), float64(two.Rows[i].OutputPerMinute), float64(one.Rows[i].OutputPerMinute)/4)
	}

	// The rows of several seeds are their means.
	w.Seeds = []uint64{1, 2}
	both, err := bench.Runner{}.Table(t.Context(), w, bench.Affinity())
	require.NoError(t, err)
	for i := range both.Rows {
		want := float64(one.Rows[i].OutputPerMinute+two.Rows[i].OutputPerMinute) / 2
		assert.InDelta(t, want, float64(both.Rows[i].OutputPerMinute), 1e-6)
		assert.Equal(t, one.Rows[i].Load, both.Rows[i].Load)
	}
	rows, err := bench.Run(t.Context(), w, bench.Affinity(), 2)
	require.NoError(t, err)
	assert.Equal(t, two.Rows, rows)
}

func TestOutageFailsOnlyWhatWasUnderWay(t *testing.T) {
	w := small()
	rows, err := bench.Run(t.Context(), w, bench.Affinity(), 1)
	require.NoError(t, err)
	assert.Zero(t, rows[0].Failed)
	assert.Positive(t, float64(rows[1].Failed))
	assert.Less(t, rows[1].Failed, report.Value(w.Steps[1]+6), "those under way on one of two endpoints")
	down := 0
	for _, l := range rows[1].Load {
		for i, at := range l.At {
			if strings.HasPrefix(l.Replica, "engine-1") && at > 3.5 && at < 5 {
				down++
				assert.Zero(t, l.Running[i])
			}
		}
	}
	assert.Positive(t, down)
}

func TestColdStepsStandAlone(t *testing.T) {
	w := small()
	w.Outages, w.Steps, w.Cold = nil, []int{3, 3}, true
	rows, err := bench.Run(t.Context(), w, bench.Affinity(), 1)
	require.NoError(t, err)
	w.Steps = w.Steps[:1]
	alone, err := bench.Run(t.Context(), w, bench.Affinity(), 1)
	require.NoError(t, err)
	assert.Equal(t, alone[0], rows[0])

	w.Steps, w.Cold = []int{3, 3}, false
	warm, err := bench.Run(t.Context(), w, bench.Affinity(), 1)
	require.NoError(t, err)
	assert.Equal(t, rows[0], warm[0])
	assert.Greater(t, warm[1].HitShare, rows[1].HitShare)
}

func TestOpenLoop(t *testing.T) {
	w := small()
	w.Outages, w.Steps, w.StepTime = nil, []int{10}, 5*time.Minute
	w.Arrivals = bench.Poisson(time.Minute)
	rows, err := bench.Run(t.Context(), w, bench.Affinity(), 1)
	require.NoError(t, err)
	assert.InDelta(t, 600, float64(rows[0].SessionsPerHour), 200, "10 a minute, some fewer in a short while")
}

func TestRefused(t *testing.T) {
	for name, change := range map[string]func(*bench.Workload){
		"no steps":        func(w *bench.Workload) { w.Steps = nil },
		"no sessions":     func(w *bench.Workload) { w.Steps = []int{0} },
		"no time":         func(w *bench.Workload) { w.StepTime = 0 },
		"no conversation": func(w *bench.Workload) { w.Conversation = nil },
		"gateways":        func(w *bench.Workload) { w.Gateways = -1 },
		"token size":      func(w *bench.Workload) { w.TokenBytes = math.NaN() },
		"token of a book": func(w *bench.Workload) { w.TokenBytes = 1e9 },
		"endpoints":       func(w *bench.Workload) { w.Outages, w.Engines.Endpoints = nil, -1 },
		"block size":      func(w *bench.Workload) { w.Engines.BlockSize = -16 },
		"half a block":    func(w *bench.Workload) { w.Engines.KVTokens = 8 },
		"negative cache":  func(w *bench.Workload) { w.Engines.KVTokens = -16 },
		"outage":          func(w *bench.Workload) { w.Outages[0].Endpoint = 2 },
		"engines":         func(w *bench.Workload) { w.Engines.PrefillRate = -1 },
	} {
		w := small()
		change(&w)
		_, err := bench.Runner{}.Table(t.Context(), w, bench.Affinity())
		assert.Error(t, err, name)
	}

	refused := errors.New("refused")
	_, err := bench.Runner{}.Table(t.Context(), small(), bench.Off(), bench.Policy{
		Name: "mine", Connect: func(bench.Site) (bench.Gateway, error) { return bench.Gateway{}, refused },
	})
	assert.ErrorIs(t, err, refused)
	assert.ErrorContains(t, err, "mine")
}

func TestEndOfContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	w := small()
	w.StepTime = 1000 * time.Hour
	w.Outages = nil
	enough := errors.New("enough")
	_, err := bench.Runner{Progress: func(string, int, int) { cancel(enough) }}.Table(ctx, w, bench.Affinity())
	assert.ErrorIs(t, err, enough)
}

func TestFailedRequestsAreCounted(t *testing.T) {
	w := small()
	w.Outages = nil
	rows, err := bench.Run(t.Context(), w, bench.Policy{Name: "broken", Connect: func(bench.Site) (bench.Gateway, error) {
		return bench.Gateway{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			return nil, errors.New("broken")
		})}, nil
	}}, 1)
	require.NoError(t, err)
	assert.Equal(t, rows[0].Requests, rows[0].Failed)
	assert.Contains(t, rows[0].FirstFailure, "broken")
	assert.InDelta(t, 3*10, float64(rows[0].Requests), 5, "one a second")
	assert.False(t, rows[0].TTFB.P50.Known())
	assert.False(t, rows[0].Stayed.Known())
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

func TestParallelBelowOneIsTheDefault(t *testing.T) {
	w := small()
	w.Outages, w.StepTime, w.Steps = nil, time.Second, []int{1}
	table, err := bench.Runner{Parallel: -1}.Table(t.Context(), w, bench.Off())
	require.NoError(t, err)
	assert.Len(t, table.Rows, 1)
}

func TestProgress(t *testing.T) {
	w := small()
	w.Outages, w.StepTime = nil, time.Second
	var mu sync.Mutex
	var told []string
	_, err := bench.Runner{Progress: func(what string, started, of int) {
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, len(told)+1, started)
		assert.Equal(t, 4, of)
		told = append(told, what)
	}}.Table(t.Context(), w, bench.Off(), bench.Affinity())
	require.NoError(t, err)
	assert.Equal(t, []string{
		"off, 3 to 6 sessions, seed 1", "off, 3 to 6 sessions, seed 2",
		"affinity, 3 to 6 sessions, seed 1", "affinity, 3 to 6 sessions, seed 2",
	}, told)
}

// BenchmarkCompare is what a benchmark of a user's own looks like.
func BenchmarkCompare(b *testing.B) {
	w := small()
	w.StepTime, w.Outages = 5*time.Second, nil
	table := bench.Compare(b, w, bench.Off(), bench.Affinity())
	assert.Len(b, table.Rows, 4)
}

func TestCompareInABenchmark(t *testing.T) {
	result := testing.Benchmark(BenchmarkCompare)
	for _, metric := range []string{
		"off-3:ttfb-p50-s", "off-6:ttfb-p95-s", "affinity-3:tokens/min", "affinity-6:hit-%",
	} {
		assert.Positive(t, result.Extra[metric], metric)
	}
}

// A program that is no test has no *testing.T, and nothing may be printed or
// changed for want of it.
func TestInAProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-o", program, "./testdata/program")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.Command(program).CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, "0 flags, 2 rows, failed 0\n", string(out))
	_ = os.Remove(program)
}

// A client whose next turn would come after the step's end has nothing more to
// send: it does not turn into one that begins another conversation.
func TestWhoThinksPastTheEndIsDone(t *testing.T) {
	turn := bench.Turn{New: 50, Answer: 5}
	later := turn
	later.Pause = time.Hour
	agents := turn
	agents.Agents = []bench.Conversation{{Turns: []bench.Turn{turn, later}}}
	background := turn
	background.Background = []bench.Conversation{{Turns: []bench.Turn{later}}}
	for name, test := range map[string]struct {
		turns []bench.Turn
		want  report.Value // requests
	}{
		"itself":     {[]bench.Turn{turn, later}, 1},
		"sub-agent":  {[]bench.Turn{agents, turn}, 2},
		"silent":     {nil, 0},
		"background": {[]bench.Turn{background, turn}, 2},
	} {
		w := bench.Workload{Steps: []int{1}, StepTime: 10 * time.Second, Conversation: fixed(bench.Conversation{Turns: test.turns})}
		rows, err := bench.Run(t.Context(), w, bench.Off(), 1)
		require.NoError(t, err)
		assert.Equal(t, test.want, rows[0].Requests, name)
		assert.Zero(t, rows[0].SessionsPerHour, name)
		assert.Zero(t, rows[0].Failed, name)
	}
}
