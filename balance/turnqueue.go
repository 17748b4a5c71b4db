package balance

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// turnQueue is the turns that wait: by priority, then tenants in turn, then the
// oldest first. They are sorted, and no heap, since those that cannot go are
// passed over in that order time and again.
type turnQueue struct {
	turns   []*Turn
	spare   []*Turn              // scratch
	virtual map[int]float64      // for each priority the tag of the last turn that left in its order
	tenants map[tenantAt]float64 // the tag of each tenant's last turn that came; some are behind virtual
	counts  tenantCounts
}

// tenantAt is a tenant at a priority: at each of them tenants have their turns.
type tenantAt struct {
	priority int
	tenant   uint64
}

func (t *Turn) tenantAt() tenantAt { return tenantAt{t.Priority, t.Tenant} }

func (q *turnQueue) len() int { return len(q.turns) }

func (q *turnQueue) first() *Turn {
	if len(q.turns) == 0 {
		return nil
	}
	return q.turns[0]
}

// push gives the turn the tag after its tenant's last one, but not one before
// what is being served: with one tenant that is the order of arrival, with
// several each has a turn of its own in every round.
func (q *turnQueue) push(t *Turn) {
	if q.tenants == nil {
		q.virtual, q.tenants = map[int]float64{}, map[tenantAt]float64{}
	}
	if t.Since.IsZero() {
		t.tag = max(q.virtual[t.Priority], q.tenants[t.tenantAt()]) + 1
		q.tenants[t.tenantAt()] = t.tag
	} else {
		t.tag = q.virtual[t.Priority] // it had its turn
	}
	t.queued = true
	q.counts.add(t.Tenant)
	at, _ := slices.BinarySearchFunc(q.turns, t, func(other, t *Turn) int {
		return cmp.Or(goesBefore(other, t), -1) // behind its equals
	})
	q.turns = slices.Insert(q.turns, at, t)
	if max(len(q.tenants), len(q.virtual)) > 2*len(q.turns)+1000 {
		q.forget()
	}
}

// forget lets go of what says nothing any more: of tenants that are behind, and of
// priorities that nobody waits at.
func (q *turnQueue) forget() {
	awaited := map[int]bool{}
	for _, t := range q.turns {
		awaited[t.Priority] = true
	}
	maps.DeleteFunc(q.tenants, func(at tenantAt, tag float64) bool {
		return !awaited[at.priority] || tag <= q.virtual[at.priority]
	})
	maps.DeleteFunc(q.virtual, func(priority int, _ float64) bool { return !awaited[priority] })
}

// cancel removes a turn as if it had not come: its tenant's later ones move up.
func (q *turnQueue) cancel(t *Turn) {
	virtual := q.virtual[t.Priority]
	q.remove(t)
	if len(q.turns) == 0 || !t.Since.IsZero() {
		return
	}
	q.virtual[t.Priority] = virtual
	q.moveUp(t)
	if last := q.tenants[t.tenantAt()]; last >= t.tag {
		q.tenants[t.tenantAt()] = last - 1
	}
}

// moveUp has each later turn of a tenant at a priority take the place of the one
// before it, the first that of one that is gone.
func (q *turnQueue) moveUp(gone *Turn) {
	theirs := q.spare[:0]
	n := 0 // of all others
	for _, t := range q.turns {
		if t.tenantAt() != gone.tenantAt() || !t.Since.IsZero() {
			q.turns[n] = t
			n++
			continue
		}
		if t.tag > gone.tag {
			t.tag--
		}
		theirs = append(theirs, t)
	}
	// Both are in order: from the end on, the later one goes last.
	i := len(theirs) - 1
	for at := len(q.turns) - 1; i >= 0; at-- {
		if n > 0 && goesBefore(theirs[i], q.turns[n-1]) < 0 {
			n--
			q.turns[at] = q.turns[n]
		} else {
			q.turns[at] = theirs[i]
			i--
		}
	}
	clear(theirs)
	q.spare = theirs[:0]
}

func (q *turnQueue) remove(t *Turn) {
	at, _ := slices.BinarySearchFunc(q.turns, t, goesBefore)
	if at == len(q.turns) || q.turns[at] != t {
		at = slices.Index(q.turns, t) // behind its equals
	}
	if at == 0 || q.turns[at-1].Priority != t.Priority { // nobody was passed over for it
		q.virtual[t.Priority] = max(q.virtual[t.Priority], t.tag)
	}
	q.turns = slices.Delete(q.turns, at, at+1)
	t.queued = false
	q.counts.remove(t.Tenant)
	if len(q.turns) == 0 {
		clear(q.virtual)
		clear(q.tenants)
	}
}

// makesWay is the turn that is pushed out for one whose tenant has so many turns
// with it: the last, of the tenant with the most, that is no more urgent and was
// not sent before. Nil if no tenant that has more has one.
func (q *turnQueue) makesWay(t *Turn, with int) *Turn {
	if q.counts.most <= with {
		return nil
	}
	var last *Turn
	for i := len(q.turns) - 1; i >= 0 && q.turns[i].Priority >= t.Priority && with < q.counts.most; i-- {
		x := q.turns[i]
		if n := q.counts.of[x.Tenant]; n > with && x.Since.IsZero() {
			last, with = x, n
		}
	}
	return last
}

// overdue appends the turns that did not arrive after a time, the oldest first.
func (q *turnQueue) overdue(late []*Turn, at time.Time) []*Turn {
	for _, t := range q.turns {
		if !t.arrived.After(at) {
			late = append(late, t)
		}
	}
	slices.SortStableFunc(late, func(a, b *Turn) int { return a.arrived.Compare(b.arrived) })
	return late
}

// longest is how long the oldest turn has waited.
func (q *turnQueue) longest(now time.Time) time.Duration {
	var most time.Duration
	for _, t := range q.turns {
		most = max(most, now.Sub(t.arrived))
	}
	return most
}

// goesBefore orders the queue.
func goesBefore(a, b *Turn) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.tag, b.tag), a.arrived.Compare(b.arrived))
}
