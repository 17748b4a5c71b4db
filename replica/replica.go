// Package replica holds what is known of the servers themselves: where they
// are, which data-parallel ranks they have, how many requests this process has
// in flight on each, and whether they can be reached.
//
// It never sends a request and never chooses between replicas.
package replica

import (
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// RankHeader is the request header by which vLLM lets a client choose the
// data-parallel rank (read since 0.11.1, honoured since 0.14.0).
const RankHeader = "X-Data-Parallel-Rank"

// NoRank is the rank of a replica that is addressed without a rank header.
const NoRank = -1

// State says whether a replica takes requests.
type State string

// The states of a replica.
const (
	Up       State = "up"       // takes requests
	Suspect  State = "suspect"  // serves its conversations, takes new ones if no other can: see Finding
	Draining State = "draining" // takes no new conversations; serves those it has unless a Finding moves them
	Down     State = "down"     // could not be reached just now
	Asleep   State = "asleep"   // its engine says that it sleeps
	Wedged   State = "wedged"   // its engine has requests and makes no progress
	Foreign  State = "foreign"  // its engine came back with another model
	Open     State = "open"     // its requests fail: it takes none for now, see Breaker
	Probing  State = "probing"  // was open, takes one request to see
	Held     State = "held"     // asked to be given nothing new for now
	Removed  State = "removed"  // no longer in its set
)

// Replica is one full copy of a model with its own prefix cache: an endpoint,
// or one data-parallel rank behind an endpoint. It is one instance: a replica
// that leaves its set and comes back is another Replica, whose counts start at
// zero. All methods are safe for concurrent use and never block.
type Replica struct {
	server   *server
	name     string
	rank     int
	header   []string
	breaker  *Breaker     // nil: it has its endpoint's alone
	returned atomic.Int64 // Unix ns; 0: never
	inFlight atomic.Int64
	draining atomic.Bool
	removed  atomic.Bool
	finding  atomic.Pointer[Finding] // nil: none
}

// server is what the ranks of one endpoint share.
type server struct {
	endpoint Endpoint
	id       uint64 // another each time an endpoint is added
	ignores  bool   // the rank header; guarded by the set's lock
	drained  bool   // by the last Target that said so; guarded by the set's lock
	url      *url.URL
	name     string       // host:port[/prefix], the port always spelled out
	ranks    atomic.Int32 // 0 while not known
	auth     []string     // value of the Authorization header, nil if none
	health   health
	breaker  Breaker
	returned atomic.Int64 // Unix ns; 0: never
}

func newReplica(s *server, rank int) *Replica {
	r := &Replica{server: s, rank: rank, name: s.name}
	if rank != NoRank {
		digits := strconv.Itoa(rank)
		r.name += "@" + digits
		r.header = []string{digits}
		r.breaker = new(Breaker)
		r.breaker.init(s.breaker.cfg)
	}
	return r
}

// Name is host:port[/prefix], followed by @rank where there is one. It is
// unique within a set.
func (r *Replica) Name() string { return r.name }

// String returns the name.
func (r *Replica) String() string { return r.name }

// URL is the endpoint's base URL. It is shared: do not modify it.
func (r *Replica) URL() *url.URL { return r.server.url }

// Endpoint is the configuration this replica came from.
func (r *Replica) Endpoint() Endpoint { return r.server.endpoint }

// Host is the Host header of requests to the endpoint, empty if it is that of its
// URL.
func (r *Replica) Host() string { return r.server.endpoint.Host }

// Rank is the value for [RankHeader], or [NoRank] when none must be sent. It
// is an index into the engines of the endpoint's own front end, which with
// hybrid load balancing is not the global rank of the engine label.
func (r *Replica) Rank() int { return r.rank }

// RankHeaderValues is the value list for [RankHeader], nil when none must be
// sent. It is shared: do not modify it.
func (r *Replica) RankHeaderValues() []string { return r.header }

// AuthorizationValues is the value list for the Authorization header of requests
// to the endpoint, by its [Endpoint.APIKey]; nil if it has none. It is shared: do
// not modify it, nor show it.
func (r *Replica) AuthorizationValues() []string { return r.server.auth }

// Model is the name of the pool the replica belongs to.
func (r *Replica) Model() string { return r.server.endpoint.Model }

// Is reports whether name means this replica: its own name, or its endpoint's
// name or URL in any spelling.
func (r *Replica) Is(name string) bool {
	return r.name == name || r.server.is(name)
}

// RanksKnown reports whether the number of ranks behind the replica's endpoint
// was configured or has been found.
func (r *Replica) RanksKnown() bool { return r.server.ranks.Load() != 0 }

// SameEndpoint reports whether both replicas are ranks of one endpoint, so
// that what befalls one server befalls both.
func (r *Replica) SameEndpoint(other *Replica) bool { return r.server == other.server }

// InFlight is the number of requests this process has sent to the replica
// that have not finished.
func (r *Replica) InFlight() int { return int(r.inFlight.Load()) }

// Begin counts a request in. Each Begin is paired with one End.
func (r *Replica) Begin() { r.inFlight.Add(1) }

// BeginUnlessAbove counts a request in unless more than limit are in flight,
// and reports whether it did. Check and count are one step.
func (r *Replica) BeginUnlessAbove(limit int) bool {
	for {
		n := r.inFlight.Load()
		if n > int64(limit) {
			return false
		}
		if r.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// End counts a request out.
func (r *Replica) End() { r.inFlight.Add(-1) }

// Reachable reports whether the endpoint could be connected to when that was
// last tried, or may be tried again, and no [Finding] has it Down. It says so of a
// Draining replica too.
func (r *Replica) Reachable(now time.Time) bool { return !r.server.health.down(now) && !r.Found(Down) }

// Removed reports whether the replica has left its set.
func (r *Replica) Removed() bool { return r.removed.Load() }

// Draining reports whether an operator has the replica take no new conversations.
func (r *Replica) Draining() bool { return r.draining.Load() }

// State is the replica's state at now. One that is Draining is shown as that,
// whether it can be reached or not, and one that is Down whatever its breaker
// says.
func (r *Replica) State(now time.Time) State {
	switch {
	case r.removed.Load():
		return Removed
	case r.draining.Load():
		return Draining
	case r.server.health.down(now), r.Found(Down):
		return Down
	case r.Found(Draining):
		return Draining
	}
	switch r.Breaker(now) {
	case BreakerOpen:
		return Open
	case BreakerHalfOpen:
		return Probing
	}
	if r.Held(now) {
		return Held
	}
	return r.Finding().State
}

// Unreachable records that a connection to the replica's endpoint could not be
// made: the endpoint is Down for a second, twice as long after each further
// failure, 30 seconds at most. Then it is tried again.
func (r *Replica) Unreachable(now time.Time) { r.server.health.failed(now) }

// Reached records that the endpoint answered, whatever it said, and reports
// whether it could not be reached before.
func (r *Replica) Reached() (again bool) { return r.server.health.succeeded() }
