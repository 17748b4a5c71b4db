package warmroute

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/affinity"
)

func TestWhatATurnLeavesIsKeptInAMemo(t *testing.T) {
	for _, tc := range []struct{ prompt, completion, wantPrompt, wantAnswer int64 }{
		{0, 0, 0, 0},
		{15, 16, 0, 0},
		{16, 17, 16, 16},
		{5125, 500, 5120, 384},
		{5125, 513, 5120, 512},
		{5125, 512, 5120, 384},
		{200_000, 1, 200_000, 0},
		{1_048_560, 524_289, 1_048_560, 524_288},
		{2_000_000, 3_000_000, 1_048_560, 524_288}, // the most it holds
		{-5, -5, 0, 0},
		{math.MaxInt64, math.MaxInt64, 1_048_560, 524_288},
	} {
		memo := leftBy(Usage{Prompt: tc.prompt, Completion: tc.completion}).memo()
		assert.LessOrEqual(t, memo, uint32(affinity.MaxMemo))
		l := leftOf(memo)
		assert.Equal(t, []int64{tc.wantPrompt, tc.wantAnswer}, []int64{int64(l.prompt), int64(l.answer)}, "%+v", tc)
	}
	// Never more than there was, and at least two thirds.
	for n := uint32(memoUnit); n < 400_000; n += 7 {
		got := leftOf(left{answer: n}.memo()).answer
		if got > n || 3*got < 2*n-2 {
			t.Fatalf("an answer of %d tokens is kept as %d", n, got)
		}
	}
	assert.EqualValues(t, 100, left{100, 60}.tokens(false))
	assert.EqualValues(t, 160, left{100, 60}.tokens(true))
}

func TestAnswersAreLearned(t *testing.T) {
	var a answers
	for range enoughAnswers - 1 {
		a.add(true)
		assert.False(t, a.kept.Load(), "too few to say")
	}
	a.add(true)
	assert.True(t, a.kept.Load())
	a.add(false)
	a.add(false)
	assert.True(t, a.kept.Load(), "20 of 22")
	a.add(false)
	assert.False(t, a.kept.Load(), "20 of 23")

	for range 10_000 {
		a.add(true)
	}
	n := 0
	for a.kept.Load() {
		a.add(false)
		n++
	}
	assert.LessOrEqual(t, n, answersMemory/5, "another template is noticed soon")
}

func TestSharedTokensAreLearned(t *testing.T) {
	var s shared
	assert.Zero(t, s.tokens())
	for range 100 {
		s.add(3500)
	}
	assert.InDelta(t, 3500, s.tokens(), 10)
	s.add(-1)
	assert.InDelta(t, 3500*15.0/16, s.tokens(), 10)
}
