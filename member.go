package warmroute

import (
	"time"

	"github.com/warmroute/warmroute/replica"
)

// state is the replica's, and what its engine says or lets be inferred.
func (m *member) state(now time.Time) replica.State {
	s := m.State(now)
	switch {
	case s != replica.Up && s != replica.Held && s != replica.Suspect:
	case m.asleep(now):
		s = replica.Asleep
	case m.foreign():
		s = replica.Foreign
	case m.wedged(now):
		s = replica.Wedged
	}
	return s
}

// asleep and wedged are what the last page showed, unless it is stale.
func (m *member) asleep(now time.Time) bool { return m.evidence.asleep.Load() && m.fresh(now) }
func (m *member) wedged(now time.Time) bool { return m.evidence.wedged.Load() && m.fresh(now) }

func (m *member) fresh(now time.Time) bool {
	s := m.scraped.Load()
	return s != nil && now.Sub(s.at) <= m.pool.router.staleAfter()
}

// countedPrompts is how many prompt tokens the engine had counted by its last
// page, below 0 if that is not known or nobody else's rank could be meant.
func (m *member) countedPrompts() float64 {
	if m.Rank() == replica.NoRank {
		return -1
	}
	s := m.scraped.Load()
	if s == nil || !s.PromptTokens.OK {
		return -1
	}
	return s.PromptTokens.Value
}

// unreachable notes that no connection could be made, and reports whether that
// is news.
func (m *member) unreachable() bool {
	now := time.Now()
	was := m.Reachable(now)
	m.Unreachable(now)
	m.pool.roomsChanged()
	return was
}

// tell tells the hooks of a change of the member's state.
func (m *member) tell(reason string) {
	now := time.Now()
	m.pool.router.cfg.hooks.onState(m.Replica, m.state(now), reason, now)
}

// reached notes that the endpoint answered.
func (m *member) reached() {
	if m.Reached() {
		m.MarkEndpointReturned(time.Now())
		m.pool.router.scraper.Hurry(m.URL()) // it may be another engine
		m.pool.roomsChanged()
		m.pool.router.cfg.logger.Info("replica reached again", "replica", m.Name())
		m.tell("reached")
	}
}
