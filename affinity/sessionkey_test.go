package affinity

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestKeysOfEveryLength has keys on both sides of what fits into a session, and
// beside each one that differs in its last byte only, one that is longer by a
// zero byte, and one that is a byte shorter.
func TestKeysOfEveryLength(t *testing.T) {
	for _, n := range []int{1, 2, 35, 36, 37, inlineKey - 1, inlineKey, inlineKey + 1, inlineKey + 2, 255, 256, 257, 300} {
		tb := NewTable[int](Config{})
		home := tb.NewHome(0)
		now := time.Now()
		key := strings.Repeat("k", n)
		keys := []string{key, key[:n-1] + "\x00", key + "\x00", key[:n-1]}
		sessions := map[string]*Session[int]{}
		for _, k := range keys {
			s := tb.Acquire(k, tb.Hash(k), now)
			tb.Bind(s, home, now)
			tb.Warm(s, home)
			tb.Release(s, now)
			sessions[k] = s
			assert.Equal(t, tb.Hash(k), tb.rehash(s))
		}
		require.Len(t, sessions, len(keys))
		assert.Equal(t, len(keys), tb.Len())
		for _, k := range keys {
			s := tb.Acquire(strings.Clone(k), tb.Hash(k), now)
			assert.Same(t, sessions[k], s)
			tb.Release(s, now)
		}
		var bound []string
		for b := range home.Bindings(now) {
			bound = append(bound, b.Key)
		}
		assert.ElementsMatch(t, keys, bound)
	}
}

// TestACreationAllocatesOnceForAKeyThatFits guards the size of a creation.
func TestACreationAllocatesOnceForAKeyThatFits(t *testing.T) {
	for n, want := range map[int]float64{1: 1, inlineKey: 1, inlineKey + 1: 2} {
		key := strings.Repeat("k", n)
		allocs := testing.AllocsPerRun(100, func() {
			s := new(Session[int])
			s.key.set(key)
			sink = s
		})
		assert.Equal(t, want, allocs, "%d bytes", n)
	}
}

var sink *Session[int]
