package warmroute

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/replica"
)

// pick is one placement to be made.
type pick struct {
	session *affinity.Session[*member] // acquired; nil if the request has no key
	key     string
	hash    uint64 // of the key, in the table
	outcome Outcome
	rank    int     // that the client chose, if outcome is Pinned
	leaving *member // the home, if outcome is Spilled
	atHome  *member // the home, if the picker is asked whether to stay
	doubted *member // the home, if the cache there is probably lost
	adapter string  // that the request is for, "" for the base model
	tried   []*replica.Replica
	avoid   []*replica.Replica // those alone, not their endpoints
	passage replica.Passage    // of the replica that is chosen

	source   *keySource // of the session's key
	returned bool       // the conversation was known

	promptTokens int
	prefix       balance.Prefix // if it is to be placed
	placing      bool           // it counts among what a replica is sent
	now          time.Time
	ticket       *ticket // for the lease, if it has one already
}

// keyHash is what pickers know the conversation by, 0 if the request has no key.
func (p *pool) keyHash(w *pick) uint64 {
	if w.session == nil {
		return 0
	}
	return p.router.hasher.hash(w.key)
}

// homeOf is the conversation's home if a request can go there.
func (p *pool) homeOf(w *pick, now time.Time) *member {
	m := p.lastHome(w)
	if m == nil || !m.available(now) || m.asleep(now) || m.foreign() || m.Found(replica.Draining) || !p.serves(m, w.adapter) {
		return nil
	}
	if cold := m.evidence.coldSince.Load(); cold != 0 && p.table.LastUse(w.session).UnixNano() < cold {
		// A cache that was lost as a whole since is no reason to go there.
		if w.session.Memo() > 0 {
			w.session.SetMemo(0)                            // said once
			m.settle(judgedTurn{verdict: Lost, gap: noGap}) // which has nothing to say
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
	if h == nil || w.excludes(h.Value) {
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
			p.sayPickerFailed(failure, false)
		}
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.outcome == Placed && w.atHome == nil && p.affinity.Load() {
		// Another request of the conversation may have placed it meanwhile.
		m := p.homeOf(w, now)
		if m != nil && (w.doubted == nil || !p.doubted(w, m)) {
			m.Begin()
			w.passage = p.passage(m, now)
			p.pass(req, w, m, now)
			return newLease(p, m, w, Sticky), nil
		}
		w.doubted = m
	}
	m, failure := p.choose(req, w, now)
	if m == nil {
		return Lease{}, fmt.Errorf("%w for model %q", ErrNoReplica, p.model)
	}
	m.Begin()
	if w.outcome != Sticky {
		m.slow.took()
	}
	w.passage = p.passage(m, now)
	if w.placing {
		m.wasSent(&w.prefix, now)
	}
	p.pass(req, w, m, now)
	lease = newLease(p, m, w, w.outcome)
	if w.outcome == Pinned && !m.RanksKnown() {
		lease.rank = strconv.Itoa(w.rank)
	}
	// A new conversation is bound at once, so that its other requests follow, and
	// one whose cache is probably lost is as good as new; any other that has a home
	// moves when another replica has answered it.
	switch {
	case w.session == nil || w.outcome == Spilled:
	case w.session.Home() == nil || w.doubted != nil && m != w.doubted:
		p.table.Bind(w.session, m.home, now)
	case w.doubted != nil:
		w.session.SetMemo(0) // it was given up, and is being made anew
	}
	return lease, nil
}

// passage counts a request in with the breakers of the replica that was taken. A
// probe is one for the turns that wait as well. The pool's lock is held.
func (p *pool) passage(m *member, now time.Time) replica.Passage {
	passage, _ := m.Admit(now)
	if passage.Probe() {
		p.closeProbed(m, now)
	}
	return passage
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
			if home != nil && fits(home, now) && home.available(now) {
				return home, nil
			}
			if p.gather(w, now, isAvailable, fits) || p.gather(w, now, isSuspended, fits) || p.gather(w, now, isUnreachable, fits) {
				return p.ask(req, w, now)
			}
		}
		return nil, nil
	case Spilled:
		if !p.gather(w, now, isAvailable, isUp) {
			w.outcome = Sticky // nowhere to go
			return w.leaving, nil
		}
		m, err := p.ask(req, w, now)
		if !p.relieves(w.leaving, m, now) {
			w.outcome = Sticky
			return w.leaving, err
		}
		return m, err
	}
	if p.gatherFittest(w, now, isAvailable) {
		m, err := p.ask(req, w, now)
		switch {
		case w.doubted != nil && (m == w.doubted || w.atHome == nil && !p.relieves(w.doubted, m, now)):
			w.outcome = Sticky // no other has less on it, and something may be left
			return w.doubted, err
		case w.atHome == nil || w.doubted != nil:
		case m == w.atHome:
			w.outcome = Sticky
		default:
			w.outcome = Spilled
		}
		return m, err
	}
	if p.gather(w, now, isAvailable, isAwake) { // all that is left is to be left
		if w.outcome == Placed && p.affinity.Load() && home != nil && home.available(now) && isAwake(home, now) {
			w.outcome = Sticky
			return home, nil
		}
		return p.ask(req, w, now)
	}
	// Every breaker is open, or nobody can be reached, as far as is known. Trying is
	// better than refusing, and a conversation loses the least at home.
	for _, reach := range [...]reach{isSuspended, isUnreachable} {
		there := p.gatherFittest(w, now, reach) || p.gather(w, now, reach, isAwake)
		if home != nil && w.outcome == Placed && p.affinity.Load() && (reach == isUnreachable || reach.of(home, now)) {
			w.outcome = Sticky
			return home, nil
		}
		if there {
			return p.ask(req, w, now)
		}
	}
	return nil, nil
}

