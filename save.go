package warmroute

import (
	"fmt"
	"io"
	"log/slog"
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
	r.mu.Lock()
	for _, a := range r.absent {
		// Never met again so far: they go on being idle.
		h := affinity.HomeSnapshot{Table: a.Table, Home: a.Home}
		for _, b := range a.Bindings {
			if b.Idle += max(0, now.Sub(a.read)); b.Idle < r.cfg.ttl {
				h.Bindings = append(h.Bindings, b)
			}
		}
		s.Homes = append(s.Homes, h)
	}
	r.mu.Unlock()
	return s.Write(out)
}

// absent is what was restored of a replica that is not there, yet.
type absent struct {
	affinity.HomeSnapshot
	read time.Time
}

// Restore binds conversations as [Router.Save] found them and returns how many
// it has bound by now. The time in between counts as idle. Those whose TTL is
// over, or that have come back on their own, are left out, as are those that do
// not fit the table. Replicas are known by their names. Conversations of those
// that are not there are bound when they come, be it that their ranks are yet
// to be discovered or that they are added later.
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
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range s.Homes {
		live := h.Bindings[:0]
		for _, b := range h.Bindings {
			// Not the sum: a clock that was wrong must not make it overflow.
			if b.Idle < r.cfg.ttl && away < r.cfg.ttl-b.Idle {
				b.Idle += away
				live = append(live, b)
			}
		}
		h.Bindings = live
		if m := r.member(h.Table, h.Home); m != nil {
			restored += m.restore(h.Bindings, 0, now)
			continue
		}
		r.absent = slices.DeleteFunc(r.absent, func(a absent) bool { return a.Table == h.Table && a.Home == h.Home })
		if len(live) > 0 {
			r.absent = append(r.absent, absent{h, now})
		}
	}
	return restored, nil
}

func (m *member) restore(bindings []affinity.Binding, away time.Duration, now time.Time) (n int) {
	for _, b := range bindings {
		b.Idle += away
		if m.home.Restore(b, now) {
			n++
		}
	}
	return n
}

// restored is conversations that were bound to a replica which has come.
type restored struct {
	replica  string
	sessions int
}

func (r restored) log(logger *slog.Logger) {
	logger.Info("sessions restored", "replica", r.replica, "sessions", r.sessions)
}

// restoreAbsent binds the conversations of replicas that have come meanwhile. The
// router's lock is held, so the caller logs what is returned when it has given
// the lock back.
func (r *Router) restoreAbsent(now time.Time) (done []restored) {
	r.absent = slices.DeleteFunc(r.absent, func(a absent) bool {
		away := max(0, now.Sub(a.read))
		m := r.member(a.Table, a.Home)
		if m == nil {
			return away >= r.cfg.ttl
		}
		done = append(done, restored{m.Name(), m.restore(a.Bindings, away, now)})
		return true
	})
	return done
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
