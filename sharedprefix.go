package warmroute

import (
	"slices"
	"time"

	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/internal/family"
)

// WithSharedPrefix has a new conversation go to a replica that has lately served
// another one with the same tools and system prompt, of those that have about as
// little load: [balance.SharedPrefix] says within which bounds. It saves the
// prefill of what they share, and keeps the caches of replicas from being filled
// with the system prompts of everybody.
//
// With it the picker of a pool is [balance.DefaultWithSharedPrefix]; one that was
// set with [WithPicker] or [WithScorers] is told in [balance.Request].Prefix and
// FamilyShare, [balance.Candidate].SharedTokens and Family. What a prompt begins
// with is hashed from the request's body, up to 64 KiB of it, only if the request
// is to be placed: of a request through the transport whose conversation is not
// known yet the body is read before it is sent on, up to [WithPeekLimit], also
// where its key is in a header. Each replica is remembered the last thousand or so
// hashes of. Default off.
func WithSharedPrefix(on bool) PoolOption {
	return poolOption(func(c *poolConfig) { c.shared = on })
}

// beginnings is what a pool keeps for [WithSharedPrefix], but for the members'
// logs. It is guarded by the pool's lock.
type beginnings struct {
	pool   *pool
	scorer balance.Scorer
	scores []float64
}

// newBeginnings also sets up what the configuration leaves to it.
func newBeginnings(cfg *poolConfig, p *pool) *beginnings {
	b := &beginnings{pool: p, scorer: balance.SharedPrefix()}
	if !cfg.ownPicker {
		p.picker = balance.DefaultWithSharedPrefix()
		cfg.admission.Prefer = b.preferRoom
	}
	return b
}

// bound reports whether the request's conversation has a home, so that its body
// need not be looked into.
func (r *Router) bound(req *Request) bool {
	p, err := r.pool(req.Model)
	if err != nil || p.beginnings == nil {
		return true // nobody asks
	}
	key := p.key(req, req.Session)
	return key != "" && p.table.Peek(key, r.clock.Now()) != nil
}

// lookAhead finds out what the prompt of a request begins with that is to be
// placed: without the pool's lock, since that takes a while. home is where it can
// go, nil if nowhere.
func (p *pool) lookAhead(req *Request, w *pick, home *member) {
	if p.beginnings == nil || req.light || home != nil && home != w.doubted || w.outcome != Placed && w.outcome != Unkeyed {
		return
	}
	w.placing = true
	if len(req.Body) > 0 {
		domain := uint64(0)
		if w.adapter != "" {
			domain = p.router.hasher.hash(w.adapter)
		}
		w.prefix = family.Prefix(req.Body, domain, &p.router.seed)
	}
}

// wasSent notes that a conversation was placed on the member. The pool's lock is
// held.
func (m *member) wasSent(prefix *balance.Prefix, now time.Time) { m.recent().Add(prefix, now) }

// wasNotSent takes back what wasSent noted at a time. The pool's lock is held.
func (m *member) wasNotSent(prefix *balance.Prefix, at time.Time) {
	if m.evidence.coldSince.Load() <= at.UnixNano() { // else it was forgotten since
		m.recent().Remove(prefix, at)
	}
}

// recent is the member's log, which there is with [WithSharedPrefix]: empty if the
// cache was lost since as a whole. The pool's lock is held.
func (m *member) recent() *balance.PrefixLog {
	if cold := m.evidence.coldSince.Load(); cold != m.logColdSince {
		m.logColdSince = cold
		m.log.Forget()
	}
	return m.log
}

// recall tells p.request and p.candidates what the members have served of the
// prompt's beginning. The pool's lock is held.
func (p *pool) recall(now time.Time) {
	prefix := &p.request.Prefix
	if !prefix.Known() {
		return
	}
	longest := 0
	for i, m := range p.picked {
		step, age := m.recent().Longest(prefix, now)
		if step < 0 {
			continue
		}
		longest = max(longest, prefix.Tokens(step))
		p.candidates[i].SharedTokens = int((1 - m.lost(age, now)) * float64(prefix.Tokens(step)))
	}
	if longest == 0 {
		return
	}
	family := 0
	for 2*prefix.Tokens(family) < longest {
		family++
	}
	for i, m := range p.picked {
		p.candidates[i].Family = m.log.Count(prefix, family, now)
	}
	of, all := 0.0, 0.0
	for _, m := range *p.members.Load() {
		log := m.recent()
		of += log.Count(prefix, family, now)
		all += log.Total(now)
	}
	if all > 0 {
		p.request.FamilyShare = min(of/all, 1)
	}
}

// preferRoom prefers, among rooms that are about equally free, one whose replica
// has served the same beginning. The pool's lock is held.
func (b *beginnings) preferRoom(t *balance.Turn, rooms []*balance.Room, now time.Time) *balance.Room {
	p, a := b.pool, &t.Owner.(*ticket).waiter
	if !a.prefix.Known() || !p.gatherRooms(rooms, now) {
		return nil
	}
	p.request = balance.Request{Model: p.model, Home: -1, ParentHome: -1, Prefix: a.prefix, Now: now}
	p.recall(now)
	b.scores = slices.Grow(b.scores[:0], len(p.picked))[:len(p.picked)]
	clear(b.scores)
	b.scorer.Score(&p.request, p.candidates, b.scores)
	for _, r := range rooms { // the freest first
		for i, m := range p.picked {
			if m.room == r && b.scores[i] > 0 {
				return r
			}
		}
	}
	return nil
}
