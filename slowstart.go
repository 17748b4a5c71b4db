package warmroute

import (
	"slices"
	"time"
)

// DefaultSlowStart is the default of [WithSlowStart].
const DefaultSlowStart = 30 * time.Second

// leastShare is what a replica that has returned gets at once of an equal share.
const leastShare = 0.1

// WithSlowStart sets for how long a replica that has returned is given less than
// its share of new placements: at first a tenth of an equal share at the most, and
// more by and by. It has returned when its breaker has closed, when it can be
// reached again, when its engine has restarted, and when its endpoint has been
// added to a router in use. Otherwise, since it has the least load, all that is
// placed would go there while it is cold. It gets more where every other replica
// is over the spill threshold, or none can be used. Requests of conversations
// that are at home there go there. 0 switches it off. Default [DefaultSlowStart].
//
// Conversations that moved meanwhile stay where they moved to, with it or without.
func WithSlowStart(d time.Duration) Option {
	return option(func(c *config) {
		if d < 0 {
			c.refuse(&ConfigError{Field: "slow-start", Value: d.String(), Allowed: "0 or more"})
			return
		}
		c.slowStart = d
	})
}

// ramp is the part of an equal share of placements that the member is to get, 1
// if it is not in its slow start.
func (m *member) ramp(now time.Time) float64 {
	d := m.pool.router.cfg.slowStart
	since := m.Returned()
	if d == 0 || since.IsZero() {
		return 1
	}
	elapsed := now.Sub(since)
	if elapsed >= d || elapsed < 0 {
		return 1
	}
	return max(leastShare, float64(elapsed)/float64(d))
}

// slow is what a member in its slow start has been offered of placements. The
// pool's lock guards it.
type slow struct {
	credit float64 // placements that it may still be given
}

// offers counts one placement among n members, and reports whether the member is
// to be one of them.
func (s *slow) offers(ramp float64, n int) bool {
	if ramp >= 1 {
		s.credit = 0
		return true
	}
	s.credit = min(1, s.credit+ramp/float64(n))
	return s.credit >= 1
}

// took counts a placement that the member was given, and returns what it cost.
func (s *slow) took() (cost float64) {
	cost = min(1, s.credit)
	s.credit -= cost
	return cost
}

// tookNot takes a placement back that cost so much.
func (s *slow) tookNot(cost float64) { s.credit = min(1, s.credit+cost) }

// holdBack takes members in their slow start off the candidates, unless nobody
// else has time for the request. The pool's lock is held.
func (p *pool) holdBack(w *pick, now time.Time) {
	n := len(p.picked)
	if n < 2 || p.router.cfg.slowStart == 0 || w.outcome == Pinned {
		return
	}
	starting := false
	for _, m := range p.picked {
		if m.ramp(now) < 1 {
			starting = true
		} else {
			m.slow.credit = 0
		}
	}
	if !starting { // nearly always
		return
	}
	kept, idle := 0, false
	threshold := p.spill.Load().Value
	for i, m := range p.picked {
		if ramp := m.ramp(now); m == w.atHome || m.slow.offers(ramp, n) {
			idle = idle || p.candidates[i].Load() <= threshold
			p.picked[kept], p.picked[i] = m, p.picked[kept]
			p.candidates[kept], p.candidates[i] = p.candidates[i], p.candidates[kept]
			kept++
		}
	}
	if idle {
		p.candidates, p.picked = p.candidates[:kept], p.picked[:kept]
	}
}

// avoidSlow has a turn avoid the rooms of members in their slow start, as long as
// another takes it. The pool's lock is held.
func (p *pool) avoidSlow(a *waiter, now time.Time) {
	if p.router.cfg.slowStart == 0 {
		return
	}
	before, n := len(a.Avoid), 0
	members := *p.members.Load()
	for _, m := range members {
		if takes(m, a) {
			n++
		}
	}
	for _, m := range members {
		if takes(m, a) && !m.slow.offers(m.ramp(now), n) {
			a.Avoid = append(a.Avoid, m.room)
		}
	}
	if !p.admission.Takes(a.Avoid) {
		a.Avoid = a.Avoid[:before]
	}
}

// takes reports whether a member's room takes the turn.
func takes(m *member, a *waiter) bool {
	return m.room.Open && !m.room.Draining && !slices.Contains(a.Avoid, m.room)
}
