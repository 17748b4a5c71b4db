package affinity

import "math/bits"

// index finds a shard's sessions by key. It is a hash table of its own since a
// Go map of pointers by hash takes some 26 bytes an entry beside the session and
// three cache lines a look-up, and this takes 11 and one.
//
// A bucket is a cache line: seven sessions, a tag of the hash for each, and a
// count of those that found the bucket full and went on to the next. Keys whose
// hashes are equal are told apart by themselves.
type index[H any] struct {
	buckets []bucket[H]
	n       int
}

const bucketSlots = 7

type bucket[H any] struct {
	// meta has a byte for each slot, 0 or the tag, and in its last byte how many
	// sessions that belong here or before went past; 255 is that or more, for
	// good.
	meta     uint64
	sessions [bucketSlots]*Session[H]
}

const (
	eachSlot = 0x0001_0101_0101_0101 // times a byte: that byte in each slot
	slotUsed = 0x80 * eachSlot
	passed   = 1 << 56
)

// tagOf is seven bits of the hash that neither the shard nor the bucket is
// chosen by, and one that marks a slot as used.
func tagOf(hash uint64) uint64 { return hash>>8&0x7f | 0x80 }

// first is the bucket that a hash belongs to. Any number of buckets will do.
func (x *index[H]) first(hash uint64) int {
	hi, _ := bits.Mul64(hash, uint64(len(x.buckets)))
	return int(hi)
}

func (x *index[H]) after(i int) int {
	if i++; i == len(x.buckets) {
		return 0
	}
	return i
}

func (x *index[H]) find(key string, hash uint64) *Session[H] {
	if x.n == 0 {
		return nil
	}
	tags := tagOf(hash) * eachSlot
	i := x.first(hash)
	for range x.buckets { // once around: every one may have been gone past
		b := &x.buckets[i]
		differ := b.meta ^ tags
		// A byte that is zero has its top bit set here. So may the one above it,
		// falsely: the key decides.
		for same := (differ - eachSlot) & ^differ & slotUsed; same != 0; same &= same - 1 {
			if s := b.sessions[bits.TrailingZeros64(same)/8]; s != nil && s.key == key {
				return s
			}
		}
		if b.meta < passed {
			return nil
		}
		i = x.after(i)
	}
	return nil
}

// insert adds a session that is not there yet. rehash gives the hash of a key.
func (x *index[H]) insert(s *Session[H], hash uint64, rehash func(string) uint64) {
	if x.n >= len(x.buckets)*(bucketSlots-1) {
		x.resize(max(2, len(x.buckets)*3/2), rehash)
	}
	x.put(s, hash)
}

func (x *index[H]) put(s *Session[H], hash uint64) {
	x.n++
	for i := x.first(hash); ; i = x.after(i) {
		b := &x.buckets[i]
		if free := ^b.meta & slotUsed; free != 0 {
			j := bits.TrailingZeros64(free) / 8
			b.sessions[j] = s
			b.meta |= tagOf(hash) << (8 * j)
			return
		}
		if b.meta>>56 != 0xff {
			b.meta += passed
		}
	}
}

// remove removes a session that is there.
func (x *index[H]) remove(s *Session[H], hash uint64) {
	x.n--
	for i := x.first(hash); ; i = x.after(i) {
		b := &x.buckets[i]
		for j := range b.sessions {
			if b.sessions[j] == s {
				b.sessions[j] = nil
				b.meta &^= 0xff << (8 * j)
				return
			}
		}
		if b.meta>>56 != 0xff {
			b.meta -= passed
		}
	}
}

// shrink gives back the memory of an index that has lost most of its sessions.
func (x *index[H]) shrink(rehash func(string) uint64) {
	const small = 16
	if len(x.buckets) > small && x.n < len(x.buckets)*bucketSlots/4 {
		x.resize(max(2, x.n/4), rehash)
	}
}

func (x *index[H]) resize(buckets int, rehash func(string) uint64) {
	old := x.buckets
	x.buckets, x.n = make([]bucket[H], buckets), 0
	for i := range old {
		for _, s := range old[i].sessions {
			if s != nil {
				x.put(s, rehash(s.key))
			}
		}
	}
}
