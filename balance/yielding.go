package balance

import (
	"slices"
	"time"
)

// placeYielding picks the replica for a turn that no room is free for: one that
// has no prompt to compute, where idle residents make room that have paused for as
// long as computing their prefixes again takes. Until then to keep a prefix is
// cheaper than to lose it, however long the pause turns out to be; from then on
// what was spent on keeping it is at most doubled.
func (a *Admission) placeYielding(t *Turn, last *Room, now time.Time) *Room {
	shared := a.sizes.shared()
	var least *Room
	a.fit = a.fit[:0]
	for _, r := range a.rooms {
		if !t.mayEnter(r) || r.claimed || r.unanswered > 0 || r.Others >= 1 {
			continue
		}
		if a.limit(r, now)-float64(shared+r.firm)-a.unyielding(r, now) < float64(t.footprint) {
			continue
		}
		if r == last && !t.conv.displaced && !t.Lost {
			return r
		}
		a.fit = append(a.fit, r)
		if least == nil || r.load < least.load || r.load == least.load && r.rests(least) {
			least = r
		}
	}
	switch {
	case least == nil:
		return nil
	case a.cfg.Choose != nil:
		return a.cfg.Choose(t, a.fit, now)
	case slices.Contains(a.fit, last):
		return last // something may be left
	}
	return least
}

// unyielding is what idle residents claim of a room that do not yield it, in
// tokens. An engine evicts the longest idle first, so that none makes room as long
// as one before it does not.
func (a *Admission) unyielding(r *Room, now time.Time) (tokens float64) {
	yield := true
	for c := r.idle.first; c != nil; c = c.next {
		paused := now.Sub(c.idleAt)
		if paused >= a.gaps.hold {
			continue // its room is free
		}
		if yield = yield && paused.Seconds() >= float64(c.footprint)/a.rate; !yield {
			tokens += a.gaps.returns(paused) * float64(c.footprint)
		}
	}
	return tokens
}
