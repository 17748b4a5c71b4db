package warmroute

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/warmroute/warmroute/affinity"
)

// left is what a conversation's last turn has left in the cache of its home, in
// tokens, rounded down.
type left struct {
	prompt uint32
	// answer begins where the prompt ends. The last token of an answer is sampled
	// and never computed, so it is not in the cache.
	answer uint32
}

// leftBy is what a turn leaves that the engine has counted so.
func leftBy(u Usage) left { return left{clamp(u.Prompt), clamp(u.Completion - 1)} }

func clamp(n int64) uint32 { return uint32(min(max(0, n), 1<<31)) }

// The table keeps it in the session's memo: the answer's size as a level in the
// lower bits, above it the prompt in units of vLLM's usual block. Prompts of more
// than a million tokens count as that.
const (
	memoUnit    = 16
	answerBits  = 5
	maxLevel    = 1<<answerBits - 1
	maxMemoSize = affinity.MaxMemo >> answerBits
)

func (l left) memo() uint32 {
	return min(l.prompt/memoUnit, maxMemoSize)<<answerBits | answerLevel(l.answer)
}

func leftOf(memo uint32) left {
	return left{memo >> answerBits * memoUnit, answerTokens(memo & maxLevel)}
}

// answerLevel is the last level that has no more tokens: they go in steps of a
// half and a third, so that up to a third of an answer is left out of account.
func answerLevel(tokens uint32) uint32 {
	octave := bits.Len32(tokens / memoUnit)
	if octave == 0 {
		return 0
	}
	level := uint32(2*octave - 1)
	if tokens >= answerTokens(level+1) {
		level++
	}
	return min(level, maxLevel)
}

// answerTokens is 0 for level 0, and then 16, 24, 32, 48, 64 and so on.
func answerTokens(level uint32) uint32 {
	if level == 0 {
		return 0
	}
	tokens := uint32(memoUnit) << ((level - 1) / 2)
	if level%2 == 0 {
		tokens += tokens / 2
	}
	return tokens
}

// tokens is what the next turn will find, if it finds what was left: the answer
// is a part of it where the pool's next prompts begin with the last answers.
func (l left) tokens(withAnswer bool) uint32 {
	if withAnswer {
		return l.prompt + l.answer
	}
	return l.prompt
}

// answers learns whether a pool's turns find the last turn's answer in the cache
// behind its prompt. Chat templates that leave out the reasoning of former turns,
// and clients that do not send it back, make another prefix of it.
type answers struct {
	mu          sync.Mutex
	seen, found float64 // the older ones count less
	kept        atomic.Bool
}

// Answers are taken to be found once enough turns have shown it, and nearly all
// of them. Memory fades, so that another template is noticed.
const (
	enoughAnswers  = 20
	nearlyAll      = 0.9
	answersMemory  = 200
	rememberedPart = 0.5
)

func (a *answers) add(found bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen++; found {
		a.found++
	}
	if a.seen >= answersMemory {
		a.seen *= rememberedPart
		a.found *= rememberedPart
	}
	a.kept.Store(a.seen >= enoughAnswers && a.found >= nearlyAll*a.seen)
}

// shared learns how many tokens of a prompt a replica has that has not had the
// conversation: the system prompt and the tools that all of them begin with.
type shared struct{ mean atomic.Uint64 } // bits of a float64

// sharedWeight is what the last conversation counts in the mean.
const sharedWeight = 1.0 / 16

func (s *shared) add(cached int64) {
	for {
		old := s.mean.Load()
		mean := math.Float64frombits(old)
		mean += sharedWeight * (float64(max(0, cached)) - mean)
		if s.mean.CompareAndSwap(old, math.Float64bits(mean)) {
			return
		}
	}
}

func (s *shared) tokens() int64 { return int64(math.Float64frombits(s.mean.Load())) }
