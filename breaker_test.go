package warmroute_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

func TestAnOpenBreakerMovesConversationsAndTakesThemBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e events
		base := &fleet{}
		router := newRouter(t, at("http://a", "http://b"), steadyBreaker(replica.BreakerConfig{}), warmroute.WithHooks(&e), warmroute.WithSlowStart(0))
		transport := router.Transport(base)
		home, _ := turn(t, router, "moves")
		host := strings.TrimSuffix(home, ":80")
		var stays string // another conversation there, idle all the while
		for i := 0; stays == ""; i++ {
			if name, _ := turn(t, router, fmt.Sprint("s", i)); name == home {
				stays = fmt.Sprint("s", i)
			}
		}
		base.set(host, status(500))
		for range 5 {
			code, err := ask(t, transport, "moves")
			require.NoError(t, err)
			require.Equal(t, 500, code)
		}
		assert.Equal(t, replica.Open, replicaStats(t, router, home).State)
		base.sent()
		for range 3 {
			_, err := ask(t, transport, "moves")
			require.NoError(t, err)
		}
		assert.NotContains(t, base.sent(), host)
		assert.Equal(t, replica.BreakerOpen, replicaStats(t, router, home).Breaker)

		base.set(host, nil)
		time.Sleep(time.Second)
		assert.Equal(t, replica.Probing, replicaStats(t, router, home).State)
		_, err := ask(t, transport, stays)
		require.NoError(t, err)
		assert.Equal(t, []string{host}, base.sent(), "the probe is a turn of one that is at home there")
		assert.Equal(t, replica.Up, replicaStats(t, router, home).State)
		_, err = ask(t, transport, "moves")
		require.NoError(t, err)
		assert.NotContains(t, base.sent(), host, "what moved stays where it moved")
		assert.Equal(t, []string{"breaker opened", "probe", "breaker closed"}, e.reasons())
		assert.Equal(t, replica.Open, e.state[0].State)
		assert.Equal(t, replica.Up, e.state[2].State)
	})
}

// However many conversations are at home with a replica, one of them finds out
// whether it is well again, and a stream's first byte is enough.
func TestOneProbeAtATime(t *testing.T) {
	for name, residency := range map[string]warmroute.Residency{"no residents": warmroute.ResidencyOff, "residents": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &fleet{}
				router := newRouter(t, at("http://a", "http://b"), steadyBreaker(replica.BreakerConfig{}), warmroute.WithResidency(residency), warmroute.WithSlowStart(0))
				transport := router.Transport(base)
				home := map[string]string{}
				for i := range 40 {
					name := fmt.Sprint("s", i)
					home[name], _ = turn(t, router, name)
				}
				base.set("a", reset)
				for range 5 {
					lease := route(t, router, warmroute.Request{Session: "s0"})
					lease.Done(warmroute.Result{})
					for router.Stats().Pools[0].Replicas[0].BreakerOpens == 0 {
						_, _ = ask(t, transport, "") // until a has had five
					}
				}
				base.sent()
				reader, writer := io.Pipe()
				base.set("a", func(*http.Request) (*http.Response, error) {
					return reply(200, "text/event-stream", reader), nil
				})
				time.Sleep(time.Second)
				var all sync.WaitGroup
				for session := range home {
					all.Go(func() { _, _ = ask(t, transport, session) })
				}
				synctest.Wait()
				count := func() (n int) {
					for _, h := range base.sent() {
						if h == "a" {
							n++
						}
					}
					return n
				}
				assert.Equal(t, 1, count())
				_, err := writer.Write([]byte("data: {}\n\n"))
				require.NoError(t, err)
				synctest.Wait()
				assert.Equal(t, replica.Up, replicaStats(t, router, "a:80").State, "its first byte")
				base.set("a", nil)
				require.NoError(t, writer.Close())
				all.Wait()
				assert.Zero(t, inFlight(t, router))
			})
		})
	}
}

func TestAProbeThatFailsIsTheOnlyOneToFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &fleet{}
		base.set("a", reset)
		router := newRouter(t, at("http://a", "http://b"), steadyBreaker(replica.BreakerConfig{}))
		transport := router.Transport(base)
		failed := func(seconds int) (n int) {
			for range seconds * 100 {
				if _, err := ask(t, transport, ""); err != nil {
					n++
				}
				time.Sleep(10 * time.Millisecond)
			}
			return n
		}
		assert.Equal(t, 5+1+1+1+1, failed(20), "it opens, and is open for 1, 2, 4 and 8 seconds")
		assert.Equal(t, uint64(5), replicaStats(t, router, "a:80").BreakerOpens)
	})
}

