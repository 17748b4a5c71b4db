package balance

import "github.com/warmroute/warmroute/replica"

// Rendezvous returns a [Picker] that hashes conversations to replicas: of the
// numbers that a session and the names of the candidates hash to, the highest
// wins. Every process that has the same replicas chooses the same, without a
// table; when a replica leaves only its own conversations move, and when one
// comes only those that it gets.
//
// It does not look at load, so chance alone decides how many conversations a
// replica gets. A request without a session is placed by [LeastLoaded], since
// a hash of nothing would send all of them to one replica
// (vllm-project/router#213).
func Rendezvous() Picker { return new(rendezvous) }

type rendezvous struct {
	names nameHashes
	load  leastLoaded
}

func (p *rendezvous) Pick(req *Request, candidates []Candidate) (int, error) {
	if len(candidates) == 0 {
		return -1, ErrNoCandidate
	}
	if req.Session == 0 {
		return p.load.Pick(req, candidates)
	}
	p.names.update(candidates)
	best, highest := 0, uint64(0)
	for i := range candidates {
		if w := p.names.weight(req.Session, i); w > highest {
			best, highest = i, w
		}
	}
	return best, nil
}

// nameHashes saves hashing every candidate's name on every pick: the slice of
// candidates is mostly that of the pick before.
type nameHashes []struct {
	replica *replica.Replica
	hash    uint64
}

func (h *nameHashes) update(candidates []Candidate) {
	if n := len(candidates); len(*h) < n {
		*h = append(*h, make(nameHashes, n-len(*h))...)
	}
	for i := range candidates {
		entry := &(*h)[i]
		if r := candidates[i].Replica; entry.replica != r {
			entry.replica, entry.hash = r, hashName(r)
		}
	}
}

// weight is the number that the session and the name of candidate i hash to.
func (h nameHashes) weight(session uint64, i int) uint64 { return mix(session ^ h[i].hash) }

// hashName is FNV-1a, then mixed, since names that differ in their last
// character alone have FNV hashes that differ in few bits.
func hashName(r *replica.Replica) uint64 {
	if r == nil {
		return 0
	}
	h := uint64(14695981039346656037)
	for _, b := range []byte(r.Name()) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return mix(h)
}

// mix is the finalizer of SplitMix64: every bit of x affects every bit of the
// result. It is fixed for all time, since several processes must agree.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
