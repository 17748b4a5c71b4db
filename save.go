package warmroute

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/warmroute/warmroute/affinity"
)

// Save writes which conversations are bound to which replicas, so that a
// program that starts anew can [Router.Restore] them. Requests go on meanwhile;
// no lock is held while out is written to. What is written holds the session
// keys as they are: keep it as safe as the logs of what is asked with them.
func (r *Router) Save(out io.Writer) error {
	now := time.Now()
	s := affinity.Snapshot{Time: now}
	for _, p := range r.pools.Load().order {
		for _, m := range *p.members.Load() {
			s.Homes = append(s.Homes, affinity.HomeSnapshot{
				Table: p.model, Home: m.Name(), Bindings: slices.Collect(m.home.Bindings(now)),
			})
		}
	}
	return s.Write(out)
}

// Restore binds conversations as [Router.Save] found them and returns how many.
// The time in between counts as idle. Those whose replica or model is not there
// any more, whose TTL is over, or that have come back on their own, are left
// out, as are those that do not fit the table. Replicas are known by their
// names: [Router.Scrape] first, where ranks are to be discovered.
//
// It reads in to its end before it changes anything, and returns an error that
// wraps [affinity.ErrSnapshot] for what Save did not write or what was damaged
// since.
func (r *Router) Restore(in io.Reader) (restored int, err error) {
	s, err := affinity.ReadSnapshot(in)
	if err != nil {
		return 0, fmt.Errorf("warmroute: %w", err)
	}
	now := time.Now()
	away := max(0, now.Sub(s.Time))
	for _, h := range s.Homes {
		m := r.member(h.Table, h.Home)
		if m == nil {
			continue
		}
		for _, b := range h.Bindings {
			// Not the sum: a damaged clock must not make it overflow.
			if b.Idle < r.cfg.ttl && away < r.cfg.ttl-b.Idle {
				b.Idle += away
				if m.home.Restore(b, now) {
					restored++
				}
			}
		}
	}
	return restored, nil
}

// member finds a replica by the names that Save wrote.
func (r *Router) member(model, name string) *member {
	p := r.pools.Load().byModel[model]
	if p == nil {
		return nil
	}
	for _, m := range *p.members.Load() {
		if m.Name() == name {
			return m
		}
	}
	return nil
}
