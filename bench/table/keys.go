package table

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

// KeyLen is the length of a key, that of a UUID.
const KeyLen = 36

// Keys are session keys in the form of a UUID, end to end in one string: key i
// is a part of it, so that taking one touches nothing but its own bytes.
type Keys string

// NewKeys returns n keys, all different, the same ones for the same seed.
func NewKeys(n int, seed uint64) Keys {
	rnd := rand.New(rand.NewPCG(seed, 0))
	all := make([]byte, 0, n*KeyLen)
	for range n {
		var id [16]byte
		binary.BigEndian.PutUint64(id[:8], rnd.Uint64())
		binary.BigEndian.PutUint64(id[8:], rnd.Uint64())
		for i, part := range [][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
			if i > 0 {
				all = append(all, '-')
			}
			all = hex.AppendEncode(all, part)
		}
	}
	return Keys(all)
}

// Clone returns the same keys in other bytes. A key that was looked up by the
// very string that the table holds would be found equal without a look at its
// bytes, and no request's key is.
func (k Keys) Clone() Keys { return Keys(strings.Clone(string(k))) }

// Len is the number of keys.
func (k Keys) Len() int { return len(k) / KeyLen }

// At returns key i.
func (k Keys) At(i int) string { return string(k[i*KeyLen : (i+1)*KeyLen]) }