func TestEndpointWideAnswersAreNotHeldAgainstOneRank(t *testing.T) {
	for code, states := range map[int][2]replica.State{503: {replica.Open, replica.Open}, 500: {replica.Open, replica.Up}} {
		synctest.Test(t, func(t *testing.T) {
			base := &fleet{}
			base.set("a@0", status(code))
			router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b"}}, steadyBreaker(replica.BreakerConfig{}), warmroute.WithClientRank(warmroute.HonourClientRank))
			transport := router.Transport(base)
			for range 5 {
				req := post(t, nil)
				req.Header.Set(replica.RankHeader, "0")
				resp, err := transport.RoundTrip(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			}
			assert.Equal(t, states, [2]replica.State{replicaStats(t, router, "a:80@0").State, replicaStats(t, router, "a:80@1").State}, code)
			assert.Equal(t, replica.Up, replicaStats(t, router, "b:80").State)
		})
	}
}

// When every breaker is open all goes on as if none were: the engines' own answers
// come through, conversations go home, and the others by load.
func TestAllBreakersOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &fleet{}
		router := newRouter(t, at("http://a", "http://b", "http://c"), steadyBreaker(replica.BreakerConfig{}), warmroute.WithDebugHeaders(true))
		transport := router.Transport(base)
		home := map[string]string{}
		for i := range 6 {
			name := fmt.Sprint("s", i)
			home[name], _ = turn(t, router, name)
		}
		for _, host := range []string{"a", "b", "c"} {
			base.set(host, status(503))
		}
		for range 15 {
			_, err := ask(t, transport, "")
			require.NoError(t, err)
		}
		for _, m := range router.Stats().Pools[0].Replicas {
			require.Equal(t, replica.Open, m.State)
		}
		base.sent()
		for range 9 {
			code, err := ask(t, transport, "")
			require.NoError(t, err)
			assert.Equal(t, 503, code, "the engine's")
		}
		counts := map[string]int{}
		for _, host := range base.sent() {
			counts[host]++
		}
		assert.Equal(t, map[string]int{"a": 3, "b": 3, "c": 3}, counts)
		for session, name := range home {
			lease := route(t, router, warmroute.Request{Session: session})
			assert.Equal(t, name, lease.Replica().Name())
			assert.Equal(t, warmroute.Sticky, lease.Outcome())
			lease.Done(warmroute.Result{GivenUp: true, NoTokens: true})
		}
		assert.Zero(t, router.Stats().Pools[0].Requests.Refused)
		base.set("b", nil)
		for range 3 {
			_, err := ask(t, transport, "")
			require.NoError(t, err)
		}
		assert.Equal(t, replica.Up, replicaStats(t, router, "b:80").State, "a good answer closes it at once")
	})
}

func TestBreakerOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := &fleet{}
		base.set("a", status(500))
		router := newRouter(t, at("http://a"), warmroute.WithBreaker(replica.BreakerConfig{Off: true}))
		for range 100 {
			_, err := ask(t, router.Transport(base), "s")
			require.NoError(t, err)
		}
		s := replicaStats(t, router, "a:80")
		assert.Equal(t, replica.Up, s.State)
		assert.Equal(t, uint64(100), s.Failed)
		assert.Zero(t, s.BreakerOpens)
	})
}

func TestRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		value string
		held  time.Duration
	}{
		{"5", 5 * time.Second}, {" 5 ", 5 * time.Second}, {"86400", 30 * time.Second}, {"0", 0}, {"", 0}, {"soon", 0}, {"-1", 0},
		{"99999999999999999999", 0}, {"Sat, 01 Jan 2000 00:00:07 GMT", 7 * time.Second}, {"Fri, 31 Dec 1999 00:00:00 GMT", 0},
	} {
		t.Run(tc.value, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // begins at 2000-01-01
				base := &fleet{}
				base.set("a", func(*http.Request) (*http.Response, error) {
					resp := reply(429, "application/json", strings.NewReader("{}"))
					resp.Header.Set("Retry-After", tc.value)
					return resp, nil
				})
				router := newRouter(t, at("http://a", "http://b"))
				transport := router.Transport(base)
				for i := range 2 {
					_, err := ask(t, transport, fmt.Sprint("first", i))
					require.NoError(t, err)
				}
				if tc.held == 0 {
					assert.Equal(t, replica.Up, replicaStats(t, router, "a:80").State)
					return
				}
				s := replicaStats(t, router, "a:80")
				assert.Equal(t, replica.Held, s.State)
				assert.Zero(t, s.Failed)
				base.sent()
				for i := range 5 {
					_, err := ask(t, transport, fmt.Sprint("new", i))
					require.NoError(t, err)
				}
				assert.NotContains(t, base.sent(), "a")
				time.Sleep(tc.held - time.Nanosecond)
				assert.Equal(t, replica.Held, replicaStats(t, router, "a:80").State)
				time.Sleep(time.Nanosecond)
				assert.Equal(t, replica.Up, replicaStats(t, router, "a:80").State)
			})
		})
	}
}

func TestRetryAfterKeepsConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a", "http://b"))
		home, _ := turn(t, router, "s")
		lease := route(t, router, warmroute.Request{Session: "s"})
		lease.Done(warmroute.Result{RetryAfter: 10 * time.Second})
		name, outcome := turn(t, router, "s")
		assert.Equal(t, home, name)
		assert.Equal(t, warmroute.Sticky, outcome)
		for i := range 4 {
			other, _ := turn(t, router, fmt.Sprint("new", i))
			assert.NotEqual(t, home, other)
		}
		// With all of them held, one is better than none.
		for _, m := range router.Replicas() {
			m.Hold(time.Now(), 10*time.Second)
		}
		route(t, router, warmroute.Request{}).Done(warmroute.Result{})
	})
}

// A replica whose breaker is open takes no residents, and those it has go.
func TestAnOpenBreakerTakesNoResidents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a", "http://b"), warmroute.WithResidency(1<<20), steadyBreaker(replica.BreakerConfig{}), warmroute.WithSlowStart(0))
		homes := map[string]string{}
		for i := range 8 {
			session := fmt.Sprint("s", i)
			homes[session], _ = turn(t, router, session)
		}
		require.Equal(t, 4, *replicaStats(t, router, "a:80").Residents)
		for session, home := range homes {
			if home == "a:80" && replicaStats(t, router, "a:80").State == replica.Up {
				for range 5 {
					lease := route(t, router, warmroute.Request{Session: session})
					if lease.Replica().Name() != "a:80" {
						lease.Done(warmroute.Result{})
						break
					}
					lease.Done(warmroute.Result{Err: errReset})
				}
			}
		}
		require.Equal(t, replica.Open, replicaStats(t, router, "a:80").State)
		assert.Zero(t, *replicaStats(t, router, "a:80").Residents)
		for session := range homes {
			name, _ := turn(t, router, session)
			assert.Equal(t, "b:80", name)
		}
		assert.Equal(t, 8, *replicaStats(t, router, "b:80").Residents)
		time.Sleep(time.Second)
		lease := route(t, router, warmroute.Request{Session: "new"})
		assert.Equal(t, "a:80", lease.Replica().Name(), "a probe")
		for i := range 3 {
			name, _ := turn(t, router, fmt.Sprint("newer", i))
			assert.Equal(t, "b:80", name, "meanwhile")
		}
		lease.Answered()
		lease.Done(warmroute.Result{})
		assert.Equal(t, 1, *replicaStats(t, router, "a:80").Residents)
		assert.Zero(t, inFlight(t, router))
	})
}

// A probe that says nothing of the replica makes way for another, and closes
// nothing.
func TestProbesThatSayNothing(t *testing.T) {
	for name, probe := range map[string]func(*testing.T, *fleet, http.RoundTripper){
		"refused for its own fault": func(t *testing.T, base *fleet, transport http.RoundTripper) {
			base.set("a", status(400))
			_, err := ask(t, transport, "")
			require.NoError(t, err)
		},
		"given up before the first byte": func(t *testing.T, base *fleet, transport http.RoundTripper) {
			base.set("a", streamed(goodStream))
			resp, err := transport.RoundTrip(post(t, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &fleet{}
				base.set("a", reset)
				router := newRouter(t, at("http://a"), steadyBreaker(replica.BreakerConfig{}))
				transport := router.Transport(base)
				for range 5 {
					_, err := ask(t, transport, "")
					require.Error(t, err)
				}
				time.Sleep(time.Second)
				probe(t, base, transport)
				assert.Equal(t, replica.Probing, replicaStats(t, router, "a:80").State)
				assert.True(t, router.Replicas()[0].Allows(time.Now()))
			})
		})
	}
}
