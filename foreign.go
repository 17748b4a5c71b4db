package warmroute

import (
	"log/slog"
	"slices"
	"time"

	"github.com/warmroute/warmroute/metrics"
)

// foreign reports whether the member's endpoint came back with another model: it
// answers 404 to what the others of the pool answer.
func (m *member) foreign() bool { return m.evidence.foreign.Load() }

// compareModels holds an endpoint's list of its models against what it listed
// before, adapters left aside. If none of that is left, and another endpoint of the
// pool still has it, this one was started anew with another model. The list alone
// says nothing: llama.cpp takes every name. The lock is held.
func (w *watcher) compareModels(list []metrics.Model) {
	var now []string
	for _, m := range list {
		if m.Parent == "" {
			now = append(now, m.ID)
		}
	}
	if len(now) == 0 {
		return
	}
	w.models.Store(&now)
	foreign := !shareOne(now, w.served) && w.othersServe(w.served)
	if !foreign {
		w.served = now
	}
	if foreign == w.foreign {
		return
	}
	w.foreign = foreign
	level, said := slog.LevelInfo, "serves its model again"
	if foreign {
		level, said = slog.LevelError, "serves another model"
	}
	w.log(level, "endpoint "+said, "url", w.endpoint.URL, "models", now)
	at := time.Now()
	for _, p := range w.router.pools.Load().order {
		for _, m := range *p.members.Load() {
			if p.model != w.endpoint.Model || m.Endpoint().URL != w.endpoint.URL {
				continue
			}
			m.evidence.foreign.Store(foreign)
			if !foreign {
				m.MarkReturned(at)
			}
			p.roomsChanged()
			w.changed(m, said, at)
		}
	}
}

// othersServe reports whether another endpoint of the pool lists one of the models.
func (w *watcher) othersServe(models []string) bool {
	w.router.mu.Lock()
	defer w.router.mu.Unlock()
	for _, other := range w.router.watchers {
		if other == w || other.endpoint.Model != w.endpoint.Model {
			continue
		}
		if list := other.models.Load(); list != nil && shareOne(*list, models) {
			return true
		}
	}
	return false
}

func shareOne(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
