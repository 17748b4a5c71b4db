// Package realvllm_test drives conversations through the gateway example in
// front of a real vLLM and checks, by the engine's own counters, that each
// stays on its rank and that what is there is reused. See README.md.
package realvllm_test

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	engineURL     = flag.String("vllm", os.Getenv("WARMROUTE_VLLM"), "base `URL` of a vLLM with at least two data-parallel ranks and --enable-prompt-tokens-details, with nothing else running on it (default $WARMROUTE_VLLM)")
	conversations = flag.Int("conversations", 20, "conversations for each API")
	turns         = flag.Int("turns", 6, "turns of each conversation")
	parallel      = flag.Int("parallel", 4, "conversations at a time")
	words         = flag.Int("words", 350, "words of the system prompt, and of each first message")
	answer        = flag.Int("answer", 32, "tokens of each answer")
	small         = flag.Bool("small", false, "the engine's caches are too small for the conversations: prefixes must be seen to be lost")
	restart       = flag.String("restart", "", "shell `command` that restarts the engine and returns when it answers again")
)

// setUp starts the gateway in front of the engine, with further flags, or skips
// the test if there is none.
func setUp(t *testing.T, flags ...string) (engine, gateway) {
	t.Helper()
	if *engineURL == "" {
		t.Skip("no engine given: start a vLLM and pass -vllm URL or set WARMROUTE_VLLM (see README.md)")
	}
	u, err := url.Parse(*engineURL)
	require.NoError(t, err)
	e := engine{t: t, url: u.String()}
	e.model = e.servedModel()
	require.GreaterOrEqual(t, len(e.counts()), 2, "the engine needs at least two data-parallel ranks for this test to say anything")
	return e, startGateway(t, *engineURL, flags...)
}

// TestOneAtATime follows each single request: it must move the counters of the
// one rank that the gateway named, and of no other.
func TestOneAtATime(t *testing.T) {
	e, g := setUp(t)
	for i, api := range apis {
		for k := range 2 {
			c := newConversation(e.model, api, 1000*(i+1)+k, *words, *answer)
			home := ""
			for n := range *turns {
				before := e.counts()
				got := c.turn(t, g, n%2 == 0)
				after := e.settled(before, 1)
				moved := moved(before, after)
				require.Len(t, moved, 1, "%s turn %d moved the counters of ranks %v", c, n, moved)
				require.Equal(t, got.rank(t), moved[0], "%s turn %d: the gateway named %s", c, n, got.replica)
				if n == 0 {
					home = got.replica
					assert.Equal(t, "placed", got.outcome)
					continue
				}
				assert.Equal(t, "sticky", got.outcome)
				assert.Equal(t, home, got.replica)
			}
		}
	}
}

