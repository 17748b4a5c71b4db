package warmroute

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// pool is the replicas that serve one model, with their conversations.
type pool struct {
	model      string
	router     *Router
	maxNumSeqs int
	adapters   []string // LoRA adapters that belong to the pool's model
	table      *affinity.Table[*member]
	members    atomic.Pointer[[]*member] // immutable snapshot
	affinity   atomic.Bool
	spill      atomic.Pointer[spillState]
	counts     poolCounts
	asksAtHome bool // the picker is a balance.HomePicker
	turns      turnCounts
	recent     recent
	survival   survival

	mu         sync.Mutex // short: held for one pick, never over I/O
	picker     balance.Picker
	request    balance.Request // scratch, as are the next two: a picker keeps none
	candidates []balance.Candidate
	picked     []*member
}

// spillState is a threshold with what it was derived from.
type spillState struct {
	Threshold
	setting             Spill
	serverInfo, learned int
}

// member is a replica in its pool.
type member struct {
	*replica.Replica
	pool     *pool
	home     *affinity.Home[*member]
	counts   memberCounts
	scraped  atomic.Pointer[scraped]
	evidence evidence
	claims   claims
	learned  learned
	adapters atomic.Pointer[[]string] // that its engine has loaded; nil: not known
	prefill  atomic.Int64             // prompt tokens on their way that have no first byte yet
}

func newPool(r *Router, model string, cfg poolConfig) *pool {
	p := &pool{
		model:      model,
		router:     r,
		maxNumSeqs: cfg.maxNumSeqs,
		adapters:   cfg.adapters,
		table:      affinity.NewTable[*member](affinity.Config{TTL: r.cfg.ttl, MaxSessions: r.cfg.maxSessions}),
		picker:     cfg.picker(),
	}
	p.members.Store(new([]*member))
	p.recent.onMostlyRewritten = func() { r.cfg.logger.Warn(rewrittenProblem, "model", model) }
	_, p.asksAtHome = p.picker.(balance.HomePicker)
	p.affinity.Store(cfg.affinity)
	p.spill.Store(&spillState{
		Threshold: threshold(cfg.spill, cfg.maxNumSeqs, 0, 0),
		setting:   cfg.spill,
	})
	return p
}

// update makes the pool's members those of the given replicas. Who stays keeps
// its member; who is gone loses its conversations at once. Updates come one at
// a time, with the router's lock held; routing goes on meanwhile.
func (p *pool) update(replicas []*replica.Replica) error {
	old := *p.members.Load()
	next := make([]*member, 0, len(replicas))
	for _, r := range replicas {
		i := slices.IndexFunc(old, func(m *member) bool { return m.Replica == r })
		if i >= 0 {
			next = append(next, old[i])
			continue
		}
		firstByte, err := metrics.NewHistogram(firstByteBounds[:]...)
		if err != nil {
			return err
		}
		m := &member{Replica: r, pool: p, counts: memberCounts{firstByte: firstByte}}
		m.home = p.table.NewHome(m)
		next = append(next, m)
	}
	p.members.Store(&next)
	for _, m := range old {
		if !slices.Contains(next, m) {
			m.home.Close()
		}
	}
	return nil
}

// route finds a replica for the request and counts it in flight there.
func (p *pool) route(req *Request, now time.Time) (Lease, error) {
	rank, pinned, err := p.pin(req)
	if err != nil {
		return Lease{}, err
	}
	w := pick{outcome: Unkeyed, rank: rank, tried: req.Tried, promptTokens: req.PromptTokens, now: now}
	if key := p.key(req, req.Session); key != "" && len(key) <= affinity.MaxKeyLen {
		w.hash = p.table.Hash(key)
		w.session = p.table.Acquire(key, w.hash, now)
		w.outcome = Placed
	}
	switch {
	case pinned:
		w.outcome = Pinned
	case w.session != nil && p.affinity.Load():
		switch m := p.homeOf(&w, now); {
		case m == nil:
		case p.asksAtHome:
			w.atHome = m
		case m.BeginUnlessAbove(p.spill.Load().Value):
			return newLease(p, m, &w, Sticky), nil
		default:
			w.outcome, w.leaving = Spilled, m
		}
	}
	return p.place(req, &w)
}

// isAdapter reports whether a model's name is that of an adapter of the pool's.
func (p *pool) isAdapter(model string) bool {
	return model != "" && model != p.model && slices.Contains(p.adapters, model)
}

