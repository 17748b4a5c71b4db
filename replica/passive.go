package replica

import "time"

// maxHeld is the longest that an endpoint is left out because it asked for that:
// one that asks for hours is asked again all the same.
const maxHeld = 30 * time.Second

// Passage is a request as the breakers of its replica know it, from
// [Replica.Admit] to its result. The zero Passage is one that they do not know.
type Passage struct {
	own, shared Pass // of the rank, and of the endpoint
	known       bool
}

// Probe reports whether the request is one of the probes of a half-open breaker.
func (p Passage) Probe() bool { return p.own.probe || p.shared.probe }

// breakers of a replica: that of its endpoint, and of its rank if it is one.
// What befalls the endpoint befalls all its ranks, so that they share the
// evidence; what befalls one rank says nothing of the others.
func (r *Replica) breakers() (own, shared *Breaker) { return r.breaker, &r.server.breaker }

// Allows reports whether the breakers of the replica and of its endpoint let a
// request through now.
func (r *Replica) Allows(now time.Time) bool {
	own, shared := r.breakers()
	return shared.Allows(now) && (own == nil || own.Allows(now))
}

// Admit counts a request in with the breakers. ok is what [Replica.Allows] would
// say, in the same step; the request may be sent in any case. Its result is to be
// told by one of [Replica.Succeeded], [Replica.Failed] and [Replica.Released].
func (r *Replica) Admit(now time.Time) (p Passage, ok bool) {
	own, shared := r.breakers()
	p.known = true
	p.shared, ok = shared.Begin(now)
	if own == nil {
		return p, ok
	}
	var allowed bool
	p.own, allowed = own.Begin(now)
	switch {
	case ok && !allowed:
		shared.Released(p.shared) // no probe of one breaker is held up by the other
		p.shared.probe = false
	case !ok && allowed:
		own.Released(p.own)
		p.own.probe = false
	}
	return p, ok && allowed
}

// Succeeded notes that a request was answered, or has shown that it will be. It
// reports whether that has closed a breaker.
func (r *Replica) Succeeded(p Passage, now time.Time) (closed bool) {
	if !p.known {
		return false
	}
	own, shared := r.breakers()
	if shared.Succeeded(p.shared, now) {
		closed = true
		r.MarkEndpointReturned(now)
	}
	if own != nil && own.Succeeded(p.own, now) {
		closed = true
		r.MarkReturned(now)
	}
	return closed
}

// Failure says what a failed request says of its replica.
type Failure int

const (
	// OwnFailure is the replica's: what it was sent came to nothing.
	OwnFailure Failure = iota
	// EndpointFailure is the whole endpoint's: it could not be reached, or
	// refuses all requests just now. It is never held against one of its ranks
	// alone.
	EndpointFailure
	// PossibleFailure is the replica's or the request's own: see
	// [Breaker.FailedPerhaps].
	PossibleFailure
)

// Failed notes that a request failed. It reports whether that has opened a
// breaker, for the first time or again.
func (r *Replica) Failed(p Passage, failure Failure, now time.Time) (opened bool) {
	if !p.known {
		return false
	}
	own, shared := r.breakers()
	hit, pass, other, otherPass := own, p.own, shared, p.shared
	if own == nil || failure == EndpointFailure {
		hit, pass, other, otherPass = shared, p.shared, own, p.own
	}
	if other != nil {
		other.Released(otherPass)
	}
	if failure == PossibleFailure {
		return hit.FailedPerhaps(pass, now)
	}
	return hit.Failed(pass, now)
}

// Released notes that a request has ended without saying anything of the
// replica.
func (r *Replica) Released(p Passage) {
	if !p.known {
		return
	}
	own, shared := r.breakers()
	shared.Released(p.shared)
	if own != nil {
		own.Released(p.own)
	}
}

// Breaker is the state of the replica's breaker at now, or of its endpoint's if
// that is less closed.
func (r *Replica) Breaker(now time.Time) BreakerState {
	own, shared := r.breakers()
	s := shared.State(now)
	if own != nil {
		s = max(s, own.State(now))
	}
	return s
}

// BreakerOpens is how often the breakers of the replica and of its endpoint have
// opened.
func (r *Replica) BreakerOpens() uint64 {
	own, shared := r.breakers()
	n := shared.Opens()
	if own != nil {
		n += own.Opens()
	}
	return n
}

// Hold notes that the replica's endpoint has asked to be given nothing new for so
// long, by a 429 or 503 with Retry-After. It is held for 30 seconds at the most,
// and never for less than it was before.
func (r *Replica) Hold(now time.Time, d time.Duration) {
	held := &r.server.health.held
	until := now.Add(min(d, maxHeld)).UnixNano()
	for {
		old := held.Load()
		if until <= old && ahead(old, now, maxHeld) || held.CompareAndSwap(old, until) {
			return
		}
	}
}

// Held reports whether the endpoint is to be given nothing new: see
// [Replica.Hold].
func (r *Replica) Held(now time.Time) bool {
	until := r.server.health.held.Load()
	return ahead(until, now, maxHeld)
}

// Returned is when the replica came back last: a breaker closed, or that was
// marked. It is the zero time if it never was away.
func (r *Replica) Returned() time.Time {
	if ns := max(r.returned.Load(), r.server.returned.Load()); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// MarkReturned notes that the replica is back, and may have little in its cache:
// its engine has restarted.
func (r *Replica) MarkReturned(now time.Time) { r.returned.Store(now.UnixNano()) }

// MarkEndpointReturned is MarkReturned for all ranks of the replica's endpoint,
// those that are found later among them: it has joined, or could be reached again.
func (r *Replica) MarkEndpointReturned(now time.Time) { r.server.returned.Store(now.UnixNano()) }
