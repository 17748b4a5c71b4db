package warmroute

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/replica"
)

// waiter is the part of a ticket that a pool's admission has in hand: a turn,
// and its caller while it waits.
type waiter struct {
	balance.Turn
	request  balance.Request // for a picker of the user's own
	tried    []*replica.Replica
	avoid    []*replica.Replica
	adapter  string
	parent   *member
	session  *affinity.Session[*member]
	bound    bool    // by this turn
	cost     float64 // of its place, in the member's slow start
	prefix   balance.Prefix
	placing  bool // as in pick
	admitted bool // the turn is the admission's until it is finished
	member   *member
	passage  replica.Passage
	left     time.Duration // that it may wait
	queueLen int           // turns that waited when it began to, itself among them
	sent     time.Time     // when member was set
	waiting  bool
	released bool          // it is to be routed without admission
	out      bool          // it was pushed out of the queue
	ready    chan struct{} // of one: that member is set, or the turn released or out, if waiting
}

// reset makes it ready for another turn.
func (a *waiter) reset() { *a = waiter{Turn: balance.Turn{Avoid: a.Avoid[:0]}} }

// admits reports whether a request is one for the pool's admission.
func (p *pool) admits(req *Request) bool {
	return p.admission.on.Load() && !req.light && !p.asksAtHome && p.affinity.Load()
}

// admit routes a request by way of the pool's admission, and waits if it has to
// and may. It owns the acquired session.
func (p *pool) admit(ctx context.Context, req *Request, w *pick, home *member) (Lease, error) {
	t := tickets.Get().(*ticket)
	a := &t.waiter
	a.Turn = balance.Turn{
		Owner: t, Session: w.hash, Priority: req.Priority, PromptTokens: atMost(req.PromptTokens, mostPrompt), MaxTokens: req.MaxTokens,
		Since: req.since, Avoid: a.Avoid[:0],
	}
	if req.Tenant != "" {
		a.Tenant = p.table.Hash(req.Tenant)
	}
	a.session = w.session
	if w.placing {
		a.prefix, a.placing = w.prefix, true
	}
	unbound := w.session != nil && w.session.Home() == nil
	now := w.now
	if p.router.clock.Running() {
		now = time.Now() // exact
	}
	err := p.enter(ctx, req, w, home, a, now)
	if err != nil {
		a.reset()
		tickets.Put(t)
		if errors.Is(err, errReleased) {
			arrived := now
			if !req.since.IsZero() {
				arrived = req.since
			}
			lease, err := p.place(req, w)
			if err == nil {
				lease.waited = max(0, w.now.Sub(arrived))
				p.admission.waits.Observe(lease.waited.Seconds())
			}
			return lease, err
		}
		if w.session != nil {
			p.table.Release(w.session, time.Now())
		}
		return Lease{}, err
	}
	a.admitted = true
	outcome := w.outcome
	if w.session != nil && w.session.Home() == a.member.home && (home == a.member || unbound && !a.bound) {
		outcome = Sticky
	}
	w.ticket, w.passage = t, a.passage
	lease := newLease(p, a.member, w, outcome)
	lease.waited = a.Waited(w.now)
	return lease, nil
}

// enter has a turn admitted and its replica counted in flight.
func (p *pool) enter(ctx context.Context, req *Request, w *pick, home *member, a *waiter, now time.Time) error {
	if err := p.arrive(req, w, home, a, now); err != nil {
		return err
	}
	if a.ready != nil {
		err := p.waitTold(ctx, a)
		w.now = time.Now()
		if err != nil {
			return err
		}
	}
	p.admission.waits.Observe(a.Waited(now).Seconds())
	return nil
}

