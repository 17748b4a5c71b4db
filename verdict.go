package warmroute

// Verdict is what the engine's own counts say of a conversation's turn at its
// home, compared with what the turn before must have left in the cache there.
type Verdict string

// The verdicts. First turns, and turns elsewhere than at home, have none.
const (
	// Verified: the prompt of the turn before was in the cache.
	Verified Verdict = "verified"
	// Lost: it was not there any more: evicted, or the engine restarted, slept
	// or reset its cache.
	Lost Verdict = "lost"
	// Ignored: another rank served the turn, by the engine's own counters: the
	// endpoint does not honour the rank header (vLLM before 0.14.0, and
	// /v1/responses before 0.33.0).
	Ignored Verdict = "ignored"
	// Rewritten: the client changed what it had sent before: it compacted its
	// context, or something near the beginning of the prompt changes each turn.
	Rewritten Verdict = "rewritten"
	// Unmeasured: the response had no cached count.
	Unmeasured Verdict = "unmeasured"
)

// turnEvidence is what is known of one turn at home.
type turnEvidence struct {
	expected int64 // prompt tokens of the turn before
	prompt   int64
	cached   int64
	measured bool
	// cold says that the engine restarted or slept since the turn before.
	cold bool
	// written is how many tokens the engine has put into its cache since, and
	// capacity how many that holds; below 0 if not known.
	written, capacity int64
}

// blockSlack is the most that rounding down to blocks may take from a prefix:
// vLLM's blocks are 16 to 64 tokens, and its last prompt token is always
// computed.
const blockSlack = 64 + 1

// verdict judges a turn; it is empty for one that is too short to say. That a rank header was ignored cannot be seen from one
// turn alone; see claims.
func (e turnEvidence) verdict() Verdict {
	if !e.measured {
		return Unmeasured
	}
	least := min(e.expected, e.prompt)
	if least < 2*blockSlack {
		return "" // so little may be rounded away
	}
	slack := max(blockSlack, least/20)
	switch {
	case e.cached+slack >= least:
		return Verified
	case e.prompt+slack < e.expected:
		return Rewritten // shorter than what went before
	case e.cold:
		return Lost
	case e.written >= 0 && e.capacity > 0 && e.written+e.prompt < e.capacity/2:
		// Too little has been written since for an LRU cache to have lost it.
		return Rewritten
	}
	return Lost
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
