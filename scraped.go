package warmroute

import (
	"strconv"
	"time"

	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// scraped is what a member's engine last said of itself.
type scraped struct {
	metrics.Snapshot
	at     time.Time
	beyond int // requests on the engine beyond ours, on this page
	others int // the part of beyond that the page before showed as well
}

// engineOf finds the engine of the i-th of n replicas of an endpoint. Engines
// are sorted by label, and the rank header is an index into the front end's own
// engines, so with as many engines as replicas they go by order: with hybrid
// load balancing the labels are global ranks. Otherwise they go by label.
func engineOf(engines []metrics.Snapshot, i, n, rank int) (metrics.Snapshot, bool) {
	if len(engines) == n {
		return engines[i], true
	}
	if n == 1 && rank == replica.NoRank {
		return together(engines), true
	}
	if rank != replica.NoRank {
		label := strconv.Itoa(rank)
		for _, s := range engines {
			if s.Engine == label {
				return s, true
			}
		}
	}
	return metrics.Snapshot{}, false
}

// together is several engines that cannot be addressed one by one, seen as one.
func together(engines []metrics.Snapshot) metrics.Snapshot {
	all := engines[0]
	all.Engine = ""
	for _, s := range engines[1:] {
		for _, n := range [...]struct {
			sum *metrics.Number
			one metrics.Number
		}{
			{&all.Running, s.Running}, {&all.Waiting, s.Waiting}, {&all.WaitingForCapacity, s.WaitingForCapacity},
			{&all.KVUsage, s.KVUsage}, {&all.KVTokens, s.KVTokens}, {&all.PrefixQueries, s.PrefixQueries}, {&all.PrefixHits, s.PrefixHits},
			{&all.PromptTokens, s.PromptTokens}, {&all.GenerationTokens, s.GenerationTokens}, {&all.Steps, s.Steps},
		} {
			n.sum.Value += n.one.Value
			if n.sum.OK = n.sum.OK && n.one.OK; !n.sum.OK {
				n.sum.Value = 0
			}
		}
		all.Sleeping = all.Sleeping && s.Sleeping
	}
	all.KVUsage.Value /= float64(len(engines)) // a share, not a count
	return all
}

// observe takes over a snapshot, and reports whether it was new.
func (m *member) observe(s metrics.Snapshot, at time.Time) bool {
	last := m.scraped.Load()
	if last != nil && last.at.Equal(at) {
		return false // two callers shared one request for the page
	}
	s.Running, s.Waiting, s.WaitingForCapacity = sane(s.Running), sane(s.Waiting), sane(s.WaitingForCapacity)
	next := &scraped{Snapshot: s, at: at}
	if s.Running.OK && s.Waiting.OK {
		next.beyond = max(0, int(s.Running.Value+s.Waiting.Value)-m.InFlight())
		// A request of ours that ended while the page was on its way is nobody
		// else's: what is beyond ours counts when two pages in a row show it.
		if last != nil {
			next.others = min(next.beyond, last.beyond)
		}
	}
	m.scraped.Store(next)
	m.pool.refresh(m, next)
	m.learned.running(int(s.Running.Value))
	return true
}

// mostRequests is more than any engine runs or queues: a page that says more
// is broken, and must not set a spill threshold.
const mostRequests = 1 << 20

func sane(n metrics.Number) metrics.Number {
	if n.Value > mostRequests {
		return metrics.Number{}
	}
	return n
}

// describe makes c the member as pickers see it.
func (m *member) describe(c *balance.Candidate, now time.Time, staleAfter time.Duration) {
	*c = balance.Candidate{
		Replica:        m.Replica,
		InFlight:       m.InFlight(),
		Sessions:       m.home.Active(now),
		PrefillRate:    m.learned.rate(),
		PendingPrefill: int(max(0, m.prefill.Load())),
		Running:        balance.Unknown,
		Waiting:        balance.Unknown,
		KVUsage:        balance.Unknown,
	}
	s := m.scraped.Load()
	if s == nil {
		return
	}
	if use := m.lora.Load(); use != nil {
		c.Adapters, c.MaxAdapters = use.names, use.most
	}
	c.KVTokens = int(s.KVTokens.Value)
	c.Age = max(0, now.Sub(s.at))
	if c.Stale = c.Age > staleAfter; c.Stale {
		return
	}
	c.Others = s.others
	if s.Running.OK {
		c.Running = int(s.Running.Value)
	}
	if s.Waiting.OK {
		c.Waiting = int(s.Waiting.Value)
	}
	if s.KVUsage.OK {
		c.KVUsage = s.KVUsage.Value
	}
}

// candidate is what describe makes.
func (m *member) candidate(now time.Time, staleAfter time.Duration) (c balance.Candidate) {
	m.describe(&c, now, staleAfter)
	return c
}

// learn keeps the most requests seen running while others waited for capacity:
// a lower bound of what the engine runs at once.
func (p *pool) learn(s metrics.Snapshot) {
	s.Running, s.Waiting, s.WaitingForCapacity = sane(s.Running), sane(s.Waiting), sane(s.WaitingForCapacity)
	waiting := s.WaitingForCapacity
	if !waiting.OK {
		waiting = s.Waiting // vLLM before 0.20
	}
	if !waiting.OK || waiting.Value < 1 || !s.Running.OK {
		return
	}
	if n := int(s.Running.Value); n > p.spill.Load().learned {
		p.setSpill(func(st *spillState) { st.learned = max(st.learned, n) })
	}
}
