package balance

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Room is what an [Admission] knows of one replica. Make one with
// [Admission.Join].
type Room struct {
	// Open says that the replica takes turns: it can be reached and is not asleep.
	// The caller keeps it up to date, as the next two.
	Open bool
	// Draining says that it takes no new residents.
	Draining bool
	// Others is the number of requests that others than this process have on the
	// replica, as far as is known.
	Others float64

	capacity  int // tokens, 0 if unknown
	exact     bool
	kappa     float64
	kappaAt   time.Time // when it was last changed by much
	found     int       // residents' turns that found their caches since kappa was raised
	ceiling   float64
	ceilingAt time.Time
	overAt    time.Time // when last more was in flight than the cache is believed to hold

	idle       residentList // residents with no turn in flight, longest idle first
	busy       int          // residents with a turn in flight
	turns      int          // of theirs in flight
	firm       int          // their footprints, and what turns beside their first ones add
	total      int          // footprints of all residents
	served     int          // turns
	prefilling []*Turn      // of new residents, without a first byte yet
	unanswered int          // turns without a first byte, all of them
	claimed    bool         // by a turn that waits: scratch
	lastSent   uint64       // the number of its last turn, of all that were sent
	load       float64      // when a place was last looked for: scratch
}

// SetCapacity says how many tokens the replica's KV cache holds, 0 if that is
// not known: then it is taken to hold as many as the smallest of those that are
// known, until what is found in it says otherwise. exact says that it is the
// engine's own figure, and not derived from something else: a little more is then
// never tried.
func (r *Room) SetCapacity(tokens int, exact bool) {
	if r.capacity == 0 && tokens > 0 {
		r.kappa = 1 // was of a guess
	}
	r.capacity, r.exact = tokens, exact
}

// Residents is the number of conversations that have their place here.
func (r *Room) Residents() int { return r.busy + r.idle.n }

// rests reports whether a room is to be taken before one that is as free: it has
// fewer residents, or as many and was sent its last turn before that.
func (r *Room) rests(other *Room) bool {
	return cmp.Or(cmp.Compare(r.Residents(), other.Residents()), cmp.Compare(r.lastSent, other.lastSent)) < 0
}

// conversation is what an Admission remembers of one.
type conversation struct {
	key      uint64
	turns    int // waiting or in flight
	endedAt  time.Time
	failed   bool // the turn that ended then
	listed   bool // among Admission.ended
	estimate int  // of the last prompt that was measured, as its turn gave it
	prompt   int  // tokens of the last turn, 0 before its end
	answer   int

	gaveUp    int   // how often it gave its place up to one that waited
	displaced bool  // it lost its place, and so its cache, to others
	last      *Room // where its last turn was
	idleAt    time.Time

	room       *Room // whose resident it is
	stay       int   // how many places it has had
	since      time.Time
	footprint  int // tokens it takes up there
	inFlight   int // turns there
	beside     int // tokens that they add, but for the first
	prev, next *conversation
}

// residentList is a list of idle residents by the time of their last turn.
type residentList struct {
	first, end *conversation
	n          int
}

func (l *residentList) push(c *conversation) {
	c.prev, c.next = l.end, nil
	if l.end == nil {
		l.first = c
	} else {
		l.end.next = c
	}
	l.end = c
	l.n++
}

func (l *residentList) remove(c *conversation) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.end = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	l.n--
}

// settle makes a conversation that has no place an idle resident.
func (r *Room) settle(c *conversation, now time.Time) {
	c.room, c.since, c.displaced = r, now, false
	c.stay++
	c.footprint = 0
	r.idle.push(c)
}

func (r *Room) resize(c *conversation, footprint int) {
	r.total += footprint - c.footprint
	if c.inFlight > 0 {
		r.firm += footprint - c.footprint
	}
	c.footprint = footprint
}

// start and stop count a resident's turns, and the tokens that one adds beside
// others of its conversation.
func (r *Room) start(c *conversation, beside int) {
	r.turns++
	r.addBeside(c, beside)
	if c.inFlight++; c.inFlight == 1 {
		r.idle.remove(c)
		r.busy++
		r.firm += c.footprint
	}
}

func (r *Room) stop(c *conversation, beside int) {
	r.turns--
	r.addBeside(c, -beside)
	if c.inFlight--; c.inFlight == 0 {
		r.busy--
		r.firm -= c.footprint
		r.idle.push(c)
	}
}

func (r *Room) addBeside(c *conversation, tokens int) {
	c.beside += tokens
	r.firm += tokens
	r.total += tokens
}

// demote takes a conversation's place away.
func (a *Admission) demote(c *conversation) {
	r := c.room
	if r == nil {
		return
	}
	r.turns -= c.inFlight
	r.addBeside(c, -c.beside)
	r.total -= c.footprint
	if c.inFlight > 0 {
		r.busy--
		r.firm -= c.footprint
	} else {
		r.idle.remove(c)
	}
	c.room, c.inFlight = nil, 0
	c.stay++
	a.forget(c)
}

