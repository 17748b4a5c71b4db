package warmroute_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
)

// A replica that is out of use has no residents, and what they took up is free
// when it is back.
func TestAReplicaOutOfUseGivesUpItsResidents(t *testing.T) {
	for name, test := range map[string]struct {
		out  func(*testing.T, *simulated)
		back func(*testing.T, *simulated)
	}{
		"unreachable": {
			func(t *testing.T, s *simulated) {
				lease := route(t, s.router, warmroute.Request{PromptTokens: 10, MaxTokens: 10})
				lease.Done(warmroute.Result{Err: errors.New("refused"), Unreachable: true})
			},
			func(*testing.T, *simulated) { time.Sleep(2 * time.Second) },
		},
		"asleep": {
			func(_ *testing.T, s *simulated) {
				s.asleep = true
				s.publish()
				time.Sleep(1100 * time.Millisecond)
			},
			func(_ *testing.T, s *simulated) {
				s.asleep = false
				s.publish()
				time.Sleep(1100 * time.Millisecond)
			},
		},
		"restarted": {
			func(_ *testing.T, s *simulated) {
				s.started++
				s.publish()
				time.Sleep(1100 * time.Millisecond)
			},
			func(*testing.T, *simulated) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, 1, []warmroute.Option{warmroute.WithResidency(5000)}, func(t *testing.T, s *simulated) {
				learn(t, s.router)
				for i := range 3 {
					serve(route(t, s.router, large(fmt.Sprint(i))), 0)
				}
				require.Equal(t, 3, *replicaStats(t, s.router, "a:80").Residents)
				test.out(t, s)
				assert.Zero(t, *replicaStats(t, s.router, "a:80").Residents)
				test.back(t, s)
				lease := route(t, s.router, large("0"))
				serve(lease, 0)
				assert.Equal(t, 1, *replicaStats(t, s.router, "a:80").Residents)
				idleAgain(t, s.router)
			})
		})
	}
}

func TestTurnsWaitForAReplicaThatIsTakenAway(t *testing.T) {
	gone := errors.New("connection refused")
	for name, away := range map[string]func(*testing.T, *warmroute.Router, warmroute.Lease){
		"removed": func(t *testing.T, r *warmroute.Router, _ warmroute.Lease) {
			require.NoError(t, r.Remove("http://b"))
		},
		"unreachable": func(_ *testing.T, _ *warmroute.Router, lease warmroute.Lease) {
			lease.Done(warmroute.Result{Err: gone, Unreachable: true})
		},
		"drained": func(t *testing.T, r *warmroute.Router, _ warmroute.Lease) { require.NoError(t, r.Drain("b:80")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := tight(t, at("http://a", "http://b"))
				onA, onB := route(t, r, large("1")), route(t, r, large("2"))
				if onA.Replica().Name() != "a:80" {
					onA, onB = onB, onA
				}
				var all []*routing
				for i := range 3 {
					all = append(all, begin(t.Context(), t, r, large(fmt.Sprint("w", i))))
				}
				away(t, r, onB)
				serve(onB, 0)
				for _, w := range all {
					require.True(t, w.waits(), "none goes to what is not there")
				}
				serve(onA, 0)
				for i, w := range all {
					time.Sleep(300 * time.Millisecond) // b is out of use for a second at least
					lease := w.went()
					assert.Equal(t, "a:80", lease.Replica().Name(), "%d", i)
					serve(lease, 0)
				}
				idleAgain(t, r)
			})
		})
	}
}

func TestADrainedReplicaKeepsItsResidents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a", "http://b"))
		lease := route(t, r, large("s"))
		serve(lease, 0)
		home := lease.Replica().Name()
		require.NoError(t, r.Drain(home))
		for i := range 3 {
			other := route(t, r, large(fmt.Sprint("other", i)))
			assert.NotEqual(t, home, other.Replica().Name(), "it takes no new ones")
			again, err := r.TryRoute(large("s"))
			require.NoError(t, err)
			assert.Equal(t, home, again.Replica().Name())
			assert.Equal(t, warmroute.Sticky, again.Outcome())
			serve(again, 900)
			serve(other, 0)
			time.Sleep(time.Second)
		}
		require.NoError(t, r.Resume(home))
		idleAgain(t, r)
	})
}

// Its home is drained and it has no place there, nor can it have one elsewhere.
func TestAConversationOfTheOnlyReplicaIsNotStuckWhenThatIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a"))
		serve(route(t, r, large("s")), 0)
		time.Sleep(time.Second)
		serve(route(t, r, large("other")), 0) // takes the place
		require.NoError(t, r.Drain("a:80"))
		w := begin(t.Context(), t, r, large("s"))
		lease := w.went()
		assert.Equal(t, warmroute.Sticky, lease.Outcome(), "it keeps the conversations that it has")
		serve(lease, 0)
		_, err := r.Route(t.Context(), large("new"))
		require.ErrorIs(t, err, warmroute.ErrNoReplica)
		_, err = r.TryRoute(large("s"))
		require.NoError(t, err)
	})
}

