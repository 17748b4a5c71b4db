package warmroute

import (
	"context"
	"log/slog"
	"time"

	"github.com/warmroute/warmroute/health"
	"github.com/warmroute/warmroute/replica"
)

// WithHealth has [Router.Run] watch the replicas beside the requests: probe their
// endpoints, or read what NVIDIA's dcgm-exporter says of their GPUs. See package
// health for the rules. What is found of a replica does this:
//
//   - suspect: it keeps its conversations and gets new ones only where no other
//     replica of its pool can take them
//   - draining: each of its conversations goes to another replica with its next
//     request and stays there, and none comes. Unlike with [Router.Drain] it does
//     not keep those it has. Where no other replica can take them they go on as if
//     nothing had been found
//   - down: it is left out like a replica that cannot be connected to, and its
//     conversations keep it as their home until another replica has answered them
//
// A request that its client pins to a rank goes there whatever was found. A finding
// comes on top of what the requests and the metrics page show and takes none of that
// back; neither does it touch an operator's drain. Default: nothing is watched. A
// setting that is refused is a [*ConfigError].
func WithHealth(cfg health.Config) Option {
	return option(func(c *config) {
		m, err := health.New(cfg)
		if err != nil {
			c.refuse(err)
			return
		}
		c.health = m
	})
}

// Health returns what is known of the endpoints that are probed and of the GPUs on
// exporters' pages. It is empty without [WithHealth], and while Run is not going on.
func (r *Router) Health() health.Status {
	if r.cfg.health == nil {
		return health.Status{}
	}
	return r.cfg.health.Status()
}

// FindingStats is what was found of a replica beside the requests.
type FindingStats struct {
	State  replica.State `json:"state"`  // suspect, draining or down
	Source string        `json:"source"` // "probe" or "dcgm"
	Reason string        `json:"reason"` // such as "dcgm: XID 79 on GPU 3"
	Since  time.Time     `json:"since"`
}

// foundStates are the states in which a replica can be found.
var foundStates = [...]replica.State{replica.Suspect, replica.Draining, replica.Down}

func (m *member) findingStats() *FindingStats {
	f := m.Finding()
	if f.State == replica.Up {
		return nil
	}
	return &FindingStats{State: f.State, Source: f.Source, Reason: f.Reason, Since: f.Since}
}

// watchHealth watches until ctx ends.
func (r *Router) watchHealth(ctx context.Context) {
	if err := r.cfg.health.Run(ctx, fleet{r}); err != nil {
		r.cfg.logger.Error("health is not watched", "err", err)
	}
}

// fleet is the router as its health monitor sees it.
type fleet struct{ router *Router }

func (f fleet) Replicas() []*Replica { return f.router.set.Replicas() }

// Usable leaves aside whether the monitor itself has found the replica down: it
// asks for those that it does not.
func (f fleet) Usable(r *Replica) bool {
	now := time.Now()
	m := f.router.memberOf(r)
	return m != nil && !m.Draining() && !m.Removed() && (m.available(now) || m.Found(replica.Down)) &&
		!m.asleep(now) && !m.foreign() && !m.wedged(now)
}

func (f fleet) Found(r *Replica, before, now replica.Finding) {
	level, reason, at := slog.LevelWarn, now.Reason, now.Since
	if now.State == replica.Up {
		level, reason, at = slog.LevelInfo, before.Source+": no longer found", time.Now()
	}
	f.router.cfg.logger.Log(context.Background(), level, "replica found "+string(now.State), "replica", r.Name(), "reason", reason)
	m := f.router.memberOf(r)
	if m == nil {
		return // it has left meanwhile
	}
	m.pool.roomsChanged()
	f.router.cfg.hooks.onState(r, m.state(at), reason, at)
}

// memberOf is the replica in its pool, nil if it is in none.
func (r *Router) memberOf(of *Replica) *member {
	p := r.pools.Load().byModel[of.Model()]
	if p == nil {
		return nil
	}
	for _, m := range *p.members.Load() {
		if m.Replica == of {
			return m
		}
	}
	return nil
}

// healthProblems are what was found of the pool's replicas, and what keeps more
// from being found.
func (p *pool) healthProblems() []string {
	var out []string
	for _, m := range *p.members.Load() {
		if f := m.Finding(); f.State != replica.Up {
			out = append(out, m.Name()+" is "+string(f.State)+": "+f.Reason)
		}
	}
	if monitor := p.router.cfg.health; monitor != nil {
		out = append(out, monitor.Problems(p.model)...)
	}
	return out
}