// doubted reports whether so little of what the conversation's last turn left at
// home is probably there yet that it is placed like a new one.
func (p *pool) doubted(w *pick, m *member) bool {
	return w.session.Memo() > 0 && m.lost(p.gap(w), w.now) > 1-doubtBelow
}

// gap is how long the conversation has been idle.
func (p *pool) gap(w *pick) time.Duration { return w.now.Sub(p.table.LastUse(w.session)) }

// relieves reports whether a request that goes to another replica than its home
// meets less there.
func (p *pool) relieves(home, m *member, now time.Time) bool {
	here, there := home.candidate(now, p.router.staleAfter()), m.candidate(now, p.router.staleAfter())
	return balance.SpillPays(&here, &there)
}

// relieved reports whether there is a replica that a request can go to and meets
// less on than at home.
func (p *pool) relieved(w *pick, home *member) bool {
	for _, m := range *p.members.Load() {
		if m != home && m.available(w.now) && isUp(m, w.now) && !m.Removed() && !w.excludes(m) &&
			p.serves(m, w.adapter) && p.relieves(home, m, w.now) {
			return true
		}
	}
	return false
}

// reach says which members are looked at: those that take requests, those whose
// breaker keeps them from that, and those that could not be reached.
type reach int

const (
	isAvailable reach = iota
	isSuspended
	isUnreachable
)

func (r reach) of(m *member, now time.Time) bool {
	switch r {
	case isAvailable:
		return m.available(now)
	case isSuspended:
		return m.Reachable(now) && !m.Allows(now)
	}
	return !m.Reachable(now)
}

// isUp reports whether the member takes new conversations, if it can be
// reached.
func isUp(m *member, now time.Time) bool { return isSound(m, now) && !m.Found(replica.Suspect) }

// take makes a member one of the candidates.
func (p *pool) take(m *member, now time.Time) {
	p.candidates = append(p.candidates, balance.Candidate{})
	m.describe(&p.candidates[len(p.candidates)-1], now, p.router.staleAfter())
	p.picked = append(p.picked, m)
}

// gather fills the candidates with the members that fit, of those that are within
// reach in that way, and reports whether there are any.
func (p *pool) gather(w *pick, now time.Time, reach reach, fits func(*member, time.Time) bool) bool {
	p.candidates, p.picked = p.candidates[:0], p.picked[:0]
	for _, m := range *p.members.Load() {
		if m == w.leaving || !reach.of(m, now) || !fits(m, now) && m != w.atHome ||
			m.Removed() || w.excludes(m) || !p.serves(m, w.adapter) {
			continue
		}
		p.take(m, now)
	}
	if reach == isAvailable {
		p.holdBack(w, now)
	}
	return len(p.picked) > 0
}

// excludes reports whether a request is not to go to a member that it went to
// before, or to its endpoint.
func (w *pick) excludes(m *member) bool { return triedAlready(m, w.tried) || isAvoided(m, w.avoid) }

// ask asks the picker. If it fails the least loaded candidate is taken, and the
// failure returned beside it.
func (p *pool) ask(req *Request, w *pick, now time.Time) (*member, error) {
	q := &p.request
	*q = balance.Request{
		Session: p.keyHash(w), Model: p.model, PromptTokens: req.PromptTokens,
		Home: -1, ParentHome: -1, Adapter: w.adapter, Prefix: w.prefix, Now: now,
	}
	p.recall(now)
	if m := p.homeOf(w, now); m != nil { // not one whose cache is gone
		q.Home = slices.Index(p.picked, m)
		q.HomeTokens = int(leftOf(w.session.Memo()).tokens(p.answers.kept.Load()))
		q.HomeLost = m.lost(p.gap(w), now)
	}
	if req.Parent != "" {
		parent := p.key(req, req.Parent)
		q.Parent = p.router.hasher.hash(parent)
		if h := p.table.Peek(parent, now); h != nil {
			q.ParentHome = slices.Index(p.picked, h.Value)
		}
	}
	return p.pick()
}

// pick asks the picker for p.request among p.candidates.
func (p *pool) pick() (*member, error) {
	i, err := p.picker.Pick(&p.request, p.candidates)
	if err == nil && i >= 0 && i < len(p.picked) {
		return p.picked[i], nil
	}
	if err == nil {
		err = fmt.Errorf("index %d of %d candidates", i, len(p.picked))
	}
	return p.leastLoaded(), err
}

// leastLoaded is the member of the candidate with the least load.
func (p *pool) leastLoaded() *member {
	best := 0
	for i := range p.candidates {
		if p.candidates[i].Load() < p.candidates[best].Load() {
			best = i
		}
	}
	return p.picked[best]
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
