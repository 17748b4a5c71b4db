package warmroute

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The expected values are those of CPython 3.11, whose hash of bytes is
// SipHash-1-3: with PYTHONHASHSEED=0 its key is all zero.
func TestKeyHasherIsSipHash13(t *testing.T) {
	for key, want := range map[string]uint64{
		"a":                      0x407448d2b89b1813,
		"conversation":           0x2c7c6d6f7037f23f,
		strings.Repeat("x", 100): 0x12de6d6e12e5750c,
	} {
		assert.Equal(t, want, keyHasher{}.hash(key), "%q", key)
	}
}

func TestKeyHasherDependsOnItsKey(t *testing.T) {
	seed := uint64(7)
	a, b := newKeyHasher(&seed), newKeyHasher(&seed)
	assert.Equal(t, a.hash("s"), b.hash("s"), "one seed")
	assert.NotEqual(t, newKeyHasher(nil).hash("s"), newKeyHasher(nil).hash("s"), "each its own")
	seen := map[uint64]bool{}
	var key [8]byte
	for i := range 10000 {
		binary.LittleEndian.PutUint64(key[:], uint64(i))
		seen[a.hash(string(key[:i%9]))] = true
		seen[a.hash(string(key[:]))] = true
	}
	assert.Greater(t, len(seen), 10000)
	assert.False(t, seen[0])
	assert.Zero(t, testing.AllocsPerRun(10, func() { a.hash("a conversation") }))
}
