// Package discovery finds the endpoints of a router: in DNS ([DNS], [SRV]), in a
// file that somebody else writes ([File]), or as they are given ([Static]), and
// several of these at once ([Join]). Others, such as Kubernetes EndpointSlices in
// the module integrations/kubernetes, implement [Discoverer].
//
// A source that cannot be asked says so and never takes an endpoint away: the last
// list that it gave stays in force. An endpoint that has gone is noticed by its
// connections long before.
package discovery

import (
	"context"
	"time"

	"github.com/warmroute/warmroute/replica"
)

// Report is told what a Discoverer finds: the whole list, which may be empty, if
// err is nil. If it is not, it says why the list may be out of date: the last one
// stays in force, unless there are targets, or an empty list that is not nil, to be
// taken in its place all the same. The slice belongs to whoever is told.
type Report func(targets []replica.Target, err error)

// Discoverer finds endpoints and keeps on finding them. It is safe for concurrent
// use.
type Discoverer interface {
	// Watch calls report as soon as it knows the endpoints, each time that they
	// change, and each time that they could not be found out; never twice at a time.
	// It tries again after a failure. It returns nil when ctx ends, not before, with
	// nothing that it started going on; any other error is one that no trying again
	// mends.
	Watch(ctx context.Context, report Report) error
}

// Static returns a Discoverer that always finds the same.
func Static(targets ...replica.Target) Discoverer { return static(targets) }

type static []replica.Target

func (s static) Watch(ctx context.Context, report Report) error {
	report(append([]replica.Target(nil), s...), nil)
	<-ctx.Done()
	return nil
}

// sleep waits, and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
