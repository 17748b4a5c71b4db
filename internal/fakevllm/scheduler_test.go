package fakevllm

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newTestSequence returns a request whose prompt is so many times the same
// token. Those with other letters arrive in alphabetical order.
func newTestSequence(prefix byte, prompt, limit int) *sequence {
	tok := newTokenizer(4, "")
	for range prompt {
		tok.add(uint64(prefix))
	}
	return &sequence{
		prompt: prompt, limit: limit, atEnd: byLength, text: answer(tok.state), token: tok,
		news: make(chan struct{}, 1), arrived: time.Unix(int64(prefix), 0),
	}
}

func newTestScheduler(blocks, maxSeqs, budget int) scheduler {
	return newScheduler(&Config{Blocks: blocks, BlockSize: 4, MaxNumSeqs: maxSeqs, MaxBatchedTokens: budget})
}

func TestOneBudgetForDecodeAndPrefill(t *testing.T) {
	s := newTestScheduler(100, 10, 10)
	a, b, c := newTestSequence('a', 8, 5), newTestSequence('b', 12, 5), newTestSequence('c', 3, 5)
	s.add(a)
	s.add(b)
	s.add(c)
	assert.Equal(t, step{tokens: 10, prefill: 10}, s.schedule(), "a whole and 2 of b")
	assert.Equal(t, []*sequence{a}, s.complete())
	assert.Equal(t, step{tokens: 10, prefill: 9, context: 9}, s.schedule(), "a's token, 9 of b")
	assert.Equal(t, []*sequence{a}, s.complete())
	assert.Equal(t, step{tokens: 5, prefill: 4, context: 10}, s.schedule(), "a's token, the last of b, c whole")
	assert.Equal(t, []*sequence{a, b, c}, s.complete())
	assert.Equal(t, step{tokens: 3, context: 11 + 13 + 4}, s.schedule())
}

func TestArrivalsOfOneMomentAreOrderedByContent(t *testing.T) {
	texts := func(order ...byte) (got []answer) {
		s := newTestScheduler(100, 10, 10)
		for _, prefix := range order {
			q := newTestSequence(prefix, 10, 1)
			q.arrived = time.Unix(1, 0)
			s.add(q)
		}
		for _, q := range s.waiting {
			got = append(got, q.text)
		}
		return got
	}
	assert.Equal(t, texts('a', 'b', 'c', 'd'), texts('c', 'b', 'd', 'a'))
}

func TestPrefixIsFoundWithinAStep(t *testing.T) {
	s := newTestScheduler(100, 10, 100)
	s.add(newTestSequence('a', 17, 1))
	s.add(newTestSequence('a', 17, 1))
	assert.Equal(t, step{tokens: 18, prefill: 18}, s.schedule())
	assert.Equal(t, 16, s.running[1].cached)
	assert.Equal(t, s.running[0].blocks[:4], s.running[1].blocks[:4])
	assert.Equal(t, 6, s.pool.usable()-s.pool.free)
	s.complete()
	assert.Equal(t, s.pool.usable(), s.pool.free)
}

func TestPreemptedComesFirstAndFindsItsBlocks(t *testing.T) {
	s := newTestScheduler(8, 10, 100) // 7 blocks, 28 tokens
	a, b, c := newTestSequence('a', 12, 4), newTestSequence('b', 12, 10), newTestSequence('c', 4, 1)
	s.add(a)
	s.add(b)
	s.schedule() // 3 blocks each
	s.complete()
	s.add(c)
	s.schedule() // a takes the last block for its 13th token, b finds none
	assert.Equal(t, 1, s.preemptions)
	assert.Equal(t, []*sequence{a}, s.running)
	assert.Equal(t, []*sequence{b, c}, s.waiting, "in front of c, and nobody is admitted in this step")
	assert.Zero(t, b.computed)
	assert.Equal(t, 3, s.pool.free)
	s.complete()
	s.schedule() // b needs 4 blocks for its 13 tokens, 3 are free; c waits behind it
	assert.Equal(t, []*sequence{b, c}, s.waiting)
	for a.finish == unfinished {
		s.complete()
		s.schedule()
	}
	assert.Equal(t, b, s.running[0])
	assert.Equal(t, 12, b.computed, "its three blocks are found")
	assert.Zero(t, b.cached, "the first admission counts")
}

func TestSchedulerKeepsItsBooks(t *testing.T) {
	// Random requests and aborts; after every step each block's references
	// are those of the running requests.
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := newTestScheduler(21, 4, 16)
		var all []*sequence
		for i := 0; i < 400 || len(s.running)+len(s.waiting) > 0; i++ {
			if i < 400 && rng.IntN(3) == 0 {
				q := newTestSequence(byte(rng.IntN(5)), 1+rng.IntN(50), 1+rng.IntN(30))
				all = append(all, q)
				s.add(q)
			}
			if len(all) > 0 && rng.IntN(5) == 0 {
				s.abort(all[rng.IntN(len(all))])
			}
			s.dropAborted()
			st := s.schedule()
			require.LessOrEqual(t, st.tokens, 16)
			require.LessOrEqual(t, len(s.running), 4)
			require.Equal(t, st.tokens == 0, len(s.running)+len(s.waiting) == 0, "it always gets on")
			s.complete()
			checkBooks(t, &s)
		}
		for _, q := range all {
			require.NotEqual(t, unfinished, q.finish)
			require.False(t, q.finish == byLength && q.generated != q.limit)
		}
		require.Equal(t, s.pool.usable(), s.pool.free)
	}
}

func checkBooks(t *testing.T, s *scheduler) {
	t.Helper()
	want := make([]int32, len(s.pool.blocks))
	for _, q := range s.running {
		require.Len(t, q.blocks, s.blocksFor(q.computed))
		for _, id := range q.blocks {
			want[id]++
		}
	}
	got := make([]int32, len(want))
	unreferenced := -1 // The null block is nobody's and not free.
	for id, b := range s.pool.blocks {
		got[id] = b.refs
		if b.refs == 0 {
			unreferenced++
		}
	}
	require.Equal(t, want, got)
	free := 0
	for id := s.pool.blocks[nullBlock].next; id != nullBlock; id = s.pool.blocks[id].next {
		free++
	}
	require.Equal(t, unreferenced, free)
	require.Equal(t, s.pool.free, free)
	for _, id := range s.pool.byHash {
		require.True(t, s.pool.blocks[id].hashed)
	}
}

func TestAdmissionByChunk(t *testing.T) {
	for _, byChunk := range []bool{false, true} {
		s := newScheduler(&Config{Blocks: 11, BlockSize: 4, MaxNumSeqs: 10, MaxBatchedTokens: 8, AdmitByChunk: byChunk})
		a, b := newTestSequence('a', 24, 8), newTestSequence('b', 24, 8) // 6 blocks each of 10
		s.add(a)
		s.add(b)
		for range 3 {
			s.schedule()
			s.complete()
		}
		require.Equal(t, 1, a.generated)
		s.schedule()
		if !byChunk {
			assert.Equal(t, []*sequence{a}, s.running, "b's 6 blocks are not free")
			continue
		}
		assert.Equal(t, []*sequence{a, b}, s.running)
		assert.Equal(t, 7, b.chunk, "what a leaves of the budget")
		for s.preemptions == 0 {
			s.complete()
			s.schedule()
		}
		assert.Equal(t, []*sequence{a}, s.running, "it goes when its later chunks find no room")
		for len(s.running)+len(s.waiting) > 0 {
			s.complete()
			checkBooks(t, &s)
			s.schedule()
		}
		assert.Equal(t, byLength, b.finish)
	}
}