// TestConversationsStay is the main job: many conversations at a time, each on
// one rank throughout, and their prefixes reused.
func TestConversationsStay(t *testing.T) {
	e, g := setUp(t)
	if *small {
		t.Skip("-small: the prefixes do not fit")
	}
	for i, api := range apis {
		t.Run(api.name, func(t *testing.T) {
			before, statsBefore := e.counts(), g.stats(t)
			all := make([][]turnResult, *conversations)
			var wg sync.WaitGroup
			slots := make(chan struct{}, *parallel)
			for k := range *conversations {
				slots <- struct{}{}
				wg.Go(func() {
					defer func() { <-slots }()
					c := newConversation(e.model, api, 100_000*(i+1)+k, *words, *answer)
					for n := range *turns {
						all[k] = append(all[k], c.turn(t, g, (k+n)%2 == 0))
					}
				})
			}
			wg.Wait()
			if t.Failed() {
				return
			}
			requests := *conversations * *turns
			after, statsAfter := e.settled(before, requests), g.stats(t)

			claimed := map[int]rankCounts{}
			var previous, reused, least float64 = 0, 0, 1
			for k, results := range all {
				for n, r := range results {
					rank := r.rank(t)
					c := claimed[rank]
					claimed[rank] = c.add(rankCounts{1, float64(r.prompt), float64(r.cached), float64(r.completion)})
					if n == 0 {
						assert.Equal(t, "placed", r.outcome)
						continue
					}
					assert.Equal(t, "sticky", r.outcome, "conversation %d turn %d", k, n)
					assert.Equal(t, results[0].replica, r.replica, "conversation %d turn %d", k, n)
					share := float64(min(r.cached, results[n-1].prompt)) / float64(results[n-1].prompt)
					assert.GreaterOrEqual(t, share, 0.9, "conversation %d turn %d: %d of the previous prompt's %d tokens were cached", k, n, r.cached, results[n-1].prompt)
					least = min(least, share)
					previous += float64(results[n-1].prompt)
					reused += float64(min(r.cached, results[n-1].prompt))
				}
			}
			// The engine's counters by rank are those of the requests that the
			// gateway said went there: to the token, which requests that went
			// elsewhere would not add up to.
			for rank := range after {
				assert.Equal(t, claimed[rank], after[rank].sub(before[rank]), "rank %d", rank)
			}
			// And the gateway's own stats say the same.
			total := sum(after).sub(sum(before))
			assert.Equal(t, uint64(*conversations), statsAfter.Requests.Placed-statsBefore.Requests.Placed)
			assert.Equal(t, uint64(requests-*conversations), statsAfter.Requests.Sticky-statsBefore.Requests.Sticky)
			assert.Zero(t, statsAfter.Requests.Failed)
			assert.Zero(t, statsAfter.InFlight)
			assert.InDelta(t, total.cached, float64(statsAfter.Tokens.PromptCached-statsBefore.Tokens.PromptCached), 0)
			assert.InDelta(t, total.prompt, float64(statsAfter.Tokens.PromptCached+statsAfter.Tokens.PromptComputed-statsBefore.Tokens.PromptCached-statsBefore.Tokens.PromptComputed), 0)
			assert.InDelta(t, total.completion, float64(statsAfter.Tokens.Completion-statsBefore.Tokens.Completion), 0)
			assert.Equal(t, statsBefore.Tokens.UnmeasuredRequests, statsAfter.Tokens.UnmeasuredRequests)
			// The gateway has judged each turn by the engine's count on its own.
			g.eventually(t, "every turn is judged", func() bool {
				return judged(g.stats(t).Turns)-judged(statsBefore.Turns) == uint64(requests-*conversations)
			})
			verified := g.stats(t).Turns.Verified - statsBefore.Turns.Verified
			assert.GreaterOrEqual(t, float64(verified), 0.95*float64(requests-*conversations))
			assert.Empty(t, g.stats(t).Problems)

			fmt.Printf("%s: %d conversations of %d turns, %d at a time: all stayed; previous prompt cached %.1f %% (least %.1f %%); prompt tokens cached %.1f %%; verified %d of %d turns; requests by rank %s\n",
				api.name, *conversations, *turns, *parallel, 100*reused/previous, 100*least, 100*total.cached/total.prompt, verified, requests-*conversations, byRank(before, after))
		})
	}
}

// TestClientRank sends the rank that the client chose, whatever the load.
func TestClientRank(t *testing.T) {
	e, g := setUp(t)
	for rank := range e.counts() {
		before, statsBefore := e.counts(), g.stats(t)
		c := newConversation(e.model, apis[0], 10+rank, 50, *answer)
		c.header.Set("X-data-parallel-rank", fmt.Sprint(rank))
		for n := range 3 {
			got := c.turn(t, g, n%2 == 0)
			assert.Equal(t, "pinned", got.outcome)
		}
		after := e.settled(before, 3)
		assert.Equal(t, []int{rank}, moved(before, after))
		statsAfter := g.stats(t)
		assert.Equal(t, uint64(3), statsAfter.Requests.Pinned-statsBefore.Requests.Pinned)
		assert.Equal(t, uint64(3), statsAfter.Replicas[rank].Pinned-statsBefore.Replicas[rank].Pinned)
	}
	c := newConversation(e.model, apis[0], 1, 5, *answer)
	c.header.Set("X-data-parallel-rank", "99")
	status, _ := c.send(t, g, false)
	assert.Equal(t, 400, status, "no replica has that rank")
}

// TestStatsAgree compares what the gateway shows of the engine with its page.
func TestStatsAgree(t *testing.T) {
	e, g := setUp(t)
	c := newConversation(e.model, apis[0], 77, 50, *answer)
	before := e.counts()
	c.turn(t, g, false)
	counts := e.settled(before, 1)
	g.eventually(t, "the gateway scrapes each second", func() bool {
		s := g.stats(t)
		if len(s.Replicas) != len(counts) {
			return false
		}
		for rank, m := range s.Replicas {
			want := counts[rank]
			if m.Running == nil || *m.Running != 0 || m.Stale || m.KVUsage == nil {
				return false
			}
			if want.prompt > 0 && (m.PrefixHitRate == nil || *m.PrefixHitRate != e.hitRate(rank)) {
				return false
			}
		}
		return true
	})
}
