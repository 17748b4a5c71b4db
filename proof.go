package warmroute

import (
	"errors"
	"log/slog"
	"time"

	"github.com/warmroute/warmroute/replica"
)

// proof is what is known of an endpoint's obedience, by API.
type proof struct {
	apis map[string]*obedience
}

// obedience counts claims that may be true and claims that were proved wrong.
type obedience struct {
	kept, broken int
	ignored      bool
}

// enoughBroken is how many claims must be proved wrong, and for how many that
// were not one must be. Where the header is honoured none ever is.
const (
	enoughBroken = 3
	oneOf        = 20
)

func (p *proof) of(api string) *obedience {
	if p.apis == nil {
		p.apis = map[string]*obedience{}
	}
	o := p.apis[api]
	if o == nil {
		o = new(obedience)
		p.apis[api] = o
	}
	return o
}

// all reports whether every API that was used ignores the header.
func (p *proof) all() bool {
	for _, o := range p.apis {
		if !o.ignored {
			return false
		}
	}
	return len(p.apis) > 0
}

// claim holds a member's claims against what its engine has counted, and learns
// from them.
func (w *watcher) claim(m *member, counted float64, asked time.Time) {
	wrong, right := m.claims.page(counted, asked)
	for _, cl := range right {
		w.settle(m, cl.turn)
		if cl.before >= 0 {
			w.proof.of(cl.api).kept++
		}
	}
	for _, cl := range wrong {
		if cl.turn.verdict != "" {
			cl.turn.verdict = Ignored
		}
		w.settle(m, cl.turn)
		w.proof.of(cl.api).broken++
	}
}

// settle settles a turn, and says what it leads to when the lock is given back.
func (w *watcher) settle(m *member, t judgedTurn) {
	if m.settle(t) {
		w.later = append(w.later, m.pool.sayRewritten)
	}
}

// unclaim settles a member's claims without proof: its engine has begun to count
// anew, or does not count so that they could be held against it. restarted is
// since when a new engine runs, zero if it is the same one.
func (w *watcher) unclaim(m *member, restarted time.Time) {
	for _, cl := range m.claims.drop() {
		if !restarted.IsZero() && cl.ended.After(restarted) && (cl.turn.verdict == Rewritten || cl.turn.verdict == Lost) {
			// It ran on the new engine, whose cache was empty.
			cl.turn.verdict, cl.turn.gap = Lost, noGap
		}
		w.settle(m, cl.turn)
	}
}

// act says loudly which APIs ignore the rank header, and routes an endpoint of
// which all do as the one replica that it is, until it restarts or one that does
// not is used.
func (w *watcher) act() {
	for api, o := range w.proof.apis {
		if o.broken >= max(enoughBroken, o.kept/oneOf) && !o.ignored {
			o.ignored = true
			w.loud(ignoredProblem(w.endpoint.URL, api))
		}
	}
	// By the version another API is known to honour it, although no claim could
	// be made while it was routed as one.
	others := w.facts.notOnResponses.Load() && w.facts.others.Load() && len(w.proof.apis) == 1 && w.proof.of(responsesAPI).ignored
	w.collapse(w.ignoresAll || w.proof.all() && !others)
}

// loud says what makes affinity useless.
func (w *watcher) loud(problem string) {
	w.log(slog.LevelError, "rank header ignored", "url", w.endpoint.URL, "problem", problem)
	now := time.Now()
	for _, p := range w.router.pools.Load().order {
		for _, m := range *p.members.Load() {
			if m.Endpoint().URL == w.endpoint.URL {
				w.changed(m, "rank header ignored", now)
			}
		}
	}
}

// collapse routes the endpoint as one replica, or by its ranks again.
func (w *watcher) collapse(on bool) {
	if w.facts.collapsed.Load() == on {
		return
	}
	w.facts.collapsed.Store(on)
	before := w.router.set.Replicas()
	change, err := w.router.set.IgnoresRanks(w.endpoint.URL, on)
	if err == nil && !change.Empty() {
		if on {
			w.log(slog.LevelError, "routed as one replica, since its rank header is ignored", "url", w.endpoint.URL)
		}
		err = w.update()
		change.Finish() // the pools have what was added
		w.replaced(before)
	}
	if err != nil && !errors.Is(err, replica.ErrUnknown) {
		w.log(slog.LevelWarn, "ranks not changed", "url", w.endpoint.URL, "err", err)
	}
}
