package affinity

import (
	"math/bits"
	"sync/atomic"
)

// index finds a shard's sessions by key. It is a hash table of its own since a
// Go map of pointers by hash takes some 26 bytes an entry beside the session and
// three cache lines a look-up, and this takes 11 and one.
//
// A bucket is a cache line: seven sessions, a tag of the hash for each, and a
// count of those that found the bucket full and went on to the next. Keys whose
// hashes are equal are told apart by themselves.
//
// find needs no lock. What it finds may have been removed meanwhile, and what it
// does not find may have been added: who holds the shard's lock, which the other
// methods need, gets the truth.
type index[H any] struct {
	buckets atomic.Pointer[[]bucket[H]]
	n       int
}

const bucketSlots = 7

type bucket[H any] struct {
	// meta has a byte for each slot, 0 or the tag, and in its last byte how many
	// sessions that belong here or before went past; 255 is that or more, for
	// good.
	meta     atomic.Uint64
	sessions [bucketSlots]atomic.Pointer[Session[H]]
}

const (
	eachSlot = 0x0001_0101_0101_0101 // times a byte: that byte in each slot
	slotUsed = 0x80 * eachSlot
	passed   = 1 << 56
)

// tagOf is seven bits of the hash that neither the shard nor the bucket is
// chosen by, and one that marks a slot as used.
func tagOf(hash uint64) uint64 { return hash>>8&0x7f | 0x80 }

// firstOf is the bucket that a hash belongs to. Any number of buckets will do.
func firstOf[H any](buckets []bucket[H], hash uint64) int {
	hi, _ := bits.Mul64(hash, uint64(len(buckets)))
	return int(hi)
}

func after[H any](buckets []bucket[H], i int) int {
	if i++; i == len(buckets) {
		return 0
	}
	return i
}

// all is the buckets, nil if there are none yet.
func (x *index[H]) all() []bucket[H] {
	if p := x.buckets.Load(); p != nil {
		return *p
	}
	return nil
}

func (x *index[H]) find(key string, hash uint64) *Session[H] {
	buckets := x.all()
	if len(buckets) == 0 {
		return nil
	}
	tags := tagOf(hash) * eachSlot
	i := firstOf(buckets, hash)
	for range buckets { // once around: every one may have been gone past
		b := &buckets[i]
		meta := b.meta.Load()
		differ := meta ^ tags
		// A byte that is zero has its top bit set here. So may the one above it,
		// falsely: the key decides.
		for same := (differ - eachSlot) & ^differ & slotUsed; same != 0; same &= same - 1 {
			if s := b.sessions[bits.TrailingZeros64(same)/8].Load(); s != nil && s.key.equal(key) {
				return s
			}
		}
		if meta < passed {
			return nil
		}
		i = after(buckets, i)
	}
	return nil
}

// insert adds a session that is not there yet. rehash gives the hash of its key.
func (x *index[H]) insert(s *Session[H], hash uint64, rehash func(*Session[H]) uint64) {
	if n := len(x.all()); x.n >= n*(bucketSlots-1) {
		x.resize(max(2, n*3/2), rehash)
	}
	x.n++
	put(x.all(), s, hash)
}

func put[H any](buckets []bucket[H], s *Session[H], hash uint64) {
	for i := firstOf(buckets, hash); ; i = after(buckets, i) {
		b := &buckets[i]
		meta := b.meta.Load()
		if free := ^meta & slotUsed; free != 0 {
			j := bits.TrailingZeros64(free) / 8
			b.sessions[j].Store(s)
			b.meta.Store(meta | tagOf(hash)<<(8*j))
			return
		}
		if meta>>56 != 0xff {
			b.meta.Store(meta + passed)
		}
	}
}

// remove removes a session that is there.
func (x *index[H]) remove(s *Session[H], hash uint64) {
	x.n--
	buckets := x.all()
	for i := firstOf(buckets, hash); ; i = after(buckets, i) {
		b := &buckets[i]
		meta := b.meta.Load()
		for j := range b.sessions {
			if b.sessions[j].Load() == s {
				b.meta.Store(meta &^ (0xff << (8 * j)))
				b.sessions[j].Store(nil)
				return
			}
		}
		if meta>>56 != 0xff {
			b.meta.Store(meta - passed)
		}
	}
}

// shrink gives back the memory of an index that has lost most of its sessions.
func (x *index[H]) shrink(rehash func(*Session[H]) uint64) {
	const small = 16
	if n := len(x.all()); n > small && x.n < n*bucketSlots/4 {
		x.resize(max(2, x.n/4), rehash)
	}
}

func (x *index[H]) resize(n int, rehash func(*Session[H]) uint64) {
	old, buckets := x.all(), make([]bucket[H], n)
	for i := range old {
		for j := range old[i].sessions {
			if s := old[i].sessions[j].Load(); s != nil {
				put(buckets, s, rehash(s))
			}
		}
	}
	x.buckets.Store(&buckets)
}