// key is what a conversation is known by in the table. An adapter's name is a
// part of vLLM's block hash: the same text is another prefix, and so another
// conversation.
func (p *pool) key(req *Request, session string) string {
	if session == "" || !p.isAdapter(req.Model) {
		return session
	}
	return req.Model + "\x00" + session
}

// pin is what the client's own rank asks for.
func (p *pool) pin(req *Request) (rank int, pinned bool, err error) {
	if req.ClientRank == "" || p.router.cfg.clientRank == DropClientRank {
		return 0, false, nil
	}
	if p.router.cfg.clientRank == RefuseClientRank {
		return 0, false, fmt.Errorf("%w: clients may not choose one", ErrClientRank)
	}
	rank, err = strconv.Atoi(strings.TrimSpace(req.ClientRank))
	if err != nil {
		return 0, false, nil // vLLM ignores what is not a number as well
	}
	several := false
	for _, m := range *p.members.Load() {
		if rank >= 0 && (m.Rank() == rank || !m.RanksKnown()) {
			return rank, true, nil
		}
		several = several || m.Rank() != replica.NoRank || !m.RanksKnown()
	}
	if several {
		return 0, false, fmt.Errorf("%w: no replica has rank %d", ErrClientRank, rank)
	}
	return 0, false, nil // nobody has ranks: nothing to choose
}

// pick is one placement to be made.
type pick struct {
	session *affinity.Session[*member] // acquired; nil if the request has no key
	hash    uint64
	outcome Outcome
	rank    int     // that the client chose, if outcome is Pinned
	leaving *member // the home, if outcome is Spilled
	atHome  *member // the home, if the picker is asked whether to stay
	tried   []*replica.Replica

	promptTokens int
	now          time.Time
}

// homeOf is the conversation's home if a request can go there.
func (p *pool) homeOf(w *pick, now time.Time) *member {
	m := p.lastHome(w)
	if m == nil || !m.Reachable(now) || m.asleep(now) {
		return nil
	}
	if cold := m.evidence.coldSince.Load(); cold != 0 && p.table.LastUse(w.session).UnixNano() < cold {
		// A cache that was lost as a whole since is no reason to go there.
		if w.session.Memo() > 0 {
			w.session.SetMemo(0) // said once
			m.settle(Lost)
		}
		return nil
	}
	return m
}

// lastHome is the conversation's home, even if it could not be reached just
// now.
func (p *pool) lastHome(w *pick) *member {
	if w.session == nil {
		return nil
	}
	h := w.session.Home()
	if h == nil || triedAlready(h.Value, w.tried) {
		return nil
	}
	return h.Value
}

