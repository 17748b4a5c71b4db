package replica

import (
	"fmt"
	"net/url"
	"slices"
)

// Target is an endpoint as it is wanted: see [Set.Replace].
type Target struct {
	Endpoint
	// Draining says that the endpoint is to keep the conversations it has and to take
	// no new ones, as [Set.Drain] has it.
	Draining bool `json:"draining,omitempty"`
}

// Change is what [Set.Replace], [Set.SetRanks] or [Set.IgnoresRanks] has changed. An
// endpoint that another took the place of, at the same address, is among both the
// removed and the added ones.
type Change struct {
	Added, Removed   []Endpoint
	Drained, Resumed []Endpoint // of those that were there before
	Ranks            []Endpoint // that have other replicas now, and are there as before

	drained, gone []*Replica
}

// Finish is to be called once: until then the replicas that are removed, and those
// that are to drain, do not say so, in order that whoever keeps a list of the
// replicas that can be used may put those that were added on it first, and is never
// left with none.
func (c *Change) Finish() {
	for _, r := range c.drained {
		r.draining.Store(true)
	}
	for _, r := range c.gone {
		r.removed.Store(true)
	}
}

// Empty reports whether nothing changed.
func (c Change) Empty() bool {
	return len(c.Added)+len(c.Removed)+len(c.Drained)+len(c.Resumed)+len(c.Ranks) == 0
}

// Replace makes the endpoints those of the targets, in one step that readers see
// as a whole. An endpoint that is in the set as the target has it stays, with
// its replicas and ranks; one that is not among the targets is removed as by
// [Set.Remove]; one of which anything but Draining is another is removed, and
// added anew. Draining is applied where it is not what the last target of that
// endpoint said, so that a drain by [Set.Drain] is left alone until then. Call
// [Change.Finish] then, before the next Replace.
//
// Nothing is changed after an error, which is a [*ConfigError] for an endpoint
// that is not usable, or wraps [ErrDuplicate] for two that are the same. No
// targets leave an empty set.
func (s *Set) Replace(targets []Target) (Change, error) {
	urls := make([]*url.URL, len(targets))
	seen := make(map[string]bool, len(targets))
	for i, t := range targets {
		u, err := t.base()
		if err != nil {
			return Change{}, err
		}
		if seen[name(u)] {
			return Change{}, fmt.Errorf("warmroute: URL: %q refused: %w", u, ErrDuplicate)
		}
		seen[name(u)], urls[i] = true, u
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var change Change
	wanted := make(map[*server]bool, len(targets))
	var fresh []*server
	for i, t := range targets {
		t.URL = urls[i].String()
		sv := s.find(name(urls[i]))
		if sv == nil || sv.endpoint != t.Endpoint {
			sv = s.newServer(t.Endpoint, urls[i])
			sv.drained = t.Draining
			fresh = append(fresh, sv)
			change.Added = append(change.Added, t.Endpoint)
			continue
		}
		wanted[sv] = true
		if sv.drained == t.Draining {
			continue
		}
		sv.drained = t.Draining
		for _, r := range s.Replicas() {
			switch {
			case r.server != sv:
			case t.Draining:
				change.drained = append(change.drained, r)
			default:
				r.draining.Store(false)
			}
		}
		if t.Draining {
			change.Drained = append(change.Drained, t.Endpoint)
		} else {
			change.Resumed = append(change.Resumed, t.Endpoint)
		}
	}
	var next []*Replica
	for _, r := range s.Replicas() {
		if wanted[r.server] {
			next = append(next, r)
		} else {
			change.gone = append(change.gone, r)
		}
	}
	for _, sv := range s.servers {
		if !wanted[sv] {
			change.Removed = append(change.Removed, sv.endpoint)
		}
	}
	for _, sv := range fresh {
		made := sv.make(sv.endpoint.Ranks)
		for _, r := range made {
			r.draining.Store(sv.drained)
		}
		next = append(next, made...)
	}
	s.servers = append(slices.DeleteFunc(s.servers, func(sv *server) bool { return !wanted[sv] }), fresh...)
	s.replicas.Store(&next)
	return change, nil
}

// ServerName is the name that the certificate of the endpoint at address,
// host:port, is to be for: the one of [Endpoint.Host], or the host of the address.
func (s *Set) ServerName(address string) string {
	for _, r := range s.Replicas() {
		u := r.server.url
		if host := r.server.endpoint.Host; host != "" && u.Scheme == "https" && hostPort(u) == address {
			return (&url.URL{Host: host}).Hostname()
		}
	}
	return (&url.URL{Host: address}).Hostname()
}

func hostPort(u *url.URL) string { return name(&url.URL{Scheme: u.Scheme, Host: u.Host}) }
