package warmroute

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// admission is a pool's [balance.Admission] and what the router keeps beside it.
// All but the atomic fields are guarded by the pool's lock.
type admission struct {
	*balance.Admission
	setting Residency
	cfg     balance.AdmissionConfig // with the defaults filled in
	// on says that a replica's capacity is known, so that there are residents.
	on     atomic.Bool
	ticked time.Time
	opened time.Time   // when the rooms were last looked at
	timer  *time.Timer // calls pump
	armed  time.Time   // when; zero if it is not set
	// closed says that a room was closed, or is gone, since the queue was last looked
	// through for turns that no replica takes.
	closed   bool
	stranded []*balance.Turn // scratch
	waits    *metrics.Histogram
	// overloaded counts turns that were refused.
	overloaded atomic.Uint64
}

var waitBounds = [...]float64{0.01, 0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300}

// setUp is called once, before the pool is used. choose is for a picker of the
// user's own.
func (a *admission) setUp(cfg poolConfig, choose func(*balance.Turn, []*balance.Room, time.Time) *balance.Room) (err error) {
	a.setting, a.cfg = cfg.residency, cfg.admission
	a.cfg.Capacity = max(0, int(cfg.residency))
	if cfg.ownPicker {
		a.cfg.Choose = choose
	}
	if a.waits, err = metrics.NewHistogram(waitBounds[:]...); err != nil {
		return err
	}
	if a.Admission, err = balance.NewAdmission(a.cfg); err != nil {
		return err
	}
	a.cfg = a.Config()
	a.on.Store(cfg.residency > 0)
	return nil
}

func (a *admission) stats(mu sync.Locker, now time.Time) QueueStats {
	mu.Lock()
	defer mu.Unlock()
	return QueueStats{
		Residency: a.setting, Active: a.on.Load(),
		Waiting: a.Waiting(), MaxWaiting: a.cfg.MaxQueue, Longest: a.LongestWait(now).Seconds(), MaxWait: a.cfg.MaxWait.Seconds(),
		Overloaded: a.overloaded.Load(), Waits: a.waits.Snapshot(),
	}
}

// residents is the number of a member's, nil if its capacity is not known.
func (p *pool) residents(m *member) *int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.admission.Bounds(m.room) {
		return nil
	}
	n := m.room.Residents()
	return &n
}

// chooseRoom asks the pool's picker, which is the user's own, among the replicas
// that have room. The pool's lock is held.
func (p *pool) chooseRoom(t *balance.Turn, rooms []*balance.Room, now time.Time) *balance.Room {
	a := &t.Owner.(*ticket).waiter
	if !p.gatherRooms(rooms, now) {
		return rooms[0]
	}
	p.request = a.request
	p.request.Now, p.request.ParentHome = now, slices.Index(p.picked, a.parent)
	p.recall(now)
	m, err := p.pickCalmly()
	if err != nil {
		p.counts.pickerErrors.Add(1)
		p.sayPickerFailed(err, true)
	}
	return m.room
}

// gatherRooms is gather for the members that have one of the rooms.
func (p *pool) gatherRooms(rooms []*balance.Room, now time.Time) bool {
	p.candidates, p.picked = p.candidates[:0], p.picked[:0]
	for _, m := range *p.members.Load() {
		if slices.Contains(rooms, m.room) {
			p.take(m, now)
		}
	}
	return len(p.picked) > 0
}

// pickCalmly is pick that has a picker's panic be a failure like others: the
// request that it would end need not be the one that is placed.
func (p *pool) pickCalmly() (m *member, err error) {
	defer func() {
		if v := recover(); v != nil {
			m, err = p.leastLoaded(), fmt.Errorf("picker panicked: %v", v)
		}
	}()
	return p.pick()
}

// close ends the timer. Those who wait see for themselves that the router was
// closed.
func (a *admission) close(mu sync.Locker) {
	mu.Lock()
	defer mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
}

