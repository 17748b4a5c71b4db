package fakevllm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// finishAll steps until every request has left.
func finishAll(s *scheduler) {
	for len(s.running)+len(s.waiting) > 0 {
		s.schedule()
		s.complete()
	}
}

// The last token of a prompt is computed in any case, and with it the block that
// it ends.
func TestLastBlockOfAWhollyCachedPromptIsComputed(t *testing.T) {
	for prompt, want := range map[int]int{15: 12, 16: 12, 17: 16} {
		s := newTestScheduler(100, 10, 100)
		s.add(newTestSequence('a', 40, 1))
		finishAll(&s)
		q := newTestSequence('a', prompt, 1)
		s.add(q)
		st := s.schedule()
		assert.Equal(t, want, q.cached, prompt)
		assert.Equal(t, prompt-want, st.prefill, prompt)
	}
}

func TestCacheIsNoUsage(t *testing.T) {
	s := newTestScheduler(11, 10, 100) // 10 blocks
	s.add(newTestSequence('a', 20, 1))
	s.schedule()
	assert.InDelta(t, 0.5, s.pool.usage(), 1e-9)
	s.complete()
	assert.Zero(t, s.pool.usage())
	assert.Len(t, s.pool.byHash, 5, "which serve hits all the same")
}

// As in vLLM, a request that cannot be admitted is looked up, and counted, at
// each step in which it is at the head of the queue; one that was preempted is
// looked up and not counted.
func TestLookupsAreCountedAtEachAttempt(t *testing.T) {
	s := newTestScheduler(11, 10, 100) // 40 tokens
	s.add(newTestSequence('a', 24, 8))
	s.add(newTestSequence('b', 24, 1))
	s.add(newTestSequence('c', 4, 1))
	s.schedule()
	assert.Equal(t, 24+24, s.queries, "b does not fit, and c is not looked at")
	for range 3 {
		s.complete()
		s.schedule()
	}
	assert.Equal(t, 24+4*24, s.queries)
	assert.Zero(t, s.found)
	require.Len(t, s.running, 1)

	s = newTestScheduler(8, 10, 100) // 28 tokens
	a, b := newTestSequence('a', 12, 4), newTestSequence('b', 12, 10)
	s.add(a)
	s.add(b)
	finishAll(&s)
	require.Equal(t, 1, b.preemptions)
	assert.Equal(t, 24, s.queries, "b's second admission does not count")
	assert.Zero(t, s.found)
}

func TestNoRequestIsLookedUpWhenThereIsNoPlace(t *testing.T) {
	s := newTestScheduler(100, 1, 100)
	s.add(newTestSequence('a', 8, 3))
	s.add(newTestSequence('b', 8, 1))
	s.schedule()
	s.complete()
	s.schedule()
	assert.Equal(t, 8, s.queries, "as many run as may")

	s = newTestScheduler(100, 10, 8)
	s.add(newTestSequence('a', 8, 1))
	s.add(newTestSequence('b', 8, 1))
	s.schedule()
	assert.Equal(t, 8, s.queries, "the budget is spent")
}
