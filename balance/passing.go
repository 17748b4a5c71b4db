package balance

import "time"

// Pass counts a turn that the caller sends to a room without having it admitted:
// its client chose the replica, or its home had too much to do. It takes up room
// there as others do until [Admission.Finish], and never waits, whatever is there.
// Its conversation has or gets no place by it, unless that is its place.
func (a *Admission) Pass(t *Turn, r *Room, now time.Time) {
	t.arrived = now
	c := a.conversations[t.Session]
	if t.Session == 0 || c == nil || c.room != r {
		t.own = conversation{}
		c = &t.own
		if t.Home == nil {
			t.Home = r // it need not be new: what it finds cached may be its own
		}
	}
	a.takeIn(t, c, now)
	a.occupy(t, r, now)
}
