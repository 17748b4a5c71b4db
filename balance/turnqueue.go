package balance

import (
	"container/heap"
	"slices"
	"time"
)

// turnQueue is the turns that wait: by priority, then tenants in turn, then the
// oldest first.
type turnQueue struct {
	turns   turnHeap
	virtual float64            // the tag of the last turn that left
	tenants map[uint64]float64 // the tag of each tenant's last turn that came; some are behind virtual

}

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
		q.tenants = map[uint64]float64{}
	}
	if t.Since.IsZero() {
		t.tag = max(q.virtual, q.tenants[t.Tenant]) + 1
		q.tenants[t.Tenant] = t.tag
	} else {
		t.tag = q.virtual // it had its turn
	}
	t.queued = true
	heap.Push(&q.turns, t)
	if len(q.tenants) > 2*len(q.turns)+1000 {
		for tenant, tag := range q.tenants {
			if tag <= q.virtual {
				delete(q.tenants, tenant)
			}
		}
	}
}

// cancel removes a turn as if it had not come: its tenant's later ones move up.
func (q *turnQueue) cancel(t *Turn) {
	virtual := q.virtual
	q.remove(t)
	if len(q.turns) == 0 || !t.Since.IsZero() {
		return
	}
	q.virtual = virtual
	moved := false
	for _, later := range q.turns {
		if later.Tenant == t.Tenant && later.Since.IsZero() && later.tag > t.tag {
			later.tag--
			moved = true
		}
	}
	if last := q.tenants[t.Tenant]; last >= t.tag {
		q.tenants[t.Tenant] = last - 1
	}
	if moved {
		heap.Init(&q.turns)
	}
}

func (q *turnQueue) remove(t *Turn) {
	if t == q.first() {
		q.virtual = max(q.virtual, t.tag)
	}
	heap.Remove(&q.turns, t.index)
	t.queued = false
	if len(q.turns) == 0 {
		q.virtual = 0
		clear(q.tenants)
	}
}

// takeOut takes a turn out for a while, and putBack puts it back where it was.
func (q *turnQueue) takeOut(t *Turn) { heap.Remove(&q.turns, t.index) }
func (q *turnQueue) putBack(t *Turn) { heap.Push(&q.turns, t) }

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

type turnHeap []*Turn

func (h turnHeap) Len() int { return len(h) }

func (h turnHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	switch {
	case a.Priority != b.Priority:
		return a.Priority < b.Priority
	case a.tag != b.tag:
		return a.tag < b.tag
	}
	return a.arrived.Before(b.arrived)
}

func (h turnHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *turnHeap) Push(x any) {
	t := x.(*Turn)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *turnHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return t
}