// pump sends the turns that can go. The pool's lock is held.
func (p *pool) pump(now time.Time) {
	a := &p.admission
	if now.Sub(a.ticked) >= time.Second {
		a.ticked = now
		a.Tick(now)
	}
	for t := a.Admit(now); t != nil; t = a.Admit(now) {
		p.send(&t.Owner.(*ticket).waiter, now)
	}
	if a.closed {
		a.closed = false
		a.stranded = a.Stranded(a.stranded[:0])
		for _, t := range a.stranded {
			p.release(t) // no use in waiting
		}
		clear(a.stranded)
	}
	wake := a.Wake()
	if wake.IsZero() || p.router.closed.Load() || !a.armed.IsZero() && !wake.Before(a.armed) {
		return
	}
	a.armed = wake
	if a.timer == nil {
		a.timer = time.AfterFunc(wake.Sub(now), p.pumpLater)
	} else {
		a.timer.Reset(wake.Sub(now))
	}
}

func (p *pool) pumpLater() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.admission.armed = time.Time{}
	if p.router.closed.Load() {
		return // those who wait see it for themselves
	}
	now := time.Now()
	p.openRooms(now)
	p.pump(now)
}

// openInterval is how often routing looks for replicas that can be reached, or
// are thought awake, again because time has passed. Whatever else opens or
// closes a room is noted when it happens.
const openInterval = 100 * time.Millisecond

// openRooms has each replica's room be open or not. One that is down, or has
// lost its cache, gives up its residents. The pool's lock is held.
func (p *pool) openRooms(now time.Time) {
	p.admission.opened = now
	sparing, sound := p.has(isUp, now), p.has(isSound, now)
	for _, m := range *p.members.Load() {
		took := m.room.Open && !m.room.Draining
		open := m.Reachable(now) && !m.asleep(now) && !m.foreign() && !m.wedged(now) && !m.Removed() && !m.Found(replica.Draining)
		cold, opens := m.evidence.coldSince.Load(), m.BreakerOpens()
		if m.room.Open && !open || cold != m.roomColdSince || opens != m.roomOpens {
			p.admission.Evict(m.room)
		}
		m.room.Open = open && m.Allows(now)
		m.room.Draining = m.Draining() || sound && m.Held(now) || sparing && m.Found(replica.Suspect)
		p.admission.closed = p.admission.closed || took && !(m.room.Open && !m.room.Draining)
		m.roomColdSince, m.roomOpens = cold, opens
		if !m.fresh(now) {
			m.room.Others = 0 // a stale page has no vote
		}
	}
}

// closeProbed closes the rooms of a member that has just been sent as many probes
// as its breaker allows, and of its endpoint's others, until one has been
// answered. The pool's lock is held.
func (p *pool) closeProbed(m *member, now time.Time) {
	for _, o := range *p.members.Load() {
		if o == m || o.SameEndpoint(m.Replica) {
			took := o.room.Open
			o.room.Open = took && o.Allows(now)
			p.admission.closed = p.admission.closed || took && !o.room.Open
		}
	}
}

// roomsProbed is closeProbed without the lock.
func (p *pool) roomsProbed(m *member, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeProbed(m, now)
}

// refresh takes over what a replica's page says of its capacity and its load.
func (p *pool) refresh(m *member, s *scraped) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.admission.setting == ResidencyOff {
		return
	}
	// A page that does not tell does not say that there is none.
	if n := s.KVTokens.Value; s.KVTokens.OK && n >= 1 {
		m.room.SetCapacity(int(min(n, math.MaxInt32)), true)
		p.admission.on.Store(true)
	}
	m.room.Others += 0.5 * (float64(s.beyond) - m.room.Others)
	p.reopen(time.Now())
}

// roomsChanged is to be called after what opens or closes a replica's room.
func (p *pool) roomsChanged() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reopen(time.Now())
}

// reopen sees which rooms are open, and sends what can go there. The pool's lock
// is held.
func (p *pool) reopen(now time.Time) {
	if p.admission.on.Load() {
		p.openRooms(now)
		p.pump(now)
	}
}

// releaseAll has those who wait be routed without admission, and all residents
// give up their places.
func (p *pool) releaseAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t := p.admission.First(); t != nil; t = p.admission.First() {
		p.release(t)
	}
	for _, m := range *p.members.Load() {
		p.admission.Evict(m.room)
	}
}
