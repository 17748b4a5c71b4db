package warmroute_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
)

// losing has the two ranks of an endpoint lose what they had cached within two
// minutes, and hold it for ten seconds, as conversations have shown. The first
// shared tokens of all of them are always there.
func losing(t *testing.T, shared int, opts []warmroute.Option, test func(*testing.T, *simulated)) {
	simulate(t, 2, opts, func(t *testing.T, s *simulated) {
		// Enough on each rank to say so of it.
		const many = 60
		for i := range many {
			s.turn(fmt.Sprint("old", i), -1, 2000, shared)
		}
		for i := range many {
			s.turn(fmt.Sprint("old", i), -1, 2100, 2000)
		}
		s.pause()
		for i := range many {
			s.turn(fmt.Sprint("old", i), -1, 2200, max(16, shared))
		}
		turns := s.turns()
		require.Equal(t, uint64(many), turns.Lost)
		require.Equal(t, uint64(many), turns.Verified)
		test(t, s)
	})
}

// pause lets two minutes pass, in which others fill the caches.
func (s *simulated) pause() {
	for range 4 {
		time.Sleep(30 * time.Second)
		for i := range s.engines {
			s.engines[i].prompt += 20_000
		}
		s.publish()
	}
	time.Sleep(2 * time.Second)
}

// busy has so many requests run on a replica.
func (s *simulated) busy(replica string, n int) (end func()) {
	var held, others []warmroute.Lease
	for len(held) < n {
		lease := route(s.t, s.router, warmroute.Request{})
		if lease.Replica().Name() == replica {
			held = append(held, lease)
		} else {
			others = append(others, lease)
		}
	}
	for _, l := range others {
		l.Done(warmroute.Result{NoTokens: true})
	}
	return func() {
		for _, l := range held {
			l.Done(warmroute.Result{NoTokens: true})
		}
	}
}

func TestAHomeThatHasProbablyLostItNoLongerOutweighsLoad(t *testing.T) {
	for _, shared := range []int{0, 1000} {
		losing(t, shared, nil, func(t *testing.T, s *simulated) {
			home := s.turn("s", -1, 2000, shared).Replica().Name()
			defer s.busy(home, 3)()
			time.Sleep(5 * time.Second)
			again := s.turn("s", -1, 2100, 2000)
			assert.Equal(t, warmroute.Sticky, again.Outcome(), "after a short pause it is there")
			assert.Equal(t, home, again.Replica().Name())

			s.pause()
			moved := s.turn("s", -1, 2200, shared)
			assert.Equal(t, warmroute.Placed, moved.Outcome(), "%d tokens that any replica has are no reason to stay", shared)
			assert.NotEqual(t, home, moved.Replica().Name(), "placed like a new one")
			time.Sleep(time.Second)
			stays := s.turn("s", -1, 2300, 2200)
			assert.Equal(t, warmroute.Sticky, stays.Outcome())
			assert.Equal(t, moved.Replica().Name(), stays.Replica().Name(), "that is its home now")
		})
	}
}

func TestAHomeThatHasProbablyLostItBreaksATie(t *testing.T) {
	losing(t, 0, nil, func(t *testing.T, s *simulated) {
		homes := map[string]string{}
		for i := range 8 {
			c := fmt.Sprint("c", i)
			homes[c] = s.turn(c, -1, 1000, 0).Replica().Name()
		}
		s.pause()
		for c, home := range homes {
			lease := s.turn(c, -1, 1100, 0)
			assert.Equal(t, warmroute.Sticky, lease.Outcome())
			assert.Equal(t, home, lease.Replica().Name())
		}
		before := s.turns().Lost
		s.pause()
		for c := range homes {
			s.turn(c, -1, 1200, 0)
		}
		assert.Equal(t, before+8, s.turns().Lost, "each turn there is judged as before")
	})
}

// The requests of one conversation stay together, wherever the first of them goes.
func TestAConversationInDoubtIsPlacedOnce(t *testing.T) {
	for _, moves := range []bool{true, false} {
		losing(t, 0, nil, func(t *testing.T, s *simulated) {
			home := s.turn("s", -1, 1000, 0).Replica().Name()
			if moves {
				defer s.busy(home, 5)()
			}
			s.pause()
			var leases []warmroute.Lease
			names := map[string]bool{}
			for range 5 {
				lease := route(t, s.router, warmroute.Request{Session: "s"})
				leases = append(leases, lease)
				names[lease.Replica().Name()] = true
			}
			assert.Len(t, names, 1)
			assert.Equal(t, !moves, names[home])
			for _, l := range leases[1:] {
				assert.Equal(t, warmroute.Sticky, l.Outcome())
				l.Answered()
				l.Done(warmroute.Result{NoTokens: true})
			}
			leases[0].Done(warmroute.Result{NoTokens: true})
		})
	}
}

