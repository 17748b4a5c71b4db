package warmroute

import (
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/replica"
)

// turnCounts counts turns at home by verdict.
type turnCounts struct{ verified, lost, ignored, rewritten, unmeasured atomic.Uint64 }

func (c *turnCounts) add(v Verdict) {
	switch v {
	case Verified:
		c.verified.Add(1)
	case Lost:
		c.lost.Add(1)
	case Ignored:
		c.ignored.Add(1)
	case Rewritten:
		c.rewritten.Add(1)
	case Unmeasured:
		c.unmeasured.Add(1)
	}
}

func (c *turnCounts) stats() VerdictStats {
	return VerdictStats{
		Verified: c.verified.Load(), Lost: c.lost.Load(), Ignored: c.ignored.Load(),
		Rewritten: c.rewritten.Load(), Unmeasured: c.unmeasured.Load(),
	}
}

// judge compares a finished turn with the one before, remembers it for the one
// after, and claims it of the replica's engine. It must be called while the
// request still holds its session.
func (l Lease) judge(res Result) Verdict {
	m, u := l.member, res.Usage
	honoured := m.honours(res.API)
	if l.outcome == Placed && l.left.prompt == 0 && u.Measured && u.Prompt >= shortestJudged && res.Err == nil {
		l.pool.shared.add(u.Cached)
	}
	t := l.judged(res, honoured)
	if u.Known && res.Err == nil {
		if l.session != nil && l.session.Home() == m.home {
			l.session.SetMemo(leftBy(u).memo())
		}
		if honoured && u.Prompt > 0 && l.waits(t.verdict) &&
			m.claims.add(claim{before: l.counted, ended: time.Now(), prompt: u.Prompt, turn: t, api: res.API}) {
			return t.verdict // counted when the claim is settled
		}
	}
	if m.settle(t) {
		l.pool.sayRewritten()
	}
	return t.verdict
}

// waits reports whether the next page has something to say of a turn: with ranks
// it always does, without only to one that has not found its prefix.
func (l Lease) waits(v Verdict) bool {
	if l.member.Rank() != replica.NoRank {
		return l.counted >= 0
	}
	return (v == Lost || v == Rewritten) && l.member.fresh(time.Now())
}

// judged is a turn with its verdict so far. honoured says that its rank was the
// router's to choose.
func (l Lease) judged(res Result, honoured bool) judgedTurn {
	u := res.Usage
	if l.left.prompt == 0 || res.Err != nil || res.NoTokens && !u.Known || l.session.Home() != l.member.home {
		return judgedTurn{}
	}
	m := l.member
	last := l.pool.table.LastUse(l.session)
	if !honoured && m.Rank() != replica.NoRank {
		return judgedTurn{verdict: Ignored} // whatever it found, and wherever
	}
	e := turnEvidence{
		left: l.left, answers: l.pool.answers.kept.Load(), block: m.block(),
		prompt: u.Prompt, cached: u.Cached, measured: u.Measured, unranked: !honoured,
		cold:    m.evidence.coldSince.Load() > last.UnixNano(),
		written: m.evidence.written.since(last),
	}
	if s := m.scraped.Load(); s != nil {
		e.capacity = int64(s.KVTokens.Value)
	}
	t := judgedTurn{verdict: e.verdict(), gap: l.routed.Sub(last), kept: 1}
	switch t.verdict {
	case Verified:
		switch seen := e.answer(); {
		case seen == answerFound:
			l.pool.answers.add(true)
		case seen == answerLeftOut, seen == answerGone && !e.mayBeEvicted():
			l.pool.answers.add(false)
		}
	case Lost:
		part, ok := e.kept(l.pool.shared.tokens())
		if t.kept = part; !ok || e.cold {
			t.gap = noGap // it says nothing of pauses
		}
	}
	return t
}

// block is how many tokens the member's engine caches at a time, vLLM's usual
// number if no page has told, and never less, which would ask for more precision
// than there is.
func (m *member) block() int64 {
	if s := m.scraped.Load(); s != nil && s.BlockTokens.OK {
		return max(defaultBlock, int64(min(s.BlockTokens.Value, maxBlock)))
	}
	return defaultBlock
}

// maxBlock is more than any engine caches at a time: models with state layers
// have blocks of some thousand tokens.
const maxBlock = 1 << 16

// settle counts a turn's verdict for good, learns from it, and reports whether it
// is to be said now that most turns are rewritten.
func (m *member) settle(t judgedTurn) (say bool) {
	if t.verdict == "" {
		return false
	}
	m.counts.turns.add(t.verdict)
	m.pool.turns.add(t.verdict)
	if (t.verdict == Verified || t.verdict == Lost) && t.gap != noGap {
		now := time.Now()
		m.survival.add(t.gap, t.verdict == Verified, t.kept, now)
		m.pool.survival.add(t.gap, t.verdict == Verified, t.kept, now)
	}
	return m.pool.recent.add(t.verdict)
}
