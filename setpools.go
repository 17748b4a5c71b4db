package warmroute

import "maps"

// CheckOptions returns the error that [New] would return for the first of the
// options that is refused, a [*ConfigError], so that a program can check its own
// configuration before it uses it.
func CheckOptions(opts ...Option) error {
	_, err := collect(opts)
	return err
}

// collect applies options to the defaults and checks those of every pool.
func collect(opts []Option) (config, error) {
	cfg := defaults()
	for _, o := range opts {
		if o != nil {
			o.apply(&cfg)
		}
	}
	if cfg.err == nil {
		cfg.err = cfg.pool.err
	}
	if cfg.err == nil {
		cfg.err = cfg.breaker.Validate()
	}
	if cfg.err == nil {
		cfg.err = cfg.checkPools()
	}
	return cfg, cfg.err
}

// SetPools replaces the pool options that were given to [New], while the router is
// in use: all holds for every pool, byModel for the one of that model after it. Of
// the pools there are, affinity and the spill threshold are set to what the options
// say, as by [Router.SetAffinity] and [Router.SetSpill]; all else holds for pools
// whose first endpoint comes later. Nothing is changed after an error, a
// [*ConfigError].
func (r *Router) SetPools(all []PoolOption, byModel map[string][]PoolOption) error {
	next := config{pool: defaults().pool, pools: maps.Clone(byModel)}
	for _, o := range all {
		if o != nil {
			o.applyPool(&next.pool)
		}
	}
	if next.pool.err != nil {
		return next.pool.err
	}
	if err := next.checkPools(); err != nil {
		return err
	}
	type setting struct {
		pool *pool
		cfg  poolConfig
	}
	var settings []setting
	r.mu.Lock()
	r.cfg.pool, r.cfg.pools = next.pool, next.pools
	for _, p := range r.pools.Load().order {
		cfg, err := next.poolConfig(p.model)
		if err != nil { // of an option that is not the same each time it is applied
			r.mu.Unlock()
			return err
		}
		settings = append(settings, setting{p, cfg})
	}
	r.mu.Unlock()
	for _, s := range settings {
		if s.pool.affinity.Swap(s.cfg.affinity) && !s.cfg.affinity {
			s.pool.releaseAll()
		}
		s.pool.setSpill(func(st *spillState) { st.setting = s.cfg.spill })
	}
	return nil
}
