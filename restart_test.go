package warmroute_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// restart has the engines begin anew, with empty caches.
func (s *simulated) restart() {
	s.started++
	for i := range s.engines {
		s.engines[i].prompt, s.engines[i].hits, s.engines[i].generated = 0, 0, 0
	}
	s.publish()
}

// justScraped waits until a page has just been read.
func (s *simulated) justScraped() {
	for *s.router.Stats().Pools[0].Replicas[0].ScrapedAgo > 0.005 {
		time.Sleep(time.Millisecond)
	}
}

// A restart is seen on the next page, by its mark or by the counters, and takes
// the warmth of every conversation at once.
func TestARestartIsSeenOnTheNextPage(t *testing.T) {
	for name, noMark := range map[string]bool{"by its mark": false, "by its counters": true} {
		for _, ranks := range []int{1, 2} {
			t.Run(fmt.Sprint(name, ", ranks ", ranks), func(t *testing.T) {
				simulate(t, ranks, nil, func(t *testing.T, s *simulated) {
					s.noMark = noMark
					s.publish()
					require.NoError(t, s.router.Add(warmroute.Endpoint{URL: "http://b", Ranks: 1}))
					var home string
					for i := 0; !strings.HasPrefix(home, "a"); i++ {
						home = s.turn(fmt.Sprint("s", i), -1, 1000, 0).Replica().Name()
					}
					session := ""
					for i := 0; session == ""; i++ {
						if s.turn(fmt.Sprint("s", i), -1, 1100, 1000).Replica().Name() == home {
							session = fmt.Sprint("s", i)
						}
					}
					time.Sleep(2 * time.Second)
					defer s.busy(home, 2)()
					s.restart()
					time.Sleep(1200 * time.Millisecond)
					lease := s.turn(session, -1, 1200, 0)
					assert.Equal(t, warmroute.Placed, lease.Outcome())
					assert.NotEqual(t, home, lease.Replica().Name(), "no cache speaks for it")
				})
			})
		}
	}
}

// A turn that ran on the new engine before a page could tell of it has lost its
// cache, and its client has rewritten nothing.
func TestATurnBetweenARestartAndItsPage(t *testing.T) {
	for _, noMark := range []bool{false, true} {
		for _, ranks := range []int{1, 2} {
			t.Run(fmt.Sprint("no mark ", noMark, ", ranks ", ranks), func(t *testing.T) {
				simulate(t, ranks, nil, func(t *testing.T, s *simulated) {
					s.noMark = noMark
					s.publish()
					s.turn("s", -1, 2000, 0)
					s.turn("s", -1, 2100, 2000)
					s.turn("gone", -1, 1000, 0)
					s.turn("gone", -1, 1100, 16) // really rewritten, before
					time.Sleep(20 * time.Second)
					s.justScraped()
					start := time.Now()
					s.restart()
					if !noMark {
						s.started = int(start.Unix()) - 1000
						s.publish()
					}
					time.Sleep(10 * time.Millisecond)
					assert.Equal(t, warmroute.Sticky, s.turn("s", -1, 2200, 0).Outcome(), "nobody knows yet")
					turns := s.turns()
					assert.Equal(t, warmroute.VerdictStats{Verified: 1, Lost: 1, Rewritten: 1}, turns)
					assert.Zero(t, s.router.Stats().Pools[0].Gaps[1].Turns, "which says nothing of pauses")
				})
			})
		}
	}
}

// A restart during a turn has lost its prefix, which says nothing of pauses.
func TestATurnDuringARestart(t *testing.T) {
	simulate(t, 1, nil, func(t *testing.T, s *simulated) {
		s.turn("s", -1, 2000, 0)
		s.turn("s", -1, 2100, 2000)
		time.Sleep(20 * time.Second)
		lease := route(t, s.router, warmroute.Request{Session: "s"})
		s.restart()
		time.Sleep(2 * time.Second)
		lease.Answered()
		lease.Done(warmroute.Result{Usage: warmroute.Usage{Prompt: 2200, Known: true, Measured: true}})
		assert.Equal(t, warmroute.VerdictStats{Verified: 1, Lost: 1}, s.turns())
		assert.Zero(t, s.router.Stats().Pools[0].Gaps[1].Turns)
	})
}

// An engine may be restarted by a process that goes on.
func TestAnEngineThatBeginsAnewWithoutItsProcess(t *testing.T) {
	var events events
	simulate(t, 2, []warmroute.Option{warmroute.WithHooks(&events)}, func(t *testing.T, s *simulated) {
		homes := map[string]string{}
		for i := range 6 {
			c := fmt.Sprint(i)
			homes[c] = s.turn(c, -1, 1000, 0).Replica().Name()
		}
		time.Sleep(2 * time.Second)
		s.engines[0].prompt, s.engines[0].hits, s.engines[0].generated = 0, 0, 0
		s.publish()
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{"a:80@0 up"}, events.names("restarted"), "one of them")
		for c, home := range homes {
			want := warmroute.Sticky
			if home == "a:80@0" {
				want = warmroute.Placed
			}
			assert.Equal(t, want, s.turn(c, -1, 1100, 0).Outcome(), home)
		}
	})
}

// The sum of fewer engines is less, and no restart.
func TestEnginesThatAreMissingAreNoRestart(t *testing.T) {
	var events events
	pages := newPages(map[string]string{"a": pageOf(map[int]engine{0: {running: "0", prompt: "100"}, 1: {running: "0", prompt: "100"}})})
	endpoints := []warmroute.Endpoint{{URL: "http://a", Ranks: 1}}
	scraped(t, pages, endpoints, []warmroute.Option{warmroute.WithHooks(&events)}, func(t *testing.T, r *warmroute.Router) {
		time.Sleep(2 * time.Second)
		turn(t, r, "s")
		pages.set("a", pageOf(map[int]engine{0: {running: "0", prompt: "100"}}))
		time.Sleep(2 * time.Second)
		pages.set("a", pageOf(map[int]engine{0: {running: "0", prompt: "100"}, 1: {running: "0", prompt: "100"}}))
		time.Sleep(2 * time.Second)
		assert.Empty(t, events.reasons())
		pages.set("a", pageOf(map[int]engine{0: {running: "0", prompt: "10"}, 1: {running: "0", prompt: "10"}}))
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{"restarted"}, events.reasons())
	})
}

// An endpoint that answers again is asked for its page at once, however long it
// was away.
func TestAnEndpointThatComesBackIsScrapedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		var pages atomic.Int64
		client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if down.Load() {
				return nil, errors.New("connection refused")
			}
			if r.URL.Path == "/metrics" {
				pages.Add(1)
			}
			return answer(200, io.NopCloser(strings.NewReader(idle(0)))), nil
		})}
		router := newRouter(t, at("http://a"), warmroute.WithScrapeClient(client))
		go func() { assert.NoError(t, router.Run(t.Context())) }()
		time.Sleep(3 * time.Second)
		down.Store(true)
		route(t, router, warmroute.Request{}).Done(warmroute.Result{Err: errors.New("x"), Unreachable: true})
		time.Sleep(60 * time.Second) // the pauses are eight seconds by now
		down.Store(false)
		before := pages.Load()
		base := &sink{t: t}
		_, err := router.Transport(base).RoundTrip(post(t, nil))
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, before+1, pages.Load())
		assert.NoError(t, router.Close())
	})
}
