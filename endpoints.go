package warmroute

import (
	"time"

	"github.com/warmroute/warmroute/replica"
)

// Target is an endpoint as it is wanted: see [Router.SetEndpoints].
type Target = replica.Target

// SetEndpoints makes the endpoints those of the targets, while the router is in
// use, as a control plane or [Router.Discover] says. An endpoint that is there as
// its target has it stays with its conversations and counts. One that is not among
// the targets is removed as by [Router.Remove]: its requests in flight go on to
// their end. One of which anything but Draining is another is removed and added
// anew. What is added starts slowly ([WithSlowStart]) unless there were no
// endpoints before. No targets at all leave a router that answers with
// [ErrNoReplica].
//
// Nothing is changed after an error, which is a [*ConfigError] for an endpoint that
// is refused, or wraps [ErrDuplicate] for two that are the same.
func (r *Router) SetEndpoints(targets []Target) error {
	for _, t := range targets {
		if _, err := dialect(t.Endpoint); err != nil {
			return err
		}
	}
	before, change, err := r.replace(targets)
	if err != nil {
		return err
	}
	after := r.set.Replicas()
	for _, told := range []struct {
		endpoints []Endpoint
		reason    string
		among     []*Replica
	}{
		{change.Removed, "removed", before}, {change.Added, "added", after},
		{change.Drained, "drained", after}, {change.Resumed, "resumed", after},
	} {
		for _, e := range told.endpoints {
			r.tell(e.URL, told.reason, told.among)
		}
	}
	return nil
}

func (r *Router) replace(targets []Target) (before []*Replica, change replica.Change, err error) {
	r.setting.Lock()
	defer r.setting.Unlock()
	before = r.set.Replicas()
	change, err = r.set.Replace(targets)
	if err != nil || change.Empty() {
		return before, change, err
	}
	if len(before) > 0 {
		now := time.Now()
		for _, e := range change.Added {
			for _, m := range r.set.Replicas() {
				if m.Is(e.URL) {
					m.MarkEndpointReturned(now)
				}
			}
		}
	}
	err = r.changedSet()
	change.Finish() // the pools have what was added
	if len(change.Drained)+len(change.Resumed) > 0 {
		r.roomsChanged()
	}
	return before, change, err
}
