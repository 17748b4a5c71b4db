package warmroute

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/warmroute/warmroute/metrics"
)

// maxAdapters bounds what is remembered of the adapters of an endpoint that does
// not list its models.
const maxAdapters = 4096

// loraUse is the adapters that an engine has in use, and how many it takes.
type loraUse struct {
	names []string
	most  int // 0 if not known
}

// inUse is what a page says of adapters, nil if nothing. vLLM lists every adapter
// with a request under both labels (v1/metrics/stats.py).
func inUse(l *metrics.LoRA) *loraUse {
	if l == nil {
		return nil
	}
	use := &loraUse{names: []string{}, most: int(sane(l.Max).Value)}
	for _, name := range slices.Concat(l.Running, l.Waiting) {
		if !slices.Contains(use.names, name) {
			use.names = append(use.names, name)
		}
	}
	return use
}

// listed takes over the endpoint's own list of its models. The lock is held.
func (w *watcher) listed(models []metrics.Model) {
	names := map[string]bool{}
	for _, m := range models {
		if m.Parent != "" {
			names[m.ID] = true
		}
	}
	w.serves(names)
	w.compareModels(models)
}

// inUse adds the adapters that a page shows in use: they may have been loaded
// since the list was read, or there is none to be read. The lock is held.
func (w *watcher) inUse(l *metrics.LoRA) {
	use := inUse(l)
	if use == nil {
		return
	}
	known := w.adapters.Load()
	var names map[string]bool
	for _, name := range use.names {
		switch {
		case known != nil && (*known)[name]:
		case names != nil:
			names[name] = true
		case known == nil:
			names = map[string]bool{name: true}
		default:
			names = maps.Clone(*known)
			names[name] = true
		}
	}
	if names != nil && len(names) <= maxAdapters {
		w.serves(names)
	}
}

// serves makes names the endpoint's adapters.
func (w *watcher) serves(names map[string]bool) {
	if old := w.adapters.Load(); old != nil && maps.Equal(*old, names) {
		return
	}
	w.adapters.Store(&names)
	if err := w.update(); err != nil {
		w.log(slog.LevelWarn, "adapters not taken over", "url", w.endpoint.URL, "err", err)
	}
}

// spreadAdapters tells pools and members of the adapters that their endpoints
// serve. The router's lock is held.
func (r *Router) spreadAdapters(pools []*pool) {
	endpoints := r.set.Endpoints()
	for _, p := range pools {
		all, changed := map[string]bool{}, false
		for _, e := range endpoints {
			w := r.watchers[e.ID]
			if e.Model != p.model || w == nil {
				continue
			}
			served := w.adapters.Load()
			if served != nil {
				maps.Copy(all, *served)
			}
			for _, m := range *p.members.Load() {
				if m.Endpoint().URL == e.URL {
					changed = m.adapters.Swap(served) != served || changed
				}
			}
		}
		p.discovered.Store(&all)
		if changed {
			p.adaptersChanged()
		}
	}
}

// adaptersChanged has the turns that wait go to replicas that serve them now, and
// to no others.
func (p *pool) adaptersChanged() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keepAllAway()
	p.reopen(time.Now())
}

// hasAdapters reports whether requests for other models than the pool's own may
// belong to it.
func (p *pool) hasAdapters() bool { return len(p.adapters) > 0 || len(*p.discovered.Load()) > 0 }

// isAdapter reports whether a model's name is that of an adapter of the pool's.
func (p *pool) isAdapter(model string) bool {
	return model != "" && model != p.model && (slices.Contains(p.adapters, model) || (*p.discovered.Load())[model])
}

// serves reports whether a member may be sent requests for an adapter, "" for the
// base model. One that was configured is loaded by whoever is asked for it; one
// that was found on some endpoints would be a 404 on those that are known not to
// list it.
func (p *pool) serves(m *member, adapter string) bool {
	if adapter == "" || slices.Contains(p.adapters, adapter) {
		return true
	}
	served := m.adapters.Load()
	return served == nil || (*served)[adapter]
}