// arrive has a turn sent, or put into the queue: then a.ready is set.
func (p *pool) arrive(req *Request, w *pick, home *member, a *waiter, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()     // also when a picker panics
	if !p.affinity.Load() { // switched off meanwhile
		return errReleased
	}
	if now.Sub(p.admission.opened) >= openInterval {
		p.openRooms(now)
	}
	if home != nil {
		a.Home, a.Lost = home.room, home == w.doubted
	} else if a.parent = p.parentHome(req, now); a.parent != nil {
		a.Home = a.parent.room
	}
	if p.admission.cfg.Choose != nil {
		a.request = balance.Request{Session: p.keyHash(w), Model: p.model, PromptTokens: req.PromptTokens, Home: -1, Adapter: w.adapter, Prefix: w.prefix}
		if req.Parent != "" {
			a.request.Parent = p.router.hasher.hash(p.key(req, req.Parent))
		}
	}
	a.tried, a.avoid, a.adapter = w.tried, w.avoid, w.adapter
	p.keepAway(a)
	if a.Home == nil && !p.admission.Takes(a.Avoid) {
		return errReleased
	}
	avoid := len(a.Avoid)
	if a.Home == nil {
		p.avoidSlow(a, now)
	}
	if !p.admission.Arrive(&a.Turn, now) {
		return p.tooMany()
	}
	switch {
	case a.Room() == nil:
		p.pump(now)
		if len(a.Avoid) > avoid && a.member == nil && !a.released {
			// Better there than in the queue.
			a.Avoid = a.Avoid[:avoid]
			p.pump(now)
		}
		if a.member == nil && !a.released && !p.admission.Takes(a.Avoid) {
			p.release(&a.Turn) // its home is not to be had, nor is another
		}
		if !req.try {
			p.pushOut(a, now)
		}
	case home != nil && home.room == a.Room():
		p.begin(a, home, now)
	default:
		p.send(a, now)
	}
	switch {
	case a.member != nil:
	case a.released:
		return errReleased
	case req.try:
		p.admission.Cancel(&a.Turn)
		p.pump(now)
		p.admission.overloaded.Add(1)
		return fmt.Errorf("%w: no replica has room", ErrOverloaded)
	default:
		// Not kept with the ticket: testing/synctest has channels belong to one
		// bubble, and a turn that waits can afford one.
		a.ready, a.waiting = make(chan struct{}, 1), true
		a.left = p.admission.cfg.MaxWait - a.Waited(now) + boundSlack
		a.queueLen = p.admission.Waiting()
	}
	return nil
}

// keepAway has a turn avoid the replicas that it must not go to. The pool's lock
// is held.
func (p *pool) keepAway(a *waiter) {
	a.Avoid = a.Avoid[:0]
	if len(a.tried) == 0 && len(a.avoid) == 0 && a.adapter == "" {
		return
	}
	for _, m := range *p.members.Load() {
		if triedAlready(m, a.tried) || isAvoided(m, a.avoid) || !p.serves(m, a.adapter) {
			a.Avoid = append(a.Avoid, m.room)
		}
	}
}

// keepAllAway is keepAway for those that wait, to be called when replicas have
// come, or serve other adapters than before. The pool's lock is held.
func (p *pool) keepAllAway() {
	for t := range p.admission.Queued() {
		p.keepAway(&t.Owner.(*ticket).waiter)
	}
	p.admission.closed = true // to those that avoid it now
}

// boundSlack is how much later than its bound a turn that waits is released: so
// long [balance.Admission.Admit] may take to send it.
const boundSlack = 300 * time.Millisecond

// wait waits until a turn in the queue has been sent. If the caller or the
// router gives up first the turn is taken back.
func (p *pool) wait(ctx context.Context, a *waiter) (reason DequeueReason, err error) {
	// The bound holds whatever comes before the turn in the queue.
	bound := time.NewTimer(a.left)
	defer bound.Stop()
	select {
	case <-a.ready:
		switch {
		case a.released:
			return DequeueReleased, errReleased
		case a.out:
			return DequeuePushedOut, p.tooMany()
		case a.Waited(a.sent) >= p.admission.cfg.MaxWait:
			return DequeueMaxWait, nil
		}
		return DequeueAdmitted, nil
	case <-ctx.Done():
		reason, err = DequeueCancelled, errGivenUp
	case <-bound.C:
		reason, err = DequeueMaxWait, errReleased
	case <-p.router.done:
		reason, err = DequeueClosed, ErrClosed
	}
	return reason, p.takeBack(a, err)
}

// takeBack has a turn wait no longer, for that reason, and returns the reason, or
// nil if the turn was sent meanwhile and is to go on.
func (p *pool) takeBack(a *waiter, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case a.waiting && errors.Is(err, errReleased): // it goes on
		a.waiting = false
		p.admission.Release(&a.Turn)
	case a.waiting:
		a.waiting = false
		p.admission.Cancel(&a.Turn)
	default: // it was sent at the same time
		<-a.ready
		switch {
		case a.released, a.out:
		case errors.Is(err, errReleased):
			return nil
		default:
			p.undo(a, now)
		}
	}
	p.pump(now)
	return err
}

// unsend gives up a turn that was sent and whose caller never sees its lease.
func (p *pool) unsend(a *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.undo(a, now)
	p.pump(now)
}