// claims is the number of tokens that residents in flight take up, and those
// that are idle for less than hold as far as they are likely to come back; and
// the load that they, all that are likely to come back, and others are.
func (a *Admission) claims(r *Room, now time.Time) (tokens int, load float64) {
	idle := 0.0
	load = float64(r.turns) + r.Others
	for c := r.idle.end; c != nil; c = c.prev {
		paused := now.Sub(c.idleAt)
		returns := a.gaps.returns(paused)
		if returns == 0 || paused > maxHold {
			break
		}
		if paused < a.gaps.hold {
			idle += returns * float64(c.footprint)
		}
		load += idleWeight * returns
	}
	return r.firm + int(idle), load
}

// trim takes the places of those whose KV the engine must have evicted: the
// longest idle, as its cache does.
func (a *Admission) trim(r *Room) {
	capacity := a.capacityOf(r)
	for capacity > 0 && a.sizes.shared()+r.total > capacity && r.idle.first != nil {
		c := r.idle.first
		a.demote(c)
		c.displaced = true
	}
}

// Bounds reports whether the capacity of a replica is known, or another's that it
// is taken to have as well.
func (a *Admission) Bounds(r *Room) bool { return a.capacityOf(r) > 0 }

// forgetIdle takes the places of those that have been idle for very long, or for
// long where no capacity bounds their number.
func (a *Admission) forgetIdle(r *Room, now time.Time) {
	longest := longestIdle
	if !a.Bounds(r) {
		longest = maxHold
	}
	for c := r.idle.first; c != nil && now.Sub(c.idleAt) > longest; c = r.idle.first {
		a.demote(c)
	}
}

// capacityOf is the capacity of a replica in tokens, 0 if none is known. One that
// has not told its own yet would otherwise be sent the whole queue when it comes.
func (a *Admission) capacityOf(r *Room) int {
	switch {
	case a.cfg.Capacity > 0:
		return a.cfg.Capacity
	case r.capacity > 0:
		return r.capacity
	}
	least := 0
	for _, other := range a.rooms {
		if c := other.capacity; c > 0 && (least == 0 || c < least) {
			least = c
		}
	}
	return least
}

// limit is the number of tokens that residents may take up: a little more than
// there is while next to nobody waits.
func (a *Admission) limit(r *Room, now time.Time) float64 {
	over := overbooking * max(0, 1-a.waits.mean(now).Seconds()/2)
	return (r.kappa + over) * float64(a.capacityOf(r))
}

// Join adds a replica. It is open.
func (a *Admission) Join() *Room {
	r := &Room{Open: true, kappa: 1}
	a.rooms = append(a.rooms, r)
	return r
}

// Leave removes a replica. Turns that it has are finished as usual.
func (a *Admission) Leave(r *Room) {
	a.Evict(r)
	a.rooms = slices.DeleteFunc(a.rooms, func(x *Room) bool { return x == r })
}

// Takes reports whether a replica is open that is not among those to avoid.
func (a *Admission) Takes(avoid []*Room) bool {
	for _, r := range a.rooms {
		if r.Open && !r.Draining && !slices.Contains(avoid, r) {
			return true
		}
	}
	return false
}

// Place is the replica that a conversation has its place on, nil if it has none.
func (a *Admission) Place(session uint64) *Room {
	if c := a.conversations[session]; c != nil {
		return c.room
	}
	return nil
}

// Evict takes the places of all residents of a replica: its cache is lost, or it
// is not to have them any more.
func (a *Admission) Evict(r *Room) {
	for _, c := range a.conversations {
		if c.last == r {
			c.last = nil
		}
		if c.room == r {
			a.demote(c)
		}
	}
}

func (t *Turn) mayUse(r *Room) bool { return r.Open && !slices.Contains(t.Avoid, r) }

// mayEnter is mayUse for a room that the turn's conversation has no place in.
func (t *Turn) mayEnter(r *Room) bool { return (!r.Draining || r == t.Home) && t.mayUse(r) }

