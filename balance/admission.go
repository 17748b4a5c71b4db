package balance

import (
	"iter"
	"math"
	"slices"
	"time"
)

// Admission keeps, for the replicas of one pool, the conversations whose KV is
// meant to stay in each one's prefix cache: its residents. A resident's turn
// goes straight home. Any other turn waits, oldest first, until a replica has
// room for its footprint, or until it has waited long and a resident that has
// been served long reaches the end of a turn. Where everything fits, nothing
// ever waits.
//
// It knows what a gateway sees: the sizes of prompts and answers, what was
// cached of them, when requests begin and end. It is not safe for concurrent
// use, has no clock and no goroutine; the times that it is given do not go back.
//
// After whatever may have made room - an arrival, a first byte, a turn's end, a
// change of a room - call [Admission.Admit] until it returns nil, and once more
// at [Admission.Wake].
type Admission struct {
	cfg  AdmissionConfig
	rule rule

	rooms         []*Room
	conversations map[uint64]*conversation
	ended         []*conversation // that had their last turn end lately
	queue         turnQueue

	sizes     sizes
	gaps      gaps
	waits     waits
	sent      uint64        // turns
	turn      time.Duration // running mean of a turn's time on a replica
	rate      float64       // prefill, computed tokens a second
	wake      time.Time
	fit, near []*Room // scratch
	late      []*Turn // that have waited as long as they may, when last was looked for some
	overdueAt time.Time
}

// NewAdmission returns an Admission without rooms.
func NewAdmission(cfg AdmissionConfig) (*Admission, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	turnover := DefaultTurnover
	if cfg.Turnover != nil {
		turnover = *cfg.Turnover
	}
	cfg.Turnover = &turnover
	if cfg.MaxWait == 0 {
		cfg.MaxWait = DefaultMaxWait
	}
	if cfg.MaxQueue == 0 {
		cfg.MaxQueue = DefaultMaxQueue
	}
	a := &Admission{cfg: cfg, conversations: map[uint64]*conversation{}, rule: ruleOf(turnover), rate: firstRate, gaps: gaps{hold: firstHold, pays: true}}
	return a, nil
}

const (
	// firstRate is the prefill speed until one has been measured.
	firstRate = 2000
	// overbooking is the part of a replica's capacity that may be promised
	// beyond it while next to nobody waits: the engine copes with a little, and
	// a conversation that just does not fit would be held back for nothing.
	overbooking = 0.1
	// atHome is how far the turns in flight may exceed the limit by a resident's
	// turn.
	atHome = 1.1
	// maxCold is how many conversations new to a replica may prefill at a time:
	// the engine always has the next one, and no more. One without a first byte is
	// taken to be done after coldFor times as long as its prefill should last.
	maxCold = 2
	coldFor = 3
	// plenty is the part of a replica's room that is left where it does not matter
	// how many prefill.
	plenty = 0.4
	// longestIdle is how long a resident is remembered that does not come back.
	longestIdle = time.Hour
	// mostSkipped is how many turns are passed over for one that can go.
	mostSkipped = 4096
	// overdueEvery is how often those are looked for that have waited as long as
	// they may.
	overdueEvery = 100 * time.Millisecond
	// maxHold is the longest that an idle resident keeps its room, and how long a
	// conversation may pause before it is taken to have ended.
	maxHold = time.Minute
	// minPatience is the least that a turn waits before it may displace.
	minPatience = 2 * time.Second
	// soon is how long a turn is held for a less loaded replica that will have
	// room as soon as idle residents' claims lapse.
	soon = 250 * time.Millisecond
	// minPrefill is how many computed tokens make a first byte's time say something
	// of the speed of prefill.
	minPrefill = 1000
	// idleWeight is what an idle resident counts for in a replica's load.
	idleWeight = 0.5
)

// Config is the configuration with the defaults filled in.
func (a *Admission) Config() AdmissionConfig { return a.cfg }

