package warmroute

import (
	"slices"
	"time"

	"github.com/warmroute/warmroute/replica"
)

// isSound is isUp, were it not that the replica is suspect: that is said of its
// machine, and its engine works.
func isSound(m *member, now time.Time) bool { return isThere(m, now) && !m.wedged(now) && !m.Held(now) }

// isThere is isSound, were it not that the engine seems to be wedged, which is an
// inference, or has asked to be left alone: that is better than nobody.
func isThere(m *member, now time.Time) bool { return isAwake(m, now) && !m.Found(replica.Draining) }

// isAwake is isThere, were it not that the replica is to lose its conversations.
func isAwake(m *member, now time.Time) bool { return !m.Draining() && !m.asleep(now) && !m.foreign() }

// gatherFittest is gather for the fittest members within reach, of those that are to
// have conversations at all.
func (p *pool) gatherFittest(w *pick, now time.Time, reach reach) bool {
	return p.gather(w, now, reach, isUp) || p.gather(w, now, reach, isSound) || p.gather(w, now, reach, isThere)
}

// has reports whether the pool has a replica that takes requests and is as fit as
// that, to spare less fit ones new conversations.
func (p *pool) has(fits func(*member, time.Time) bool, now time.Time) bool {
	return slices.ContainsFunc(*p.members.Load(), func(m *member) bool {
		return m.available(now) && fits(m, now) && !m.Removed()
	})
}