// place picks the replica for a turn whose conversation has no place: where it
// was last, if that has room and its cache was not lost; else one of those with
// room.
func (a *Admission) place(t *Turn, now time.Time) *Room {
	if r := t.conv.room; r != nil && t.mayUse(r) {
		return r // another turn of the conversation was sent there meanwhile
	}
	last := t.conv.last
	if last == nil {
		last = t.Home
	}
	var best, least *Room
	var bestLoad, bestSpace, leastLoad float64
	soonest, lastLoad := math.Inf(1), math.Inf(1)
	lastFits := false
	shared := a.sizes.shared()
	a.fit = a.fit[:0]
	for _, r := range a.rooms {
		if !t.mayEnter(r) || r.claimed {
			continue
		}
		tokens, load := a.claims(r, now)
		r.load = load
		if least == nil || load < leastLoad {
			least, leastLoad = r, load
		}
		if r == last {
			lastLoad = load
		}
		limit := a.limit(r, now)
		space := limit - float64(shared+tokens)
		short := a.Bounds(r) && space-float64(t.footprint) < plenty*limit
		if short && a.cold(r, now) >= maxCold {
			continue
		}
		if limit-float64(shared+r.firm) >= float64(t.footprint) {
			soonest = min(soonest, load)
		}
		// One that is larger than the limit goes where nobody is in its way.
		alone := r.busy == 0 && tokens == 0
		if space < float64(t.footprint) && !alone && a.Bounds(r) {
			continue
		}
		if r == last && !t.conv.displaced && !t.Lost {
			return r
		}
		a.fit = append(a.fit, r)
		lastFits = lastFits || r == last
		if best == nil || load < bestLoad-0.05 ||
			load < bestLoad+0.05 && (space > bestSpace || space == bestSpace && r.rests(best)) {
			best, bestLoad, bestSpace = r, load, space
		}
	}
	if best == nil {
		if r := a.placeYielding(t, last, now); r != nil {
			return r
		}
	}
	switch {
	case best == nil && !a.gaps.pays && lastLoad <= leastLoad+1:
		return last
	case best == nil && !a.gaps.pays:
		return least
	case best == nil || soonest < bestLoad-0.4 && now.Sub(t.arrived) < soon:
		return nil // a less loaded one is about to have room
	case a.cfg.Choose != nil:
		return a.cfg.Choose(t, a.fit, now)
	case lastFits && lastLoad < bestLoad+0.3:
		return last // something may be left
	case a.cfg.Prefer != nil:
		return a.prefer(t, best, now)
	}
	return best
}

// placeAnyway picks the replica with the least load, room or none.
func (a *Admission) placeAnyway(t *Turn, now time.Time) *Room {
	if r := t.conv.room; r != nil && t.mayUse(r) {
		return r
	}
	return a.leastLoaded(t, now)
}

// leastLoaded is the replica with the least load of those that a turn may go to,
// nil if there is none.
func (a *Admission) leastLoaded(t *Turn, now time.Time) (least *Room) {
	var leastLoad float64
	for _, r := range a.rooms {
		if !t.mayEnter(r) {
			continue
		}
		if _, load := a.claims(r, now); least == nil || load < leastLoad {
			least, leastLoad = r, load
		}
	}
	return least
}

// computed is the number of tokens of a cold turn that its replica has to
// prefill.
func (a *Admission) computed(t *Turn) float64 {
	return float64(max(0, a.sizes.prompt(t.conv, t)-a.sizes.shared()))
}

// cold is the number of conversations new to a replica that prefill there. Small
// prompts are no matter.
func (a *Admission) cold(r *Room, now time.Time) (n int) {
	for _, t := range r.prefilling {
		if computed := a.computed(t); computed >= minPrefill && now.Sub(t.began).Seconds() < coldFor*computed/a.rate {
			n++
		}
	}
	return n
}

func (r *Room) prefilled(t *Turn) {
	if i := slices.Index(r.prefilling, t); i >= 0 {
		r.prefilling = slices.Delete(r.prefilling, i, i+1)
	}
}

// feedBack corrects what a replica's cache is believed to hold by what was found
// in it.
func (a *Admission) feedBack(t *Turn, s Served, now time.Time) {
	const (
		step  = 5 * time.Second
		found = 0.75
		least = 0.3
	)
	c, r := t.conv, t.room
	capacity := float64(a.capacityOf(r))
	if capacity == 0 || c.prompt == 0 || c.last != r || s.Prompt < c.prompt {
		return // nothing was there, or the client rewrote its context
	}
	if float64(s.Cached) >= found*float64(c.prompt) {
		if !t.cold {
			r.found++
			if r.kappa < 1 {
				r.kappa = min(1, r.kappa+0.002)
			}
		}
		return
	}
	// A resident was promised its room, unless more was in flight here than the
	// cache is believed to hold.
	if t.cold || r.overAt.After(c.idleAt) || now.Sub(r.kappaAt) < step {
		return
	}
	r.found = 0
	r.ceiling, r.ceilingAt = r.kappa-2*probe, now
	kappa := 0.95 * r.kappa
	if r.kappa > 1 {
		kappa = min(kappa, r.ceiling) // what was tried was too much
	} // else the client may as well have changed what it sent before
	r.kappa, r.kappaAt = max(least, kappa), now
}

const (
	probe = 0.05
	most  = 3
)

// tryMore promises a little more room while turns wait and residents find their
// caches, up to where they last did not; in larger steps until they first do not.
func (a *Admission) tryMore(r *Room, now time.Time) {
	const enough = 5 // residents' turns
	if a.cfg.Capacity == 0 && r.exact || r.found < enough {
		return
	}
	step := probe
	if r.ceilingAt.IsZero() {
		step = 2 * probe
	}
	if now.Sub(r.ceilingAt) > 10*time.Minute || r.kappa+step <= r.ceiling {
		r.kappa = min(most, r.kappa+step)
		r.found = 0
	}
}
