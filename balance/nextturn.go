package balance

import (
	"math"
	"time"
)

// next finds the turn that is to go next, and where. One behind the first may go
// only where none before it could go if there was room, so that nobody is
// overtaken.
func (a *Admission) next(now time.Time) (*Turn, *Room) {
	if now.Sub(a.overdueAt) >= overdueEvery {
		a.overdueAt = now
		a.late = a.queue.overdue(a.late[:0], now.Add(-a.cfg.MaxWait))
	}
	for len(a.late) > 0 {
		t := a.late[0]
		a.late = a.late[1:]
		if !t.queued {
			continue // it is gone
		}
		if r := a.placeAnyway(t, now); r != nil {
			return t, r
		}
	}
	for _, r := range a.rooms {
		r.claimed = false
	}
	tooLarge := math.MaxInt // the footprint that no room is left for, of turns that may go anywhere
	for _, t := range a.queue.turns[:min(a.queue.len(), mostSkipped)] {
		if !a.mayEnterAny(t) {
			continue
		}
		anywhere := t.conv.room == nil && (t.Home == nil || !t.Home.Draining)
		if t.footprint < tooLarge || !anywhere {
			if r := a.place(t, now); r != nil {
				return t, r
			}
			if anywhere && len(t.Avoid) == 0 && len(a.fit) == 0 {
				tooLarge = t.footprint // nor is there for a larger one, or one that may not go everywhere
			}
		}
		if !a.claim(t, now) {
			break
		}
	}
	return nil, nil
}

// mayEnterAny reports whether a turn may go to a room that none before it claims.
func (a *Admission) mayEnterAny(t *Turn) bool {
	for _, r := range a.rooms {
		if !r.claimed && t.mayEnter(r) {
			return true
		}
	}
	return t.conv.room != nil
}

// claim has a turn that waits claim the rooms that it waits for, and reports
// whether any are left. One that takes up more than half of any room claims one,
// when it has waited for some time: the others need not wait for that.
func (a *Admission) claim(t *Turn, now time.Time) (left bool) {
	large := true
	for _, r := range a.rooms {
		if !t.mayEnter(r) {
			continue
		}
		if !a.Bounds(r) || float64(t.footprint) <= a.limit(r, now)/2 {
			r.claimed, large = true, false
		}
	}
	if large && now.Sub(t.arrived) >= a.patience(now) {
		if r := a.leastLoaded(t, now); r != nil {
			r.claimed = true
		}
	}
	for _, r := range a.rooms {
		left = left || r.Open && !r.claimed
	}
	return left
}
