package warmroute

import (
	"math/bits"
	"math/rand/v2"
)

// WithHashSeed has pickers know conversations by the same hashes in every router
// that is given the same seed, so that several gateways whose pickers hash
// conversations to replicas ([balance.Rendezvous]) agree, and a simulation can be
// repeated. Clients that know the seed can choose keys that all go to one replica:
// keep it secret. By default each router has a random one.
func WithHashSeed(seed uint64) Option {
	return option(func(c *config) { c.hashSeed = &seed })
}

// keyHasher hashes session keys for pickers: SipHash-1-3, keyed so that nobody
// can choose keys by their hashes.
type keyHasher struct{ k0, k1 uint64 }

// newKeyHasher has a random key if there is no seed.
func newKeyHasher(seed *uint64) keyHasher {
	if seed == nil {
		return keyHasher{rand.Uint64(), rand.Uint64()}
	}
	return keyHasher{*seed, bits.RotateLeft64(*seed, 32) ^ 0x9e3779b97f4a7c15}
}

// hash is never 0.
func (h keyHasher) hash(key string) uint64 {
	s := sip{h.k0 ^ 0x736f6d6570736575, h.k1 ^ 0x646f72616e646f6d, h.k0 ^ 0x6c7967656e657261, h.k1 ^ 0x7465646279746573}
	n := len(key)
	for ; len(key) >= 8; key = key[8:] {
		s.add(word(key[:8]))
	}
	s.add(word(key) | uint64(n)<<56)
	s.v2 ^= 0xff
	for range 3 {
		s.round()
	}
	return max(1, s.v0^s.v1^s.v2^s.v3)
}

// word is up to eight bytes, the first one the lowest.
func word(b string) (w uint64) {
	for i := range len(b) {
		w |= uint64(b[i]) << (8 * i)
	}
	return w
}

// sip is the state of SipHash (Aumasson and Bernstein, 2012).
type sip struct{ v0, v1, v2, v3 uint64 }

func (s *sip) add(m uint64) {
	s.v3 ^= m
	s.round()
	s.v0 ^= m
}

func (s *sip) round() {
	s.v0 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v0 = bits.RotateLeft64(s.v0, 32)
	s.v2 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v0 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v2 = bits.RotateLeft64(s.v2, 32)
}
