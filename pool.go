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
	table      *affinity.Table[*member]
	members    atomic.Pointer[[]*member] // immutable snapshot
	affinity   atomic.Bool
	spill      atomic.Pointer[spillState]
	counts     poolCounts

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
	home    *affinity.Home[*member]
	counts  memberCounts
	scraped atomic.Pointer[scraped]
}

func newPool(r *Router, model string, cfg poolConfig) *pool {
	p := &pool{
		model:      model,
		router:     r,
		maxNumSeqs: cfg.maxNumSeqs,
		table:      affinity.NewTable[*member](affinity.Config{TTL: r.cfg.ttl, MaxSessions: r.cfg.maxSessions}),
		picker:     cfg.picker(),
	}
	p.members.Store(new([]*member))
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
		m := &member{Replica: r, counts: memberCounts{firstByte: firstByte}}
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

// route finds a replica for the request and counts it there.
func (p *pool) route(req *Request, tried []*replica.Replica, now time.Time) (lease Lease, err error) {
	pin, pinned, err := p.pin(req)
	if err != nil {
		return Lease{}, err
	}
	if req.Session == "" || len(req.Session) > affinity.MaxKeyLen {
		outcome := Unkeyed
		if pinned {
			outcome = Pinned
		}
		return p.place(req, nil, pick{outcome: outcome, pin: pin, tried: tried}, now)
	}
	hash := p.table.Hash(req.Session)
	s := p.table.Acquire(req.Session, hash, now)
	if pinned {
		return p.place(req, s, pick{hash: hash, outcome: Pinned, pin: pin, tried: tried}, now)
	}
	if p.affinity.Load() {
		if m := p.homeOf(s, tried, now); m != nil {
			if m.BeginUnlessAbove(p.spill.Load().Value) {
				return newLease(p, m, s, Sticky), nil
			}
			return p.place(req, s, pick{hash: hash, outcome: Spilled, home: m, tried: tried}, now)
		}
	}
	return p.place(req, s, pick{hash: hash, outcome: Placed, tried: tried}, now)
}

// homeOf is the conversation's home if a request can go there.
func (p *pool) homeOf(s *affinity.Session[*member], tried []*replica.Replica, now time.Time) *member {
	h := s.Home()
	if h == nil {
		return nil
	}
	m := h.Value
	if st := m.State(now); st != replica.Up && st != replica.Draining || triedAlready(m, tried) {
		return nil
	}
	return m
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
		if m.Rank() == rank && rank != replica.NoRank || !m.RanksKnown() {
			return rank, true, nil
		}
		several = several || m.Rank() != replica.NoRank
	}
	if several {
		return 0, false, fmt.Errorf("%w: no replica has rank %d", ErrClientRank, rank)
	}
	return 0, false, nil // nobody has ranks: nothing to choose
}

// pick is one placement to be made.
type pick struct {
	hash    uint64
	outcome Outcome
	pin     int // the rank, if outcome is Pinned
	home    *member
	tried   []*replica.Replica
}

// place picks a replica and counts the request there in one step, so that a
// burst cannot pile onto one replica. It owns the acquired session.
func (p *pool) place(req *Request, s *affinity.Session[*member], w pick, now time.Time) (lease Lease, err error) {
	now = time.Now() // exact: the age of scraped values hangs on it
	var failure error
	defer func() {
		// Also when a picker panics: the conversation must not stay in use.
		if lease.ticket == nil && s != nil {
			p.table.Release(s, now)
		}
		if failure != nil { // logged here, without the lock
			p.counts.pickerErrors.Add(1)
			p.router.cfg.logger.Warn("picker failed; the least loaded replica was taken", "model", p.model, "err", failure)
		}
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.outcome == Placed && p.affinity.Load() {
		// Another request of the conversation may have placed it meanwhile.
		if m := p.homeOf(s, w.tried, now); m != nil {
			m.Begin()
			return newLease(p, m, s, Sticky), nil
		}
	}
	if !p.gather(w, now) {
		return Lease{}, fmt.Errorf("%w for model %q", ErrNoReplica, p.model)
	}
	var i int
	i, failure = p.choose(req, s, w, now)
	m := p.picked[i]
	if w.outcome == Spilled {
		home := w.home.candidate(now, p.router.staleAfter())
		if !balance.SpillPays(&home, &p.candidates[i]) {
			m, w.outcome = w.home, Sticky
		}
	}
	m.Begin()
	lease = newLease(p, m, s, w.outcome)
	if w.outcome == Pinned && m.Rank() == replica.NoRank && !m.RanksKnown() {
		lease.rank = strconv.Itoa(w.pin)
	}
	if s != nil && w.outcome != Spilled {
		if h := s.Home(); h == nil || w.outcome == Placed && h != m.home {
			p.table.Bind(s, m.home, now)
		}
	}
	return lease, nil
}

// gather fills the candidates: replicas that are up, or, when none is, those
// that could not be reached lately, since trying them is better than refusing.
func (p *pool) gather(w pick, now time.Time) bool {
	for _, want := range [...]replica.State{replica.Up, replica.Down} {
		p.candidates, p.picked = p.candidates[:0], p.picked[:0]
		for _, m := range *p.members.Load() {
			if m == w.home || triedAlready(m, w.tried) {
				continue
			}
			state := m.State(now)
			if w.outcome == Pinned {
				if m.Rank() != w.pin && m.RanksKnown() {
					continue
				}
				if state == replica.Draining {
					state = replica.Up // the client insists
				}
			}
			if state == want {
				p.candidates = append(p.candidates, m.candidate(now, p.router.staleAfter()))
				p.picked = append(p.picked, m)
			}
		}
		if len(p.picked) > 0 {
			return true
		}
		if w.outcome == Spilled {
			// Nobody else is up: the home is better than one that is down.
			p.candidates = append(p.candidates, w.home.candidate(now, p.router.staleAfter()))
			p.picked = append(p.picked, w.home)
			return true
		}
	}
	return false
}

// choose asks the picker. A picker that fails must not fail the request: the
// least loaded candidate is taken then, and the failure returned beside it.
func (p *pool) choose(req *Request, s *affinity.Session[*member], w pick, now time.Time) (int, error) {
	q := &p.request
	*q = balance.Request{
		Session: w.hash, Model: p.model, PromptTokens: req.PromptTokens,
		Home: -1, ParentHome: -1, Now: now,
	}
	if s != nil {
		if h := s.Home(); h != nil {
			q.Home = slices.Index(p.picked, h.Value)
		}
	}
	if req.Parent != "" {
		q.Parent = p.table.Hash(req.Parent)
		if h := p.table.Peek(req.Parent, now); h != nil {
			q.ParentHome = slices.Index(p.picked, h.Value)
		}
	}
	i, err := p.picker.Pick(q, p.candidates)
	if err == nil && i >= 0 && i < len(p.picked) {
		return i, nil
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
	return best, err
}

// triedAlready reports whether the member's endpoint is among those that could
// not be reached for this request.
func triedAlready(m *member, tried []*replica.Replica) bool {
	for _, t := range tried {
		if m.SameEndpoint(t) {
			return true
		}
	}
	return false
}