// Arrive takes a turn in. It either goes at once, to [Turn.Room], or waits until
// [Admission.Admit] returns it. It is refused, and false returned, if as many as
// may wait do already, unless another tenant's turn has to make way for it: see
// [Admission.PushOut].
func (a *Admission) Arrive(t *Turn, now time.Time) bool {
	t.arrived = now
	if !t.Since.IsZero() && t.Since.Before(now) {
		t.arrived = t.Since
	}
	c := a.conversations[t.Session]
	switch {
	case t.Session == 0:
		t.own = conversation{}
		c = &t.own
	case c == nil:
		c = &conversation{key: t.Session}
		a.conversations[t.Session] = c
	}
	a.takeIn(t, c, now)
	if r := c.room; r != nil {
		if a.mayStay(c, r, t) {
			a.send(t, r, now)
			return true
		}
		if c.inFlight == 0 {
			a.demote(c) // its room was taken while it paused
		}
	}
	if n := a.queue.len(); n > a.cfg.MaxQueue || n == a.cfg.MaxQueue && a.queue.makesWay(t, a.queue.counts.of[t.Tenant]+1) == nil {
		a.leave(t)
		return false
	}
	a.queue.push(t)
	return true
}

// takeIn has a turn be one of a conversation's.
func (a *Admission) takeIn(t *Turn, c *conversation, now time.Time) {
	a.goesOn(c, now.Sub(c.endedAt))
	t.conv = c
	c.turns++
	// An engine refuses what is larger than its cache: the estimate is wrong.
	t.footprint = min(a.sizes.footprint(c, t), max(a.largest(), leastFootprint))
}

// mayStay reports whether a resident's turn can go home at once.
func (a *Admission) mayStay(c *conversation, r *Room, t *Turn) bool {
	if !t.mayUse(r) {
		return false
	}
	if c.inFlight > 0 {
		return true
	}
	firm := float64(a.sizes.shared() + r.firm + max(t.footprint, c.footprint))
	return !a.Bounds(r) || firm <= atHome*r.kappa*float64(a.capacityOf(r)) || firm <= atHome*a.limit(r, t.arrived)
}

// Admit takes the next turn that can go out of the queue, sends it and returns
// it; nil if none can go.
func (a *Admission) Admit(now time.Time) *Turn {
	a.wake = time.Time{}
	if a.queue.len() == 0 {
		return nil
	}
	t, r := a.next(now)
	if r == nil {
		a.wake = now.Add(min(max(a.gaps.hold/2, 20*time.Millisecond), soon))
		return nil
	}
	a.queue.remove(t)
	a.send(t, r, now)
	return t
}

// Wake is when Admit should be called again if nothing happens before; zero if
// there is no such time.
func (a *Admission) Wake() time.Time { return a.wake }

// send sends a turn to a room, whose resident its conversation becomes.
func (a *Admission) send(t *Turn, r *Room, now time.Time) {
	a.waits.add(now.Sub(t.arrived), now)
	a.occupy(t, r, now)
}

// occupy counts a turn in a room.
func (a *Admission) occupy(t *Turn, r *Room, now time.Time) {
	c := t.conv
	t.room, t.began = r, now
	a.sent++
	r.unanswered++
	r.lastSent = a.sent
	if c.room != r {
		a.demote(c)
		t.cold = true
		r.prefilling = append(r.prefilling, t)
		r.settle(c, now)
	}
	t.stay = c.stay
	if c.inFlight == 0 {
		r.resize(c, max(c.footprint, t.footprint))
	} else {
		t.beside = a.sizes.beside(c, t)
	}
	r.start(c, t.beside)
	if over := float64(a.sizes.shared() + r.firm); over > 1.05*r.kappa*float64(a.capacityOf(r)) {
		r.overAt = now
	}
	a.trim(r)
}

// FirstByte notes that the answer of a turn has begun, which is when its prefill
// has ended.
func (a *Admission) FirstByte(t *Turn, now time.Time) {
	if t.room == nil || t.answered {
		return
	}
	t.answers()
	if t.cold {
		t.prefill = now.Sub(t.began)
	}
}