// Nobody goes by what was learned an hour ago: the cache may hold longer now.
func TestDoubtFades(t *testing.T) {
	losing(t, 0, nil, func(t *testing.T, s *simulated) {
		home := s.turn("s", -1, 1000, 0).Replica().Name()
		time.Sleep(50 * time.Minute)
		defer s.busy(home, 3)()
		assert.Equal(t, warmroute.Sticky, s.turn("s", -1, 1100, 1000).Outcome())
	})
}

func TestAReplicaThatKeepsIsNotDoubtedForOthers(t *testing.T) {
	simulate(t, 2, nil, func(t *testing.T, s *simulated) {
		homes := map[string]string{}
		cached := func(c string) int {
			if homes[c] == "a:80@0" {
				return 0
			}
			return 2100
		}
		const many = 120
		for i := range many {
			c := fmt.Sprint(i)
			homes[c] = s.turn(c, -1, 2000, 0).Replica().Name()
		}
		for range 2 {
			s.pause()
			for i := range many {
				c := fmt.Sprint(i)
				s.turn(c, -1, 2100, cached(c))
			}
		}
		s.pause()
		for _, home := range []string{"a:80@0", "a:80@1"} {
			c := ""
			for i := 0; homes[c] != home; i++ {
				c = fmt.Sprint(i)
			}
			end := s.busy(home, 3)
			lease := s.turn(c, -1, 2200, cached(c))
			assert.Equal(t, home == "a:80@1", lease.Replica().Name() == home, home)
			end()
		}
		gaps := replicaStats(t, s.router, "a:80@0").Gaps[2]
		assert.Zero(t, gaps.Kept)
		assert.Less(t, gaps.Expected, 0.25)
		gaps = replicaStats(t, s.router, "a:80@1").Gaps[2]
		assert.Equal(t, gaps.Turns, gaps.Kept)
		assert.Greater(t, gaps.Expected, 0.8)
	})
}

func TestPickersAreToldWhatIsProbablyLost(t *testing.T) {
	p := new(leaver)
	var asked []balance.Request
	opts := []warmroute.Option{warmroute.WithPicker(func() balance.Picker { return asksAtHome{p, &asked} })}
	losing(t, 0, opts, func(t *testing.T, s *simulated) {
		home := s.turn("s", -1, 1000, 0).Replica().Name()
		asked = nil
		s.turn("s", -1, 1000, 992)
		require.Len(t, asked, 1)
		assert.Equal(t, 992, asked[0].HomeTokens, "by 16 tokens")
		assert.Zero(t, asked[0].HomeLost)
		s.pause()
		assert.Equal(t, warmroute.Sticky, s.turn("s", -1, 1000, 0).Outcome())
		assert.InDelta(t, 0.95, asked[1].HomeLost, 0.05)
		assert.Equal(t, 992, asked[1].HomeTokens)
		s.pause()
		p.leave = true
		moved := s.turn("s", -1, 1000, 0)
		assert.Equal(t, warmroute.Placed, moved.Outcome(), "it does not come back to nothing")
		assert.NotEqual(t, home, moved.Replica().Name())
		p.leave = false
		assert.Equal(t, moved.Replica().Name(), s.turn("s", -1, 1000, 992).Replica().Name())
	})
}

// asksAtHome notes what a picker is asked.
type asksAtHome struct {
	*leaver
	asked *[]balance.Request
}

func (p asksAtHome) Pick(req *balance.Request, candidates []balance.Candidate) (int, error) {
	*p.asked = append(*p.asked, *req)
	return p.leaver.Pick(req, candidates)
}

// Answers that are found again count as left, once enough of them were, and no
// longer when the template leaves them out.
func TestAnswersAreExpectedWhereTheyAreFound(t *testing.T) {
	p := new(seen)
	router := newRouter(t, at("http://a"), warmroute.WithPicker(newSeen(p)), warmroute.WithAffinity(false))
	n := 0
	turn := func(prompt, cached int64) {
		lease := route(t, router, warmroute.Request{Session: fmt.Sprint(n)})
		lease.Answered()
		lease.Done(warmroute.Result{Usage: warmroute.Usage{Prompt: prompt, Cached: cached, Completion: 1000, Known: true, Measured: true}})
	}
	// conversations have two turns each; the second finds so much.
	conversations := func(cached int64) (expected int) {
		for range 40 {
			n++
			turn(5000, 0)
			turn(6100, cached)
		}
		return p.requests[len(p.requests)-1].HomeTokens
	}
	assert.Equal(t, 4992, conversations(4992), "the prompt alone was ever found")
	assert.False(t, router.Stats().Pools[0].AnswersCached)
	for range 10 {
		conversations(5984)
	}
	assert.Equal(t, 4992+768, conversations(5984))
	assert.True(t, router.Stats().Pools[0].AnswersCached)
	assert.Equal(t, 4992, conversations(4992), "another template")
	assert.False(t, router.Stats().Pools[0].AnswersCached)
	assert.Zero(t, router.Stats().Pools[0].Turns.Lost, "what the template leaves out is not lost")
}
