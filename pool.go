package warmroute

import (
	"context"
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
	adapters   []string                        // LoRA adapters that belong to the pool's model, as configured
	discovered atomic.Pointer[map[string]bool] // and those that its endpoints serve; immutable
	table      *affinity.Table[*member]
	responses  *affinity.Responses[*member] // nil: none are remembered
	members    atomic.Pointer[[]*member]    // immutable snapshot
	affinity   atomic.Bool
	spill      atomic.Pointer[spillState]
	counts     poolCounts
	asksAtHome bool // the picker is a balance.HomePicker
	turns      turnCounts
	recent     recent
	survival   survival
	answers    answers
	sources    keySources
	shared     shared
	admission  admission
	history    history
	failures   logLimit // of the picker
	retries    retryBudget
	beginnings *beginnings // nil without WithSharedPrefix

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
	facts    atomic.Pointer[rankFacts] // nil: not known
	claims   claims
	learned  learned
	survival survival
	lora     atomic.Pointer[loraUse]         // nil: not known
	adapters atomic.Pointer[map[string]bool] // that its endpoint serves; nil: not known
	room     *balance.Room                   // in the pool's admission
	// roomColdSince is the evidence that the room's residents are newer than;
	// guarded by the pool's lock.
	roomColdSince int64
	unreachables  logLimit
	// roomOpens is how often the breaker had opened when the room was last looked
	// at, and slow what the member has been offered; guarded by the pool's lock.
	roomOpens    uint64
	slow         slow
	log          *balance.PrefixLog // of what it was sent, nil without WithSharedPrefix; guarded by the pool's lock, as the next
	logColdSince int64              // the evidence that it is newer than
	prefill      atomic.Int64       // prompt tokens on their way that have no first byte yet
}

func newPool(r *Router, model string, cfg poolConfig) (*pool, error) {
	p := &pool{
		model:      model,
		router:     r,
		maxNumSeqs: cfg.maxNumSeqs,
		adapters:   cfg.adapters,
		table:      affinity.NewTable[*member](affinity.Config{TTL: r.cfg.ttl, MaxSessions: r.cfg.maxSessions}),
		picker:     cfg.picker(),
	}
	if r.cfg.responseChains > 0 {
		p.responses = affinity.NewResponses[*member](r.cfg.ttl, r.cfg.responseChains)
	}
	if cfg.shared {
		p.beginnings = newBeginnings(&cfg, p)
	}
	if err := p.admission.setUp(cfg, p.chooseRoom); err != nil {
		return nil, err
	}
	firstByte, err := metrics.NewHistogram(firstByteBounds[:]...)
	if err != nil {
		return nil, err
	}
	p.counts.firstByte = firstByte
	p.members.Store(new([]*member))
	p.discovered.Store(new(map[string]bool))
	_, p.asksAtHome = p.picker.(balance.HomePicker)
	p.affinity.Store(cfg.affinity)
	p.spill.Store(&spillState{
		Threshold: threshold(cfg.spill, cfg.maxNumSeqs, 0, 0),
		setting:   cfg.spill,
	})
	return p, nil
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
		if p.beginnings != nil {
			m.log = new(balance.PrefixLog)
		}
		next = append(next, m)
	}
	gone := slices.DeleteFunc(slices.Clone(old), func(m *member) bool { return slices.Contains(next, m) })
	p.replace(next, gone)
	for _, m := range gone {
		m.home.Close()
	}
	return nil
}

// replace makes the members those of next, and their rooms those of the
// admission in the same step, since a turn that is given a room needs its member.
func (p *pool) replace(next, gone []*member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range next {
		if m.room == nil {
			m.room = p.admission.Join()
		}
	}
	p.members.Store(&next)
	for _, m := range gone {
		p.admission.Leave(m.room)
	}
	p.keepAllAway()
	p.reopen(time.Now())
}

// route finds a replica for the request and counts it in flight there.
func (p *pool) route(ctx context.Context, req *Request, now time.Time) (Lease, error) {
	var w pick
	if err := p.recognize(req, &w, now); err != nil {
		return Lease{}, err
	}
	if p.router.cfg.retry.RetrySent && req.since.IsZero() {
		p.retries.add(p.router.cfg.retry.Budget)
	}
	if w.outcome == Pinned {
		return p.place(req, &w)
	}
	if m := p.keeper(req, &w, now); m != nil {
		return p.keep(req, &w, m, now), nil
	}
	var home *member
	if p.affinity.Load() {
		home = p.homeOf(&w, now)
	}
	if home != nil && p.doubted(&w, home) {
		w.doubted = home
	}
	if p.admits(req) && (home == nil || home.InFlight() <= p.spill.Load().Value || !p.relieved(&w, home)) {
		p.lookAhead(req, &w, home)
		return p.admit(ctx, req, &w, home)
	}
	switch {
	case home == nil:
	case p.asksAtHome:
		w.atHome = home
	case w.doubted != nil:
	case home.Breaker(now) != replica.BreakerClosed:
		// A probe: where it goes is decided under the lock, so that there are no
		// more than there may be.
	case home.BeginUnlessAbove(p.spill.Load().Value):
		w.passage, _ = home.Admit(now)
		return newLease(p, home, &w, Sticky), nil
	default:
		w.outcome, w.leaving = Spilled, home
	}
	p.lookAhead(req, &w, home)
	return p.place(req, &w)
}

// recognize begins the placement of a request: whose conversation it is, which is
// acquired, and what it asks for.
func (p *pool) recognize(req *Request, w *pick, now time.Time) error {
	rank, pinned, err := p.pin(req)
	if err != nil {
		return err
	}
	*w = pick{outcome: Unkeyed, rank: rank, tried: req.Tried, avoid: req.avoid, promptTokens: req.PromptTokens, now: now}
	if p.isAdapter(req.Model) {
		w.adapter = req.Model
	}
	key := p.key(req, req.Session)
	if req.PreviousResponse != "" {
		key = p.continued(req, key, now)
	}
	if key != "" && len(key) <= affinity.MaxKeyLen {
		w.key, w.hash = key, p.table.Hash(key)
		w.session = p.table.Acquire(key, w.hash, now)
		w.outcome = Placed
		if !req.light {
			w.source, w.returned = p.sources.source(req.KeySource), w.session.Home() != nil
		}
	}
	if pinned {
		w.outcome = Pinned
	}
	return nil
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