// answers has a turn's prompt be computed.
func (t *Turn) answers() {
	t.answered = true
	t.room.unanswered--
	t.room.prefilled(t)
}

// learnRate takes in how long the prefill of a cold turn took that was served.
func (a *Admission) learnRate(t *Turn, s Served) {
	computed, took := float64(s.Prompt-s.Cached), t.prefill.Seconds()
	if took <= 0 || computed < minPrefill {
		return
	}
	// The fast ones are those that nobody was in the way of, and under load they
	// are few; but one alone may be a mistake.
	rate, share := min(computed/took, 2*a.rate), 0.005
	if rate > a.rate {
		share = 0.2
	}
	a.rate += share * (rate - a.rate)
}

// largest is the largest capacity that is known of a replica, or no bound.
func (a *Admission) largest() int {
	most := 0
	for _, r := range a.rooms {
		if !a.Bounds(r) {
			return math.MaxInt32
		}
		most = max(most, a.capacityOf(r))
	}
	return most
}

// Finish notes the end of a turn that was sent.
func (a *Admission) Finish(t *Turn, s Served, now time.Time) {
	c, r := t.conv, t.room
	if r == nil || c == nil {
		return
	}
	if !t.answered {
		t.answers()
	}
	if c := a.capacityOf(r); s.Prompt < 0 || s.Completion < 0 || s.Cached < 0 || s.Cached > s.Prompt || c > 0 && max(s.Prompt, s.Completion) > most*c {
		s.Known = false // no engine counts that, however much its capacity is misjudged
	}
	resident := c.room == r && c.stay == t.stay
	if s.Known && !s.Failed {
		if a.turn == 0 {
			a.turn = now.Sub(t.began)
		}
		a.turn += time.Duration(0.02 * float64(now.Sub(t.began)-a.turn))
		if s.Measured {
			a.feedBack(t, s, now)
			a.learnRate(t, s)
		}
		a.sizes.learn(c, t, s)
		r.served++
		if resident {
			r.resize(c, a.sizes.kept(c))
		}
	}
	if resident || c.room == nil {
		c.idleAt = now
		if !s.Failed || s.Known { // else nothing of it is there
			c.last = r
		}
	}
	if resident {
		r.stop(c, t.beside)
		if c.inFlight == 0 {
			switch {
			case c.key == 0 || s.Failed && (!t.cold || !s.Known):
				a.demote(c)
			case a.givesUp(c, r, now):
				a.demote(c)
				c.displaced = true
				c.gaveUp++
			}
		}
	}
	if c.turns == 1 {
		c.endedAt, c.failed = now, s.Failed
	}
	a.leave(t)
}

// goesOn notes that a conversation whose last turn has ended has paused for so
// long. What comes after a turn that failed is another attempt at it, and no pause.
func (a *Admission) goesOn(c *conversation, pause time.Duration) {
	if c.turns > 0 || c.endedAt.IsZero() {
		return
	}
	if !c.failed {
		a.gaps.add(pause)
	}
	c.endedAt = time.Time{}
}

// givesUp reports whether a resident whose turn has ended gives its place up to
// the turn that is first in the queue.
func (a *Admission) givesUp(c *conversation, r *Room, now time.Time) bool {
	first := a.queue.first()
	if first == nil || a.rule.displacing == 0 || now.Sub(first.arrived) < a.patience(now) {
		return false
	}
	return now.Sub(c.since) >= a.minStay(c, r, now)
}

// patience is how long a turn waits before a resident may be displaced for it.
func (a *Admission) patience(now time.Time) time.Duration {
	least := float64(max(minPatience, a.turn))
	return time.Duration(min(max(least, a.rule.patience*float64(a.waits.mean(now))), float64(a.cfg.MaxWait)))
}

