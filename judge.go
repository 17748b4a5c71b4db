package warmroute

import (
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/affinity"
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

// memoTokens is the unit of a session's memo, in which the tokens of its last
// prompt are kept, rounded down: 33 million are the most.
const memoTokens = 16

// judge compares a finished turn with the one before, remembers it for the one
// after, and claims it of the replica's engine. It must be called while the
// request still holds its session.
func (l Lease) judge(res Result) Verdict {
	u := res.Usage
	v := l.verdict(res)
	if u.Known && res.Err == nil {
		if l.session != nil && l.session.Home() == l.member.home {
			l.session.SetMemo(uint32(min(max(0, u.Prompt/memoTokens), affinity.MaxMemo)))
		}
		if l.counted >= 0 && u.Prompt > 0 &&
			l.member.claims.add(claim{before: l.counted, ended: time.Now(), prompt: u.Prompt, verdict: v, api: res.API}) {
			return v // counted when the claim is settled
		}
	}
	l.member.settle(v)
	return v
}

func (l Lease) verdict(res Result) Verdict {
	u := res.Usage
	if l.expected == 0 || res.Err != nil || res.NoTokens && !u.Known || l.session.Home() != l.member.home {
		return ""
	}
	m := l.member
	last := l.pool.table.LastUse(l.session)
	e := turnEvidence{
		expected: int64(l.expected), prompt: u.Prompt, cached: u.Cached, measured: u.Measured,
		cold:    m.evidence.coldSince.Load() > last.UnixNano(),
		written: m.evidence.written.since(last),
	}
	if s := m.scraped.Load(); s != nil {
		e.capacity = int64(s.KVTokens.Value)
	}
	v := e.verdict()
	if v == Verified || v == Lost {
		l.pool.survival.add(l.routed.Sub(last), v == Verified)
	}
	return v
}

// settle counts a verdict for good.
func (m *member) settle(v Verdict) {
	if v == "" {
		return
	}
	m.counts.turns.add(v)
	m.pool.turns.add(v)
	m.pool.recent.add(v)
}
