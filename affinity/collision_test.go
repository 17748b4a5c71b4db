package affinity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCollidingKeysStayApart(t *testing.T) {
	const hash = 7
	keys := []string{"a", "b", "c"}
	for first := range keys { // whichever of them goes first
		tb := NewTable[int](Config{})
		tb.rehash = func(*Session[int]) uint64 { return hash }
		now := time.Now()
		var homes []*Home[int]
		var sessions []*Session[int]
		for i, key := range keys {
			homes = append(homes, tb.NewHome(i))
			s := tb.Acquire(key, hash, now)
			tb.Bind(s, homes[i], now)
			tb.Warm(s, homes[i])
			sessions = append(sessions, s)
		}
		for i, key := range keys {
			s := tb.Acquire(key, hash, now)
			assert.Same(t, sessions[i], s)
			assert.Equal(t, i, s.Home().Value)
			tb.Release(s, now)
		}
		tb.Unbind(sessions[first], homes[first])
		for _, s := range sessions {
			tb.Release(s, now)
		}
		assert.Equal(t, 2, tb.Len())
		for i, key := range keys {
			s := tb.Acquire(key, hash, now)
			if i == first {
				assert.NotSame(t, sessions[i], s, "it was forgotten")
				tb.Bind(s, homes[i], now)
				tb.Warm(s, homes[i])
			} else {
				assert.Same(t, sessions[i], s, "its namesakes were not")
			}
			tb.Release(s, now)
		}
		later := now.Add(2 * DefaultTTL)
		assert.Equal(t, 3, tb.Sweep(later))
		assert.Zero(t, tb.Len())
	}
}
