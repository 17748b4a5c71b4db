package warmroute_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
)

// simulated is the engines behind a metrics page, which count what is sent to
// them.
type simulated struct {
	t       *testing.T
	router  *warmroute.Router
	pages   *pageSet
	engines []struct{ prompt, hits, generated int }
	started int
	running int
	asleep  bool
	noMark  bool // its pages do not say when it was started
}

func (s *simulated) publish() {
	engines := map[int]engine{}
	for i, e := range s.engines {
		started := strconv.Itoa(1000 + s.started)
		if s.noMark {
			started = ""
		}
		engines[i] = engine{
			running: strconv.Itoa(s.running), waiting: "0", prompt: strconv.Itoa(e.prompt), hits: strconv.Itoa(e.hits), queries: strconv.Itoa(e.prompt),
			generated: strconv.Itoa(e.generated), steps: strconv.Itoa(e.generated), capacity: "20000",
			started: started, asleep: s.asleep,
		}
	}
	s.pages.set("a", pageOf(engines))
}

// turn sends a turn that the engine of the given rank really serves; -1 is the
// one that was asked for.
func (s *simulated) turn(session string, served, prompt, cached int) warmroute.Lease {
	s.t.Helper()
	lease := route(s.t, s.router, warmroute.Request{Session: session})
	lease.Answered()
	if served < 0 {
		served = max(0, lease.Replica().Rank())
	}
	e := &s.engines[served]
	e.prompt, e.hits, e.generated = e.prompt+prompt, e.hits+cached, e.generated+10
	s.publish()
	lease.Done(warmroute.Result{API: "/v1/x", Usage: warmroute.Usage{
		Prompt: int64(prompt), Cached: int64(cached), Completion: 10, Known: true, Measured: true,
	}})
	return lease
}

func (s *simulated) turns() warmroute.VerdictStats {
	s.t.Helper()
	time.Sleep(5 * time.Second) // claims are settled by the pages that follow
	p := s.router.Stats().Pools[0]
	var sum warmroute.VerdictStats
	for _, m := range p.Replicas {
		sum.Verified += m.Turns.Verified
		sum.Lost += m.Turns.Lost
		sum.Ignored += m.Turns.Ignored
		sum.Rewritten += m.Turns.Rewritten
		sum.Unmeasured += m.Turns.Unmeasured
	}
	if len(p.Replicas) == len(s.engines) {
		assert.Equal(s.t, p.Turns, sum, "the pool's are the replicas'")
	}
	return p.Turns
}

func simulate(t *testing.T, ranks int, opts []warmroute.Option, test func(*testing.T, *simulated)) {
	opts = append([]warmroute.Option{warmroute.WithResidency(warmroute.ResidencyOff)}, opts...) // nobody waits
	s := &simulated{pages: newPages(map[string]string{}), engines: make([]struct{ prompt, hits, generated int }, ranks)}
	s.publish()
	scraped(t, s.pages, at("http://a"), opts, func(t *testing.T, r *warmroute.Router) {
		s.t, s.router = t, r
		require.Len(t, r.Replicas(), ranks)
		time.Sleep(2 * time.Second)
		test(t, s)
	})
}

func TestVerifiedTurns(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		simulate(t, ranks, nil, func(t *testing.T, s *simulated) {
			for n := range 5 {
				for c := range 4 {
					s.turn(fmt.Sprint(c), -1, 1000+100*n, max(0, 1000+100*(n-1)-8)*min(n, 1))
					time.Sleep(300 * time.Millisecond)
				}
			}
			assert.Equal(t, warmroute.VerdictStats{Verified: 16}, s.turns())
			p := s.router.Stats().Pools[0]
			assert.InDelta(t, 1, *p.VerifiedShare, 1e-9)
			assert.Empty(t, p.Problems)
			assert.Equal(t, uint64(16), p.Gaps[0].Kept)
		})
	}
}

