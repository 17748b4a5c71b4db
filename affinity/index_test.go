package affinity

import (
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBucketIsACacheLineAndASessionNoMoreThanItMust(t *testing.T) {
	assert.EqualValues(t, 64, unsafe.Sizeof(bucket[int]{}))
	assert.EqualValues(t, 112, unsafe.Sizeof(Session[int]{}), "a size class of the allocator")
}

// TestIndexAgainstAMap does the same to an index and to a map, with hashes that
// are good, that fall into few buckets, and that are all the same.
func TestIndexAgainstAMap(t *testing.T) {
	seed := maphash.MakeSeed()
	for name, hash := range map[string]func(string) uint64{
		"good":      func(k string) uint64 { return maphash.String(seed, k) },
		"few":       func(k string) uint64 { return maphash.String(seed, k) & 0xff00_0000_0000_ff00 },
		"same tag":  func(k string) uint64 { return maphash.String(seed, k) &^ 0x7f00 },
		"all equal": func(string) uint64 { return 7 },
	} {
		t.Run(name, func(t *testing.T) {
			keys := 3000
			if name == "all equal" {
				keys = 300
			}
			rnd := rand.New(rand.NewPCG(1, 5))
			var x index[int]
			rehash := func(s *Session[int]) uint64 { return hash(s.key.String()) }
			model := map[string]*Session[int]{}
			for step := range 60_000 {
				key := strconv.Itoa(rnd.IntN(keys))
				want := model[key]
				require.Same(t, want, x.find(key, hash(key)), "step %d", step)
				// Grows for a while, then shrinks, then again.
				grow := step/10_000%2 == 0
				switch {
				case want == nil && (grow || rnd.IntN(8) == 0):
					s := &Session[int]{}
					s.key.set(key)
					x.insert(s, hash(key), rehash)
					model[key] = s
				case want != nil && (!grow || rnd.IntN(8) == 0):
					x.remove(want, hash(key))
					delete(model, key)
				}
				require.Equal(t, len(model), x.n)
				if step%1000 == 999 {
					x.shrink(rehash)
					for k, s := range model {
						require.Same(t, s, x.find(k, hash(k)))
					}
				}
			}
			for key, s := range model {
				x.remove(s, hash(key))
			}
			x.shrink(rehash)
			assert.LessOrEqual(t, len(x.all()), 16)
			assert.Nil(t, x.find("1", hash("1")))
		})
	}
}
