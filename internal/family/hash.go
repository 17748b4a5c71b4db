package family

import (
	"encoding/binary"
	"math/bits"
)

// Seed is what hashes are keyed with.
type Seed struct{ a, b, c uint64 }

// NewSeed makes a seed of a number. For hashes that a client cannot aim at the
// number must be random and stay in the process; the same number makes the same
// hashes.
func NewSeed(n uint64) Seed {
	next := func() uint64 { // splitmix64
		n += 0x9e3779b97f4a7c15
		z := (n ^ n>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	return Seed{next(), next(), next()}
}

// start is the hash of nothing, other ones for each domain.
func (s *Seed) start(domain uint64) uint64 { return fold(domain^s.b, s.c) }

// chain returns the hash of what h is of and b after it: by 16 bytes at a time,
// each folded in by the two halves of a 128-bit product of what is secret. How
// the whole was cut into b's counts.
func (s *Seed) chain(h uint64, b []byte) uint64 {
	n := uint64(len(b))
	for len(b) >= 16 {
		h = fold(binary.LittleEndian.Uint64(b)^s.a, binary.LittleEndian.Uint64(b[8:])^h)
		b = b[16:]
	}
	var rest [16]byte
	copy(rest[:], b)
	h = fold(binary.LittleEndian.Uint64(rest[:])^s.a, binary.LittleEndian.Uint64(rest[8:])^h)
	return fold(h^s.b, n^s.a)
}

func fold(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return hi ^ lo
}