func TestLostTurns(t *testing.T) {
	simulate(t, 2, nil, func(t *testing.T, s *simulated) {
		s.turn("a", -1, 2000, 0)
		time.Sleep(20 * time.Second)
		for i := range 20 {
			s.turn(fmt.Sprint("other", i), -1, 4000, 0) // more than the cache holds
			time.Sleep(time.Second)
		}
		s.turn("a", -1, 2100, 64)
		assert.Equal(t, warmroute.VerdictStats{Lost: 1}, s.turns(), "evicted")
		assert.Equal(t, uint64(1), s.router.Stats().Pools[0].Gaps[1].Turns)
	})
}

func TestRewrittenTurns(t *testing.T) {
	var log bytes.Buffer
	logger := warmroute.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	simulate(t, 2, []warmroute.Option{logger}, func(t *testing.T, s *simulated) {
		s.turn("a", -1, 9000, 0)
		time.Sleep(20 * time.Second)
		s.turn("a", -1, 1500, 64)
		assert.Equal(t, warmroute.VerdictStats{Rewritten: 1}, s.turns(), "compacted")
		for n := range 40 {
			// Grown, next to nothing else on the engine, and not found: the
			// beginning has changed.
			s.turn("b", -1, 1000+10*n, 0)
			time.Sleep(20 * time.Second)
		}
		turns := s.turns()
		assert.Equal(t, uint64(40), turns.Rewritten)
		assert.Zero(t, turns.Ignored+turns.Lost)
		require.Len(t, s.router.Stats().Pools[0].Problems, 1)
		assert.Contains(t, s.router.Stats().Pools[0].Problems[0], "billing line")
	})
	assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("billing line")), "said once: %s", log.String())
}

func TestUnmeasuredTurns(t *testing.T) {
	router := newRouter(t, four())
	for range 3 {
		lease := route(t, router, warmroute.Request{Session: "s"})
		lease.Answered()
		lease.Done(warmroute.Result{Usage: warmroute.Usage{Prompt: 100, Completion: 1, Known: true}})
	}
	assert.Equal(t, warmroute.VerdictStats{Unmeasured: 2}, router.Stats().Pools[0].Turns)
	assert.Nil(t, router.Stats().Pools[0].VerifiedShare)
}

// The rank header is ignored: the engine of another rank counts the prompts.
func TestIgnoredRanks(t *testing.T) {
	var events events
	simulate(t, 2, []warmroute.Option{warmroute.WithHooks(&events)}, func(t *testing.T, s *simulated) {
		for n := range 8 {
			lease := route(t, s.router, warmroute.Request{Session: "s"})
			lease.Done(warmroute.Result{})
			other := 1 - lease.Replica().Rank()
			if n%2 == 1 || lease.Replica().Rank() < 0 {
				other = -1 // by its own balancing it is sometimes the right one
			}
			s.turn("s", other, 1000+100*n, 64)
			time.Sleep(3 * time.Second)
			if len(s.router.Replicas()) == 1 {
				break
			}
		}
		turns := s.turns()
		assert.Positive(t, turns.Ignored)
		p := s.router.Stats().Pools[0]
		require.Len(t, p.Problems, 1)
		assert.Contains(t, p.Problems[0], "http://a ignores the rank header on /v1/x")
		require.Len(t, p.Replicas, 1, "routed as the one replica that it is")
		assert.Nil(t, p.Replicas[0].Rank)
		assert.Equal(t, 0, *p.Replicas[0].Running, "its engines seen as one")
		assert.Contains(t, events.reasons(), "rank header ignored")

		s.started++ // another version, perhaps
		for i := range s.engines {
			s.engines[i].prompt, s.engines[i].hits, s.engines[i].generated = 0, 0, 0
		}
		s.publish()
		time.Sleep(3 * time.Second)
		assert.Len(t, s.router.Replicas(), 2, "and given the benefit of the doubt when it restarts")
		assert.Empty(t, s.router.Stats().Pools[0].Problems)
	})
}