// undo takes a turn that was sent, and is not to go on, off its replica. The
// pool's lock is held.
func (p *pool) undo(a *waiter, now time.Time) {
	m := a.member
	m.End()
	m.Released(a.passage)
	if a.passage.Probe() {
		p.openRooms(now) // another can be one
	}
	m.slow.tookNot(a.cost)
	if a.placing {
		m.wasNotSent(&a.prefix, a.sent)
	}
	p.admission.Finish(&a.Turn, balance.Served{Failed: true}, now)
	if a.bound && p.admission.Place(a.Session) != m.room { // nor is another of its turns there
		p.table.UnbindCold(a.session, m.home)
	}
}

// send counts a turn that was given a room in flight there, and wakes its
// caller. The pool's lock is held.
func (p *pool) send(a *waiter, now time.Time) {
	for _, m := range *p.members.Load() {
		if m.room == a.Room() {
			p.begin(a, m, now)
			return
		}
	}
}

func (p *pool) begin(a *waiter, m *member, now time.Time) {
	a.member, a.sent = m, now
	if a.placing {
		m.wasSent(&a.prefix, now)
	}
	m.Begin()
	a.passage = p.passage(m, now)
	if a.session == nil || a.session.Home() != m.home {
		a.cost = m.slow.took()
	}
	if s := a.session; s != nil && s.Home() == nil { // its other requests follow
		p.table.Bind(s, m.home, now)
		a.bound = true
	}
	a.wake()
}

// release takes a turn out of the queue, to be routed without admission. The
// pool's lock is held.
func (p *pool) release(t *balance.Turn) {
	a := &t.Owner.(*ticket).waiter
	p.admission.Release(t)
	a.released = true
	a.wake()
}

// pushOut refuses the turn, if any, that has to make way for one that is to wait.
// The pool's lock is held.
func (p *pool) pushOut(a *waiter, now time.Time) {
	t := p.admission.PushOut(&a.Turn)
	if t == nil {
		return
	}
	gone := &t.Owner.(*ticket).waiter
	gone.out = true
	gone.wake()
	p.pump(now) // others may have waited for it to go first
}

// tooMany counts and returns the refusal of a turn for which the queue is too
// long.
func (p *pool) tooMany() error {
	p.admission.overloaded.Add(1)
	return fmt.Errorf("%w: %d wait already", ErrOverloaded, p.admission.cfg.MaxQueue)
}

// wake wakes a turn's caller if it waits. The pool's lock is held.
func (a *waiter) wake() {
	if a.waiting {
		a.waiting = false
		a.ready <- struct{}{}
	}
}

// errReleased says that a turn is to be routed without admission: no replica
// takes turns just now, as far as is known, and trying is better than refusing;
// or affinity is off.
var errReleased = errors.New("released from admission")

// errGivenUp says that a caller has given up waiting.
var errGivenUp = errors.New("given up")

// parentHome is where the conversation is at home that a new one was started
// from, nil if it is not known.
func (p *pool) parentHome(req *Request, now time.Time) *member {
	if req.Parent == "" {
		return nil
	}
	if h := p.table.Peek(p.key(req, req.Parent), now); h != nil {
		return h.Value
	}
	return nil
}

// turnBegan notes the first byte of an admitted turn.
func (p *pool) turnBegan(l Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.ticket.use.Load() != l.use {
		return // ended meanwhile; else its end waits for the lock
	}
	now := time.Now()
	p.admission.FirstByte(&l.ticket.waiter.Turn, now)
	p.pump(now)
}

// turnEnded notes the end of an admitted turn, and returns when that is.
func (p *pool) turnEnded(a *waiter, res Result) time.Time {
	u := res.Usage
	s := balance.Served{
		Prompt: tokens(u.Prompt), Cached: tokens(u.Cached), Completion: tokens(u.Completion),
		Known: u.Known, Measured: u.Measured, Failed: res.Err != nil,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.admission.opened) >= openInterval {
		p.openRooms(now)
	}
	if res.FirstByte > 0 && res.Err == nil { // from a caller that has its own transport
		p.admission.FirstByte(&a.Turn, a.sent.Add(res.FirstByte))
	}
	p.admission.Finish(&a.Turn, s, now)
	a.reset()
	p.pump(now)
	return now
}

func tokens(n int64) int { return int(min(max(0, n), math.MaxInt32)) }

// mostPrompt is more tokens than any model takes. A client can declare a body of
// any length, and sums of what it declares must not overflow.
const mostPrompt = 1 << 24

func atMost(n, most int) int { return min(max(0, n), most) }