// minStay bounds the part of a replica's time that displacing costs: with n
// residents that stay s seconds each, one is displaced every s/n seconds, and
// computing it again takes footprint/rate. The part is smaller where that takes
// long compared with a turn, and one that gave its place up before stays longer,
// so that nobody waits over and over.
func (a *Admission) minStay(c *conversation, r *Room, now time.Time) time.Duration {
	again := float64(c.footprint) / a.rate
	if again <= 0 {
		return 0
	}
	part := a.rule.displacing * min(1, max(0.25, a.turn.Seconds()/(4*again)))
	_, n := a.claims(r, now)
	n -= float64(r.turns - r.busy) // those of a conversation's turns that go on beside its first
	return time.Duration(again * max(1, n) / part * (1 + a.rule.again*float64(c.gaveUp)) * float64(time.Second))
}

// Cancel takes a turn that waits out of the queue: its caller is gone.
func (a *Admission) Cancel(t *Turn) {
	if t.queued {
		a.queue.cancel(t)
		a.leave(t)
	}
}

// Release takes a turn that waits out of the queue, whose caller sends it
// otherwise: to its tenant it counts as served.
func (a *Admission) Release(t *Turn) {
	if t.queued {
		a.queue.remove(t)
		a.leave(t)
	}
}

// PushOut takes the turn out of the queue that has to make way for one that
// waits, and returns it: it is refused like one that came too late. It is nil if
// no more than [AdmissionConfig.MaxQueue] wait. Call it after [Admission.Arrive],
// once [Admission.Admit] has returned nil, and Admit again after it: until then
// one turn more than that may wait, and while it does every other is refused.
func (a *Admission) PushOut(t *Turn) *Turn {
	if !t.queued || a.queue.len() <= a.cfg.MaxQueue {
		return nil
	}
	out := a.queue.makesWay(t, a.queue.counts.of[t.Tenant])
	if out != nil {
		a.Cancel(out)
	}
	return out
}

// Queued returns the turns that wait, in their order. None may come or go until
// it is done, but for Avoid they are not to be changed.
func (a *Admission) Queued() iter.Seq[*Turn] { return slices.Values(a.queue.turns) }

// Stranded appends to turns those in the queue that wait for nothing, since no
// replica takes them, in no order.
func (a *Admission) Stranded(turns []*Turn) []*Turn {
	taken := a.Takes(nil)
	for _, t := range a.queue.turns {
		if !taken || len(t.Avoid) > 0 && !a.Takes(t.Avoid) {
			turns = append(turns, t)
		}
	}
	return turns
}

// leave has a turn be over.
func (a *Admission) leave(t *Turn) {
	c := t.conv
	t.conv = nil
	c.turns--
	if !c.endedAt.IsZero() && !c.listed && c.key != 0 {
		c.listed = true
		a.ended = append(a.ended, c)
	}
	a.forget(c)
}

// forget lets go of a conversation that has no turn and no place and is not
// waited for.
func (a *Admission) forget(c *conversation) {
	if c.turns == 0 && c.room == nil && !c.listed {
		delete(a.conversations, c.key)
	}
}

// Waiting is the number of turns in the queue.
func (a *Admission) Waiting() int { return a.queue.len() }

// First is the turn that is to go next, nil if none waits.
func (a *Admission) First() *Turn { return a.queue.first() }

// LongestWait is how long the turn that has waited longest has by now.
func (a *Admission) LongestWait(now time.Time) time.Duration { return a.queue.longest(now) }

// Tick is to be called about once a second: conversations that have paused for
// long are taken to have ended, and how long an idle resident keeps its room is
// derived anew.
func (a *Admission) Tick(now time.Time) {
	kept := a.ended[:0]
	for _, c := range a.ended {
		if c.turns == 0 && !c.endedAt.IsZero() && now.Sub(c.endedAt) <= maxHold {
			kept = append(kept, c)
			continue
		}
		c.listed = false
		a.goesOn(c, math.MaxInt64) // unless it came back, and was refused or gave up
		a.forget(c)
	}
	clear(a.ended[len(kept):])
	a.ended = kept
	capacity := 0
	for _, r := range a.rooms {
		if a.queue.len() > 0 {
			a.tryMore(r, now)
		}
		a.forgetIdle(r, now)
		capacity = max(capacity, a.capacityOf(r))
	}
	a.gaps.derive(float64(capacity) / a.rate)
}
