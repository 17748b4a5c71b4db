package warmroute

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warmroute/warmroute/replica"
)

// pools is an immutable snapshot.
type pools struct {
	byModel map[string]*pool
	order   []*pool
	// fallback takes requests whose model is not known: the default pool, or
	// the first one, nil while there is none.
	fallback *pool
	// named says that a request's model must be known to route it.
	named bool
	// shared says that what a new conversation's prompt begins with must be known.
	shared bool
}

// poolConfig is the configuration of one model's pool.
func (c *config) poolConfig(model string) (poolConfig, error) {
	p := c.pool
	for _, o := range c.pools[model] {
		if o != nil {
			o.applyPool(&p)
		}
	}
	return p, p.err
}

func (c *config) checkPools() error {
	for _, model := range slices.Sorted(maps.Keys(c.pools)) {
		if _, err := c.poolConfig(model); err != nil {
			return err
		}
	}
	return nil
}

// changedSet brings pools and members in line with a set of replicas that has
// changed.
func (r *Router) changedSet() error {
	done, err := r.update()
	for _, d := range done {
		d.log(r.cfg.logger)
	}
	return err
}

// update is changedSet, but for what is to be logged.
func (r *Router) update() ([]restored, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	byModel := map[string][]*replica.Replica{}
	var models []string
	for _, m := range r.set.Replicas() {
		if _, ok := byModel[m.Model()]; !ok {
			models = append(models, m.Model())
		}
		byModel[m.Model()] = append(byModel[m.Model()], m)
	}
	old := r.pools.Load()
	next := &pools{byModel: maps.Clone(old.byModel), order: slices.Clone(old.order)}
	if next.byModel == nil {
		next.byModel = map[string]*pool{}
	}
	for _, model := range models {
		if next.byModel[model] == nil {
			cfg, err := r.cfg.poolConfig(model)
			if err != nil {
				return nil, err
			}
			p, err := newPool(r, model, cfg)
			if err != nil {
				return nil, err
			}
			next.byModel[model] = p
			next.order = append(next.order, p)
		}
	}
	// A pool that has lost its last replica stays, so that its counts do and
	// its requests are told that no replica is there rather than no model.
	for _, p := range next.order {
		if err := p.update(byModel[p.model]); err != nil {
			return nil, err
		}
	}
	next.fallback = next.byModel[""]
	if next.fallback == nil && len(next.order) > 0 {
		next.fallback = next.order[0]
	}
	r.spreadAdapters(next.order)
	next.named = len(next.order) > 1 || len(next.order) == 1 && (next.order[0].model != "" || next.order[0].hasAdapters())
	next.shared = slices.ContainsFunc(next.order, func(p *pool) bool { return p.beginnings != nil })
	r.pools.Store(next)
	done := r.restoreAbsent(time.Now())
	select {
	case r.changed <- struct{}{}:
	default:
	}
	return done, nil
}

// pool finds the pool of a model.
func (r *Router) pool(model string) (*pool, error) {
	ps := r.pools.Load()
	if len(ps.order) == 0 {
		return nil, fmt.Errorf("%w: no endpoint is known yet", ErrNoReplica)
	}
	if model == "" {
		return ps.fallback, nil
	}
	if p := ps.byModel[model]; p != nil {
		return p, nil
	}
	for _, p := range ps.order {
		if p.isAdapter(model) {
			return p, nil
		}
	}
	if p := ps.byModel[""]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%w %q", ErrUnknownModel, clip(model))
}

// clip shortens what a client sent for an error, which is logged and answered
// with.
func clip(s string) string {
	const most = 128
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