func TestANewReplicaTakesTheQueueAtOnce(t *testing.T) {
	for name, comes := range map[string]func(*testing.T, *warmroute.Router){
		"added": func(t *testing.T, r *warmroute.Router) {
			require.NoError(t, r.Add(warmroute.Endpoint{URL: "http://c"}))
		},
		"resumed": func(t *testing.T, r *warmroute.Router) { require.NoError(t, r.Resume("b:80")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := tight(t, at("http://a", "http://b"))
				require.NoError(t, r.Drain("b:80"))
				first := route(t, r, large("first"))
				second, third := begin(t.Context(), t, r, large("second")), begin(t.Context(), t, r, large("third"))
				require.True(t, second.waits())
				at := time.Now()
				comes(t, r)
				lease := second.went()
				assert.Zero(t, time.Since(at))
				assert.NotEqual(t, "a:80", lease.Replica().Name())
				require.True(t, third.waits())
				serve(lease, 0)
				serve(first, 0)
				time.Sleep(time.Second)
				serve(third.went(), 0)
				idleAgain(t, r)
			})
		})
	}
}

// Replicas come and go under turns that wait: each turn has a replica or none.
func TestReplicasComeAndGoUnderTheQueue(t *testing.T) {
	r := tight(t, at("http://a"))
	stop := make(chan struct{})
	changes := make(chan struct{})
	go func() {
		defer close(changes)
		for {
			select {
			case <-stop:
				return
			default:
			}
			assert.NoError(t, r.Add(warmroute.Endpoint{URL: "http://b", Ranks: 3}))
			assert.NoError(t, r.Drain("b:80@1"))
			assert.NoError(t, r.Remove("http://b"))
		}
	}()
	done := make(chan struct{})
	for i := range 32 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 50 {
				lease, err := r.Route(context.Background(), large(fmt.Sprint(i)))
				if assert.NoError(t, err) {
					assert.NotNil(t, lease.Replica())
					serve(lease, 0)
				}
			}
		}()
	}
	for range 32 {
		<-done
	}
	close(stop)
	<-changes
	idleAgain(t, r)
	assert.Zero(t, r.Stats().Pools[0].InFlight)
}

func TestTurnsThatWaitAreTriedWhenEveryReplicaIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a", "http://b"))
		first, second := route(t, r, large("1")), route(t, r, large("2"))
		waiting := begin(t.Context(), t, r, large("3"))
		time.Sleep(time.Second)
		first.Done(warmroute.Result{Err: errors.New("refused"), Unreachable: true})
		require.True(t, waiting.waits(), "one is left")
		second.Done(warmroute.Result{Err: errors.New("refused"), Unreachable: true})
		lease := waiting.went()
		assert.Equal(t, warmroute.Placed, lease.Outcome(), "trying is better than refusing")
		lease.Done(warmroute.Result{Err: errors.New("refused"), Unreachable: true})
		_, err := r.TryRoute(large("4"))
		require.NoError(t, err, "and new ones are tried too")
		time.Sleep(time.Minute)
		serve(route(t, r, large("5")), 0)
	})
}

func TestFailoverKeepsThePlaceInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e events
		r := tight(t, at("http://a", "http://b"), warmroute.WithHooks(&e))
		refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
		transport := r.Transport(roundTripper(func(q *http.Request) (*http.Response, error) {
			if q.URL.Host == "b" {
				time.Sleep(time.Second)
				return nil, refused
			}
			return answer(200, io.NopCloser(strings.NewReader("{}"))), nil
		}))
		onA, onB := route(t, r, large("1")), route(t, r, large("2"))
		if onA.Replica().Name() != "a:80" {
			onA, onB = onB, onA
		}
		sent := func(session string) *routing {
			w := &routing{t: t}
			go func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://m/v1/chat/completions", strings.NewReader(`{"x":"`+strings.Repeat("x", 3600)+`"}`))
				assert.NoError(t, err)
				req.Header.Set("X-Session-Id", session)
				resp, err := transport.RoundTrip(req)
				w.err = err
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					assert.NoError(t, err)
					assert.NoError(t, resp.Body.Close())
				}
				w.done.Store(true)
			}()
			synctest.Wait()
			return w
		}
		failing := sent("failing") // waits, goes to b, and comes back
		time.Sleep(100 * time.Millisecond)
		later := sent("later")
		start := time.Now()
		e.forget()
		serve(onB, 0)
		time.Sleep(1500 * time.Millisecond)
		require.True(t, failing.waits())
		require.True(t, later.waits())
		serve(onA, 0)
		time.Sleep(3 * time.Second)
		require.False(t, failing.waits())
		require.False(t, later.waits())
		require.NoError(t, failing.err)
		require.NoError(t, later.err)
		require.Len(t, e.route, 3)
		assert.Equal(t, "b:80", e.route[0].Replica.Name())
		assert.Equal(t, "a:80", e.route[1].Replica.Name())
		assert.GreaterOrEqual(t, e.route[1].Waited, 1500*time.Millisecond, "from when it first came, so it was first")
		assert.LessOrEqual(t, e.route[1].Waited, time.Since(start)+100*time.Millisecond)
		assert.Less(t, e.route[2].Waited-e.route[1].Waited, 2*time.Second)
		idleAgain(t, r)
	})
}

func TestWhatNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 1}, {URL: "http://b", Ranks: 2}})
		transport := r.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
			return answer(200, io.NopCloser(strings.NewReader("{}"))), nil
		}))
		for i := range 3 {
			route(t, r, large(fmt.Sprint(i)))
		}
		_, err := r.TryRoute(large("4"))
		require.ErrorIs(t, err, warmroute.ErrOverloaded, "it is full")
		for method, path := range map[string]string{
			http.MethodGet: "/v1/models", http.MethodPost: "/v1/embeddings", http.MethodPut: "/v1/chat/completions",
		} {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://m"+path, strings.NewReader("{}"))
			require.NoError(t, err)
			req.Header.Set("X-Session-Id", "5")
			start := time.Now()
			resp, err := transport.RoundTrip(req)
			require.NoError(t, err, path)
			require.NoError(t, resp.Body.Close())
			assert.Zero(t, time.Since(start), path)
		}
		pinned := large("6")
		pinned.ClientRank = "1"
		lease, err := r.TryRoute(pinned)
		require.NoError(t, err)
		assert.Equal(t, warmroute.Pinned, lease.Outcome())
	})
	for name, opts := range map[string][]warmroute.Option{
		"residency off": {warmroute.WithResidency(warmroute.ResidencyOff)},
		"affinity off":  {warmroute.WithAffinity(false)},
		"a picker that is asked at home": {warmroute.WithPicker(func() balance.Picker {
			return &leaver{}
		})},
		"auto without a capacity": {warmroute.WithResidency(warmroute.ResidencyAuto)},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := tight(t, at("http://a", "http://b"), opts...)
			for i := range 20 {
				_, err := r.TryRoute(large(fmt.Sprint(i)))
				require.NoError(t, err, name)
			}
		})
	}
}

func TestAffinityIsSwitchedOffWhileTurnsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e events
		r := tight(t, at("http://a"), warmroute.WithHooks(&e))
		first := route(t, r, large("first"))
		e.forget()
		var all []*routing
		for i := range 4 {
			all = append(all, begin(t.Context(), t, r, large(fmt.Sprint(i))))
			require.True(t, all[i].waits())
		}
		time.Sleep(3 * time.Second)
		require.NoError(t, r.SetAffinity("", false))
		for _, w := range all {
			w.went()
		}
		assert.Equal(t, 3*time.Second, e.route[0].Waited)
		_, err := r.TryRoute(large("more"))
		require.NoError(t, err)
		require.NoError(t, r.SetAffinity("", true))
		for _, w := range all {
			serve(w.lease, 0)
		}
		serve(first, 0)
		assert.Zero(t, *replicaStats(t, r, "a:80").Residents)
		serve(route(t, r, large("first")), 0)
		assert.Equal(t, 1, *replicaStats(t, r, "a:80").Residents)
	})
}

func TestAdaptersWaitForTheReplicasThatServeThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Model: "base"}}, warmroute.WithResidency(1000), warmroute.WithAdapters("fine"))
		for range learned {
			lease := route(t, r, warmroute.Request{Model: "base", PromptTokens: 900, MaxTokens: 50})
			serve(lease, 0)
		}
		of := func(model, session string) warmroute.Request {
			req := large(session)
			req.Model = model
			return req
		}
		first := route(t, r, of("base", "s"))
		w := begin(t.Context(), t, r, of("fine", "s"))
		require.True(t, w.waits(), "the same text of an adapter is another prefix")
		serve(first, 0)
		time.Sleep(time.Second)
		serve(w.went(), 0)
		lease := route(t, r, of("fine", "s"))
		assert.Equal(t, warmroute.Sticky, lease.Outcome())
		serve(lease, 900)
	})
}

// Pickers of the user's own are asked among the replicas that have room, and
// one that fails or panics harms nobody.
func TestABrokenPickerFailsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a", "http://b"), warmroute.WithPicker(func() balance.Picker { return &brokenPicker{n: 3} }))
		before := r.Stats().Pools[0].Requests.PickerErrors
		assert.Equal(t, uint64(learned), before)
		first, second := route(t, r, large("1")), route(t, r, large("2"))
		var all []*routing
		for i := range 6 {
			all = append(all, begin(t.Context(), t, r, large(fmt.Sprint("w", i))))
			require.True(t, all[i].waits())
		}
		serve(first, 0)
		serve(second, 0)
		for _, w := range all {
			time.Sleep(time.Second)
			serve(w.went(), 0)
		}
		assert.Equal(t, before+8, r.Stats().Pools[0].Requests.PickerErrors)
		idleAgain(t, r)
	})
}