// place picks a replica and counts the request there in one step, so that a
// burst cannot pile onto one replica. It owns the acquired session.
func (p *pool) place(req *Request, w *pick) (lease Lease, err error) {
	now := w.now
	if p.router.clock.Running() {
		now = time.Now() // exact: the age of scraped values hangs on it
	}
	var failure error
	defer func() {
		// Also when a picker panics: the conversation must not stay in use.
		if lease.ticket == nil && w.session != nil {
			p.table.Release(w.session, now)
		}
		if failure != nil { // logged here, without the lock
			p.counts.pickerErrors.Add(1)
			p.router.cfg.logger.Warn("picker failed; the least loaded replica was taken", "model", p.model, "err", failure)
		}
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.outcome == Placed && w.atHome == nil && p.affinity.Load() {
		// Another request of the conversation may have placed it meanwhile.
		if m := p.homeOf(w, now); m != nil {
			m.Begin()
			return newLease(p, m, w, Sticky), nil
		}
	}
	m, failure := p.choose(req, w, now)
	if m == nil {
		return Lease{}, fmt.Errorf("%w for model %q", ErrNoReplica, p.model)
	}
	m.Begin()
	lease = newLease(p, m, w, w.outcome)
	if w.outcome == Pinned && !m.RanksKnown() {
		lease.rank = strconv.Itoa(w.rank)
	}
	// A new conversation is bound at once, so that its other requests follow;
	// one that has a home moves when another replica has answered it.
	if w.session != nil && w.outcome != Spilled && w.session.Home() == nil {
		p.table.Bind(w.session, m.home, now)
	}
	return lease, nil
}

// choose finds the replica to take, nil if there is none, and may change the
// outcome. The error is that of a picker that failed, which must not fail the
// request.
func (p *pool) choose(req *Request, w *pick, now time.Time) (*member, error) {
	home := p.lastHome(w)
	switch w.outcome {
	case Pinned:
		// Replicas that have the rank come before those that may have it.
		for _, fits := range [...]func(*member, time.Time) bool{
			func(m *member, _ time.Time) bool { return m.Rank() == w.rank },
			func(m *member, _ time.Time) bool { return !m.RanksKnown() },
		} {
			if home != nil && fits(home, now) && home.Reachable(now) {
				return home, nil
			}
			if p.gather(w, now, true, fits) || p.gather(w, now, false, fits) {
				return p.ask(req, w, now)
			}
		}
		return nil, nil
	case Spilled:
		if !p.gather(w, now, true, isUp) {
			w.outcome = Sticky // nowhere to go
			return w.leaving, nil
		}
		m, err := p.ask(req, w, now)
		there := m.candidate(now, p.router.staleAfter())
		here := w.leaving.candidate(now, p.router.staleAfter())
		if !balance.SpillPays(&here, &there) {
			w.outcome = Sticky
			return w.leaving, err
		}
		return m, err
	}
	if p.gather(w, now, true, isUp) || p.gather(w, now, true, isThere) {
		m, err := p.ask(req, w, now)
		switch {
		case w.atHome == nil:
		case m == w.atHome:
			w.outcome = Sticky
		default:
			w.outcome = Spilled
		}
		return m, err
	}
	// Nobody can be reached, as far as is known. Trying is better than refusing,
	// and a conversation loses the least at home.
	if home != nil && w.outcome == Placed && p.affinity.Load() {
		w.outcome = Sticky
		return home, nil
	}
	if p.gather(w, now, false, isUp) {
		return p.ask(req, w, now)
	}
	return nil, nil
}

// isUp reports whether the member takes new conversations, if it can be
// reached.
func isUp(m *member, now time.Time) bool { return isThere(m, now) && !m.wedged(now) }

// isThere is isUp, were it not that the engine seems to be wedged: that is an
// inference, and better than nobody.
func isThere(m *member, now time.Time) bool { return !m.Draining() && !m.asleep(now) }

// gather fills the candidates with the members that fit, that can be reached or
// cannot, and reports whether there are any.
func (p *pool) gather(w *pick, now time.Time, reachable bool, fits func(*member, time.Time) bool) bool {
	p.candidates, p.picked = p.candidates[:0], p.picked[:0]
	for _, m := range *p.members.Load() {
		if m == w.leaving || m.Reachable(now) != reachable || !fits(m, now) && m != w.atHome ||
			m.Removed() || triedAlready(m, w.tried) {
			continue
		}
		p.candidates = append(p.candidates, m.candidate(now, p.router.staleAfter()))
		p.picked = append(p.picked, m)
	}
	return len(p.picked) > 0
}

// ask asks the picker. If it fails the least loaded candidate is taken, and the
// failure returned beside it.
func (p *pool) ask(req *Request, w *pick, now time.Time) (*member, error) {
	q := &p.request
	*q = balance.Request{
		Session: w.hash, Model: p.model, PromptTokens: req.PromptTokens,
		Home: -1, ParentHome: -1, Now: now,
	}
	if m := p.homeOf(w, now); m != nil { // not one whose cache is gone
		q.Home = slices.Index(p.picked, m)
		q.HomeTokens = int(w.session.Memo()) * memoTokens
	}
	if p.isAdapter(req.Model) {
		q.Adapter = req.Model
	}
	if req.Parent != "" {
		parent := p.key(req, req.Parent)
		q.Parent = p.table.Hash(parent)
		if h := p.table.Peek(parent, now); h != nil {
			q.ParentHome = slices.Index(p.picked, h.Value)
		}
	}
	i, err := p.picker.Pick(q, p.candidates)
	if err == nil && i >= 0 && i < len(p.picked) {
		return p.picked[i], nil
	}
	if err == nil {
		err = fmt.Errorf("index %d of %d candidates", i, len(p.picked))
	}
	best := 0
	for i := range p.candidates {
		if p.candidates[i].Load() < p.candidates[best].Load() {
			best = i
		}
	}
	return p.picked[best], err
}

// triedAlready reports whether the member's endpoint is among those that could
// not be reached for this request.
func triedAlready(m *member, tried []*replica.Replica) bool {
	for _, t := range tried {
		if t != nil && m.SameEndpoint(t) {
			return true
		}
	}
	return false
}
