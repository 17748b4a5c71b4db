package warmroute

// Verdict is what the engine's own counts say of a conversation's turn at its
// home, compared with what the turn before must have left in the cache there.
type Verdict string

// The verdicts. First turns, and turns elsewhere than at home, have none.
const (
	// Verified: the prompt of the turn before was in the cache.
	Verified Verdict = "verified"
	// Lost: it was not there any more, or the answer behind it was not where
	// answers are found again: evicted, or the engine restarted, slept or reset its
	// cache.
	Lost Verdict = "lost"
	// Ignored: another rank served the turn, by the engine's own counters, or the
	// engine is known to choose the rank itself: the endpoint does not honour the
	// rank header (vLLM before 0.14.0, and /v1/responses before 0.33.0).
	Ignored Verdict = "ignored"
	// Rewritten: the client changed what it had sent before: it compacted its
	// context, or something near the beginning of the prompt changes each turn.
	Rewritten Verdict = "rewritten"
	// Unmeasured: the response had no cached count.
	Unmeasured Verdict = "unmeasured"
)

// turnEvidence is what is known of one turn at home.
type turnEvidence struct {
	left // by the turn before
	// answers says that the pool's turns find the last answers in the cache too.
	answers bool
	// block is how many tokens the engine caches at a time.
	block    int64
	prompt   int64
	cached   int64
	measured bool
	// cold says that the engine restarted or slept since the turn before.
	cold bool
	// unranked says that the engine chose the rank itself.
	unranked bool
	// written is how many tokens the engine has put into its cache since, and
	// capacity how many that holds; below 0 if not known.
	written, capacity int64
}

const (
	// defaultBlock is how many tokens vLLM caches at a time unless the model or the
	// platform wants more, and what is taken for it while no page has told.
	defaultBlock = 16
	// templateTail is the most tokens at the end of a prompt that the next one
	// need not have: what a chat template puts there for the answer to begin with,
	// such as Qwen3's empty reasoning, and does not repeat before a former answer.
	templateTail = 16
	// shortestJudged is the fewest tokens, of the turn before and of this one, that
	// say anything: agents ask for titles and the like under a conversation's key.
	shortestJudged = 128
)

// found is how many cached tokens a turn must have at least whose first tokens
// are in the cache: whole blocks, of which its last token is never one, since
// vLLM computes it in any case; less one, which vLLM leaves out when it drafts
// with EAGLE or MTP (v1/core/single_type_kv_cache_manager.py).
func (e turnEvidence) found(first int64) int64 {
	whole := min(first, e.prompt-1) / e.block * e.block
	return whole - e.block
}

// verdict judges a turn; it is empty for one that is too short to say. That a
// rank header was ignored cannot be seen from one turn alone; see claims.
func (e turnEvidence) verdict() Verdict {
	if !e.measured {
		return Unmeasured
	}
	least := e.found(int64(e.left.prompt) - templateTail)
	if min(int64(e.left.prompt), e.prompt) < shortestJudged || least <= 0 {
		return ""
	}
	switch {
	case e.cached >= least && !(e.answers && e.answer() == answerGone && e.mayBeEvicted()):
		return Verified
	case e.unranked:
		return Ignored
	case e.prompt+templateTail < int64(e.left.prompt):
		return Rewritten // shorter than what went before
	case e.cold:
		return Lost
	case e.cannotBeEvicted():
		return Rewritten
	}
	return Lost
}

// cannotBeEvicted says that too little has been written since for an LRU cache to
// have lost anything, mayBeEvicted that it was enough. Both are false if that is
// not known.
func (e turnEvidence) cannotBeEvicted() bool {
	return e.writtenKnown() && e.written+e.prompt < e.capacity/2
}

func (e turnEvidence) mayBeEvicted() bool {
	return e.cold || e.writtenKnown() && e.written+e.prompt >= e.capacity/2
}

func (e turnEvidence) writtenKnown() bool { return e.written >= 0 && e.capacity > 0 }

// answerSeen is whether the answer of the turn before was found behind its prompt.
type answerSeen int

const (
	answerUnknown answerSeen = iota
	answerFound
	answerGone
	answerLeftOut // the prompt has no room for it
)

// answer looks for the answer of the turn before in a turn that has found that
// one's prompt.
func (e turnEvidence) answer() answerSeen {
	// The most that the prompt alone can bring, although it was rounded down.
	alone := int64(e.left.prompt) + memoUnit + templateTail
	with := int64(e.left.prompt) + int64(e.left.answer)
	switch {
	case with-2*e.block <= alone || e.prompt <= alone:
		return answerUnknown // too short, or the turn was made once more
	case e.prompt <= with:
		return answerLeftOut
	case e.cached >= e.found(with):
		return answerFound
	}
	return answerGone
}

// kept is the part of what the turn before left that was found, 0 to 1, not
// counting the first tokens, which all conversations share and any replica has.
// It is not ok if there is nothing else.
func (e turnEvidence) kept(shared int64) (part float64, ok bool) {
	own := min(int64(e.left.tokens(e.answers)), e.prompt-1) - shared
	if own < e.block {
		return 0, false
	}
	return min(1, float64(max(0, e.cached-shared))/float64(own)), true
}

// VerdictStats counts turns by verdict.
type VerdictStats struct {
	Verified   uint64 `json:"verified"`
	Lost       uint64 `json:"lost"`
	Ignored    uint64 `json:"ignored"`
	Rewritten  uint64 `json:"rewritten"`
	Unmeasured uint64 `json:"unmeasured"`
}

// VerifiedShare is verified / (verified + lost + ignored + rewritten), nil if
// there were none.
func (s VerdictStats) VerifiedShare() *float64 {
	n := s.Verified + s.Lost + s.Ignored + s.Rewritten
	if n == 0 {
		return nil
	}
	share := float64(s.Verified) / float64(n)
	return &share
}