// Other gateways' requests only add to what the engines count.
func TestOtherGatewaysDoNotLookLikeIgnoredRanks(t *testing.T) {
	simulate(t, 2, nil, func(t *testing.T, s *simulated) {
		for n := range 30 {
			s.engines[n%2].prompt += 5000
			s.turn("s", -1, 1000+10*n, 0)
			time.Sleep(500 * time.Millisecond)
		}
		assert.Zero(t, s.turns().Ignored)
		assert.Len(t, s.router.Replicas(), 2)
	})
}

func TestARestartTakesTheWarmth(t *testing.T) {
	var events events
	simulate(t, 2, []warmroute.Option{warmroute.WithHooks(&events)}, func(t *testing.T, s *simulated) {
		home := s.turn("s", -1, 1000, 0).Replica().Name()
		s.turn("s", -1, 1100, 1000)
		time.Sleep(3 * time.Second)
		s.started++
		for i := range s.engines {
			s.engines[i].prompt, s.engines[i].hits, s.engines[i].generated = 0, 0, 0
		}
		s.publish()
		time.Sleep(2 * time.Second)
		// Its home is the busier one now: nothing speaks for it any more.
		for range 3 {
			lease := route(t, s.router, warmroute.Request{})
			if lease.Replica().Name() != home {
				lease.Done(warmroute.Result{})
			}
		}
		lease := s.turn("s", -1, 1200, 0)
		assert.Equal(t, warmroute.Placed, lease.Outcome())
		assert.NotEqual(t, home, lease.Replica().Name())
		assert.Equal(t, warmroute.Sticky, s.turn("s", -1, 1300, 1200).Outcome())
		assert.Contains(t, events.reasons(), "restarted")
		turns := s.turns()
		assert.Zero(t, turns.Ignored, "counters that began anew prove nothing")
		assert.Equal(t, uint64(1), turns.Lost)
		assert.Equal(t, uint64(1), replicaStats(t, s.router, home).Turns.Lost)
	})
}

func TestASleepingEngineIsLeft(t *testing.T) {
	var events events
	simulate(t, 1, []warmroute.Option{warmroute.WithHooks(&events)}, func(t *testing.T, s *simulated) {
		require.NoError(t, s.router.Add(warmroute.Endpoint{URL: "http://b", Ranks: 1}))
		var home string
		for i := 0; home != "a:80"; i++ {
			home = s.turn(fmt.Sprint("s", i), -1, 1000, 0).Replica().Name()
		}
		s.asleep = true
		s.publish()
		time.Sleep(2 * time.Second)
		assert.Equal(t, "asleep", string(replicaStats(t, s.router, "a:80").State))
		for i := range 5 {
			assert.Equal(t, "b:80", s.turn(fmt.Sprint("new", i), -1, 1000, 0).Replica().Name())
		}
		s.asleep = false
		s.publish()
		time.Sleep(2 * time.Second)
		assert.Equal(t, "up", string(replicaStats(t, s.router, "a:80").State))
		assert.Equal(t, "a:80", s.turn("newest", -1, 1000, 0).Replica().Name())
		assert.Subset(t, events.reasons(), []string{"asleep", "awake"})
	})
}

