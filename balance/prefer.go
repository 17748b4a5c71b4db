package balance

import (
	"cmp"
	"slices"
	"time"
)

// prefer has the rooms that are about as free as the best one be asked for one
// that is preferred.
func (a *Admission) prefer(t *Turn, best *Room, now time.Time) *Room {
	near := append(a.near[:0], best)
	for _, r := range a.fit {
		if r != best && r.load <= best.load+max(fewRequests, sharedMargin*best.load) {
			near = append(near, r)
		}
	}
	a.near = near
	if len(near) == 1 {
		return best
	}
	slices.SortStableFunc(near[1:], func(x, y *Room) int { return cmp.Or(cmp.Compare(x.load, y.load), cmp.Compare(x.lastSent, y.lastSent)) })
	if r := a.cfg.Prefer(t, near, now); r != nil {
		return r
	}
	return best
}
