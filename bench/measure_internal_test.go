package bench

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/bench/report"
)

func at(seconds float64) time.Time {
	return time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func TestRowCountsWhatTheDocSays(t *testing.T) {
	s := &step{began: at(0), until: at(100), turns: []turnRecord{
		{conversation: "b", sent: at(90), first: at(110), ended: at(115)}, // waits past the end
		{conversation: "a", sent: at(0), first: at(1), ended: at(5)},
		{conversation: "a", sent: at(6), ended: at(9), failed: true, failure: "refused"},
		{conversation: "a", sent: at(10), ended: at(11), failed: true, failure: "refused again"},
	}, ended: []endedConversation{
		{id: "c", began: at(0), ended: at(50)}, {id: "d", began: at(60), ended: at(101)}, {id: "e", ended: at(9), agent: true},
	}}
	c := newSampler([]string{"r"}, []replicaCounts{{hits: 100, queries: 100, prompt: 50, cached: 10, generated: 1000}})
	c.sample(0, []replicaCounts{{running: 1, hits: 130, queries: 140, prompt: 90, cached: 40, generated: 1100}})
	c.sample(1, []replicaCounts{{running: 2, waiting: 3, hits: 10, queries: 20, prompt: 20, cached: 10, generated: 7, preemptions: 1}}) // restarted
	c.sample(2, []replicaCounts{{hits: 10, queries: 20, prompt: 20, cached: 10, generated: 7, preemptions: 1}})
	r := s.row("p", 4, c, []visit{
		{"a", at(6), 1}, {"a", at(0), 1}, {"b", at(90), 2}, {"b", at(20), 1}, {"b", at(101), 1},
	})
	assert.Equal(t, report.Value(36), r.SessionsPerHour, "one within the time")
	assert.InDelta(t, 107*60/100.0, float64(r.OutputPerMinute), 1e-9)
	assert.Equal(t, report.Distribution{Mean: 10.5, P50: 1, P95: 20, P99: 20, Max: 20}, r.TTFB)
	assert.Equal(t, report.Value(50), r.Completion.Max)
	assert.InDelta(t, 2/3.0, float64(r.Busy), 1e-9)
	assert.InDelta(t, 40/60.0, float64(r.HitShare), 1e-9)
	assert.InDelta(t, 40/60.0, float64(r.CachedShare), 1e-9)
	assert.Equal(t, report.Value(1), r.Preemptions)
	assert.Equal(t, report.Value(0.5), r.Stayed, "a stays, b goes, and what comes after the end does not count")
	assert.False(t, r.Fairness.Known(), "neither a nor b came to its end")
	assert.Equal(t, report.Value(4), r.Requests)
	assert.Equal(t, report.Value(2), r.Failed)
	assert.Equal(t, "refused", r.FirstFailure)
	assert.Equal(t, []report.Load{{
		Replica: "r", At: []report.Value{0, 1, 2}, Running: []report.Value{1, 2, 0}, Waiting: []report.Value{0, 3, 0},
	}}, r.Load)
}

func TestRowWithoutCounters(t *testing.T) {
	s := &step{began: at(0), until: at(100), seen: at(60), turns: []turnRecord{
		{sent: at(0), first: at(1), ended: at(2), usage: usage{known: true, prompt: 500, answer: 30}},
		{sent: at(0), first: at(1), ended: at(2), usage: usage{known: true, knowsCached: true, prompt: 50, cached: 20, answer: 30}},
		{sent: at(0), first: at(1), ended: at(61), usage: usage{known: true, knowsCached: true, prompt: 50, cached: 30, answer: 1000}},
	}}
	r := s.row("p", 4, newSampler(nil, nil), nil)
	assert.Equal(t, report.Value(60), r.Seconds, "full before its time")
	assert.Equal(t, report.Value(60), r.OutputPerMinute, "of the answers within it")
	assert.InDelta(t, 0.5, float64(r.CachedShare), 1e-9, "of those that say it")
	for _, missing := range []report.Value{r.HitShare, r.Busy, r.Preemptions, r.Stayed} {
		assert.False(t, missing.Known())
	}
}

func TestSampleThatIsMissing(t *testing.T) {
	nan := math.NaN()
	s := newSampler([]string{"a", "b"}, []replicaCounts{{hits: 1}, {hits: nan}})
	s.sample(0, []replicaCounts{{running: nan, hits: 1}, {running: 1, hits: nan}})
	s.sample(1, []replicaCounts{{running: 1, hits: 4}, {running: 0, hits: nan}})
	assert.InDelta(t, 1.5, s.busyReplicas(), 1e-9)
	assert.True(t, math.IsNaN(s.sum.hits), "one replica does not say")
}

func TestFairnessIsOfWhatEnded(t *testing.T) {
	turn := func(of string, seconds float64, failed bool) turnRecord {
		return turnRecord{conversation: of, sent: at(0), ended: at(seconds), failed: failed}
	}
	turns := []turnRecord{
		turn("even", 2, false), turn("even", 4, false), // 3 a turn
		turn("slow", 11, false), turn("slow", 1, false), // 6
		turn("quick", 1, false), turn("quick", 1, false), // 1
		turn("cut off", 90, false),
		turn("failed", 1, false), turn("failed", 80, true),
	}
	ended := []endedConversation{{id: "even"}, {id: "slow"}, {id: "quick", agent: true}}
	assert.Equal(t, report.Value(2), fairness(turns, ended), "6 over 3")
	assert.Equal(t, report.Value(1), fairness(turns, ended[:1]))
	assert.False(t, fairness(turns, nil).Known())
	silent := append(ended, endedConversation{id: "none"}, endedConversation{id: "none too"}, endedConversation{id: "nor this"})
	assert.Equal(t, report.Value(2), fairness(turns, silent), "those without a turn are none")
}

func TestLoadIsThinned(t *testing.T) {
	for samples, want := range map[int]int{1: 1, 180: 180, 181: 91, 3600: 180} {
		s := newSampler([]string{"r"}, make([]replicaCounts, 1))
		for i := range samples {
			s.sample(float64(i), make([]replicaCounts, 1))
		}
		load := s.thinned()[0]
		assert.Len(t, load.At, want, samples)
		assert.Len(t, load.Running, want)
		assert.Len(t, load.Waiting, want)
	}
}

func TestMeanIsOfWhatIsKnown(t *testing.T) {
	one, two := report.NewRow("p", 4), report.NewRow("p", 4)
	one.Busy, two.Busy = 1, 2
	one.Stayed = 0.5
	two.FirstFailure = "refused"
	m := mean([]report.Row{one, two})
	assert.Equal(t, report.Value(1.5), m.Busy)
	assert.Equal(t, report.Value(0.5), m.Stayed)
	assert.False(t, m.Failed.Known())
	assert.Equal(t, "refused", m.FirstFailure)
	assert.True(t, math.IsNaN(quantile(nil, 0.5)))
}