func TestAWedgedEngineIsNoticed(t *testing.T) {
	var events events
	simulate(t, 2, []warmroute.Option{warmroute.WithHooks(&events)}, func(t *testing.T, s *simulated) {
		stuck := route(t, s.router, warmroute.Request{Session: "stuck"})
		name := stuck.Replica().Name()
		time.Sleep(100 * time.Second)
		assert.Equal(t, "up", string(replicaStats(t, s.router, name).State), "its engine says that it is idle: the client is slow")
		s.running = 1
		s.publish()
		time.Sleep(59 * time.Second)
		assert.Equal(t, "up", string(replicaStats(t, s.router, name).State))
		// The other one makes progress all the while.
		other := 1 - stuck.Replica().Rank()
		for range 5 {
			s.engines[other].generated++
			s.publish()
			time.Sleep(time.Second)
		}
		assert.Equal(t, "wedged", string(replicaStats(t, s.router, name).State))
		for i := range 5 {
			lease := s.turn(fmt.Sprint(i), other, 1000, 0)
			assert.NotEqual(t, name, lease.Replica().Name(), "new conversations go elsewhere")
		}
		s.engines[stuck.Replica().Rank()].generated++
		s.publish()
		time.Sleep(2 * time.Second)
		assert.Equal(t, "up", string(replicaStats(t, s.router, name).State))
		assert.Subset(t, events.reasons(), []string{"wedged", "recovered"})
		stuck.Done(warmroute.Result{})
	})
}

func TestPagesWithoutEngineSeries(t *testing.T) {
	pages := newPages(map[string]string{"a": "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1\npython_info{version=\"3\"} 1\n"})
	scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
		time.Sleep(3 * time.Second)
		require.Len(t, r.Stats().Pools[0].Problems, 1)
		assert.Contains(t, r.Stats().Pools[0].Problems[0], "--disable-log-stats")
		turn(t, r, "s")
	})
}

func TestPrefillSpeedIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a"))
		done := func(firstByte time.Duration, prompt, cached int64) {
			route(t, router, warmroute.Request{}).Done(warmroute.Result{FirstByte: firstByte, Usage: warmroute.Usage{Prompt: prompt, Cached: cached, Known: true, Measured: true}})
		}
		rate := func() *float64 { return router.Stats().Pools[0].Replicas[0].PrefillRate }
		done(time.Second, 100, 0)
		assert.Nil(t, rate(), "too few tokens to say")
		done(time.Second, 3000, 0)
		assert.InDelta(t, 3000, *rate(), 1e-6)
		done(time.Second, 5000, 3000)
		assert.InDelta(t, 0.8*3000+0.2*2000, *rate(), 1e-6)
		other := route(t, router, warmroute.Request{})
		done(time.Minute, 3000, 0)
		assert.InDelta(t, 2800, *rate(), 1e-6, "it waited for the other")
		other.Done(warmroute.Result{})
	})
}

func TestAStalePageDoesNotKeepAReplicaAsleep(t *testing.T) {
	simulate(t, 1, nil, func(t *testing.T, s *simulated) {
		s.asleep = true
		s.publish()
		time.Sleep(2 * time.Second)
		_, err := s.router.Route(t.Context(), warmroute.Request{})
		require.ErrorIs(t, err, warmroute.ErrNoReplica)
		s.pages.set("a", "")
		time.Sleep(10 * time.Second)
		route(t, s.router, warmroute.Request{}).Done(warmroute.Result{})
		assert.Equal(t, "up", string(replicaStats(t, s.router, "a:80").State))
	})
}

func TestAPickerMayBeAskedAtHome(t *testing.T) {
	p := new(leaver)
	router := newRouter(t, four(), warmroute.WithPicker(func() balance.Picker { return p }))
	home, _ := turn(t, router, "s")
	for range 3 {
		p.leave = true
		name, outcome := turn(t, router, "s")
		assert.Equal(t, warmroute.Spilled, outcome)
		assert.NotEqual(t, home, name)
		p.leave = false
		name, outcome = turn(t, router, "s")
		assert.Equal(t, warmroute.Sticky, outcome)
		assert.Equal(t, home, name, "it keeps its home")
	}
}

// leaver is a picker that is asked at home too.
type leaver struct{ leave bool }

func (p *leaver) PicksAtHome() {}

func (p *leaver) Pick(req *balance.Request, candidates []balance.Candidate) (int, error) {
	switch {
	case req.Home < 0:
		return 0, nil
	case p.leave:
		return (req.Home + 1) % len(candidates), nil
	}
	return req.Home, nil
}
