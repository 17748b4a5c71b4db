package replica

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
)

var (
	// ErrDuplicate is returned for an endpoint that is in the set already.
	ErrDuplicate = errors.New("endpoint is configured already")
	// ErrUnknown is returned for a name that is not in the set.
	ErrUnknown = errors.New("no such endpoint or replica")
)

// Set is the replicas of a router, live: endpoints are added, drained and
// removed, and ranks appear, while others read. Readers take an immutable
// snapshot; changes copy it. Safe for concurrent use.
type Set struct {
	breaker  BreakerConfig
	mu       sync.Mutex // serializes changes; never held over I/O
	servers  []*server
	added    uint64 // endpoints ever
	replicas atomic.Pointer[[]*Replica]
}

// NewSet returns the set of the given endpoints, in their order. It returns a
// [*ConfigError] for an endpoint that is not usable, and an error that wraps
// [ErrDuplicate] for two that are the same. An empty set is allowed.
func NewSet(endpoints ...Endpoint) (*Set, error) {
	return NewSetWithBreaker(BreakerConfig{}, endpoints...)
}

// NewSetWithBreaker is [NewSet] for replicas whose breakers are not the default
// ones. It returns a [*ConfigError] for a configuration that is refused.
func NewSetWithBreaker(breaker BreakerConfig, endpoints ...Endpoint) (*Set, error) {
	if err := breaker.Validate(); err != nil {
		return nil, err
	}
	s := &Set{breaker: breaker.withDefaults()}
	s.replicas.Store(new([]*Replica))
	for _, e := range endpoints {
		if err := s.Add(e); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Replicas returns the current snapshot. Do not modify it.
func (s *Set) Replicas() []*Replica { return *s.replicas.Load() }

// Added is an endpoint in a set.
type Added struct {
	Endpoint
	// ID is another each time an endpoint is added, so that one that left and
	// came back is seen to be new.
	ID uint64
}

// Endpoints returns the endpoints in order of arrival.
func (s *Set) Endpoints() []Added {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Added, len(s.servers))
	for i, sv := range s.servers {
		out[i] = Added{sv.endpoint, sv.id}
	}
	return out
}

// Add adds an endpoint with its ranks, or as one replica without a rank while
// their number is not known. Errors are those of [NewSet].
func (s *Set) Add(e Endpoint) error {
	u, err := e.base()
	if err != nil {
		return err
	}
	e.URL = u.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.find(name(u)) != nil {
		return fmt.Errorf("warmroute: URL: %q refused: %w", e.URL, ErrDuplicate)
	}
	sv := s.newServer(e, u)
	s.servers = append(s.servers, sv)
	next := slices.Clone(s.Replicas())
	next = append(next, sv.make(e.Ranks)...)
	s.replicas.Store(&next)
	return nil
}

// newServer needs the lock.
func (s *Set) newServer(e Endpoint, u *url.URL) *server {
	s.added++
	sv := &server{endpoint: e, id: s.added, url: u, name: name(u), auth: e.authorization()}
	sv.breaker.init(s.breaker)
	sv.ranks.Store(int32(e.Ranks))
	return sv
}

// make builds the replicas of a server. A single rank is addressed without the
// header, as a server with one engine refuses every rank but 0.
func (sv *server) make(ranks int) []*Replica {
	if ranks <= 1 {
		return []*Replica{newReplica(sv, NoRank)}
	}
	out := make([]*Replica, ranks)
	for rank := range out {
		out[rank] = newReplica(sv, rank)
	}
	return out
}

// SetRanks tells the set how many ranks were found behind an endpoint. Ranks that
// were there before keep their instance. An endpoint whose ranks were configured is
// left as it is. If the change is not empty, call [Change.Finish] then.
func (s *Set) SetRanks(endpoint string, ranks int) (Change, error) {
	if ranks < 1 || ranks > MaxRanks {
		return Change{}, ranksError(fmt.Sprint(ranks))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sv := s.lookup(endpoint)
	if sv == nil {
		return Change{}, fmt.Errorf("warmroute: endpoint %q: %w", redacted(endpoint), ErrUnknown)
	}
	before := int(sv.ranks.Load())
	if sv.endpoint.Ranks != 0 || before == ranks {
		return Change{}, nil
	}
	sv.ranks.Store(int32(ranks))
	if before <= 1 && ranks == 1 {
		return Change{}, nil
	}
	if sv.ignores {
		return Change{}, nil
	}
	return s.replace(sv, ranks), nil
}

// replace gives an endpoint so many ranks. Those that were there before keep
// their instance; the lock is held.
func (s *Set) replace(sv *server, ranks int) Change {
	change := Change{Ranks: []Endpoint{sv.endpoint}}
	fresh := sv.make(ranks)
	for _, r := range fresh {
		r.draining.Store(s.drained(sv))
	}
	var next []*Replica
	placed := false
	for _, r := range s.Replicas() {
		if r.server != sv {
			next = append(next, r)
			continue
		}
		if !placed {
			next = append(next, fresh...)
			placed = true
		}
		if i := slices.IndexFunc(next, func(n *Replica) bool { return n.server == sv && n.rank == r.rank }); i >= 0 {
			next[i] = r
		} else {
			change.gone = append(change.gone, r)
		}
	}
	s.replicas.Store(&next)
	return change
}

// IgnoresRanks tells the set that an endpoint does not honour the rank header,
// so that its ranks cannot be told apart: it becomes one replica without a
// rank, whatever its ranks were. Off, it is as it was before. If the change is not
// empty, call [Change.Finish] then.
func (s *Set) IgnoresRanks(endpoint string, on bool) (Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sv := s.lookup(endpoint)
	if sv == nil {
		return Change{}, fmt.Errorf("warmroute: endpoint %q: %w", redacted(endpoint), ErrUnknown)
	}
	if sv.ignores == on {
		return Change{}, nil
	}
	sv.ignores = on
	ranks := int(sv.ranks.Load())
	if ranks <= 1 {
		return Change{}, nil
	}
	if on {
		ranks = 1
	}
	return s.replace(sv, ranks), nil
}

// Remove removes an endpoint with all its ranks. Requests in flight on them go
// on; the replicas' state becomes Removed.
func (s *Set) Remove(endpoint string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sv := s.lookup(endpoint)
	if sv == nil {
		return fmt.Errorf("warmroute: endpoint %q: %w", redacted(endpoint), ErrUnknown)
	}
	s.servers = slices.DeleteFunc(s.servers, func(o *server) bool { return o == sv })
	var next []*Replica
	for _, r := range s.Replicas() {
		if r.server == sv {
			r.removed.Store(true)
		} else {
			next = append(next, r)
		}
	}
	s.replicas.Store(&next)
	return nil
}

// Drain marks a replica, by its name, or all replicas of an endpoint, by its
// URL, as Draining: it keeps its conversations and takes no new ones.
func (s *Set) Drain(name string) error { return s.drain(name, true) }

// Resume ends a drain.
func (s *Set) Resume(name string) error { return s.drain(name, false) }

func (s *Set) drain(name string, on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sv := s.lookup(name)
	found := false
	for _, r := range s.Replicas() {
		if r.name == name || sv != nil && r.server == sv {
			r.draining.Store(on)
			found = true
		}
	}
	if !found {
		return fmt.Errorf("warmroute: replica %q: %w", redacted(name), ErrUnknown)
	}
	return nil
}

// drained reports whether every replica of a server is draining.
func (s *Set) drained(sv *server) bool {
	for _, r := range s.Replicas() {
		if r.server == sv && !r.draining.Load() {
			return false
		}
	}
	return true
}

// lookup finds an endpoint by any spelling of its URL, or by the name that its
// replicas have before the @.
func (s *Set) lookup(endpoint string) *server {
	for _, sv := range s.servers {
		if sv.is(endpoint) {
			return sv
		}
	}
	return nil
}

// is reports whether the endpoint is meant by a name or URL.
func (sv *server) is(endpoint string) bool {
	if u, err := (Endpoint{URL: endpoint}).base(); err == nil {
		return sv.name == name(u)
	}
	return sv.name == endpoint
}

func (s *Set) find(name string) *server {
	for _, sv := range s.servers {
		if sv.name == name {
			return sv
		}
	}
	return nil
}
