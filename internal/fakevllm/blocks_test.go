package fakevllm

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestBlocksAreEvictedInOrder(t *testing.T) {
	p := newBlockPool(8)
	assert.Equal(t, 7, p.usable())
	assert.Equal(t, 7, p.free)
	assert.Zero(t, p.usage())

	first := p.take(nil, 3)
	assert.Equal(t, []int32{1, 2, 3}, first)
	p.remember(first[0], 10)
	p.remember(first[1], 11)
	second := p.take(nil, 2)
	p.remember(second[0], 20)
	p.remember(second[1], 21)
	assert.InDelta(t, 5.0/7, p.usage(), 1e-9)
	p.release(first)
	p.release(second)
	assert.Zero(t, p.usage())

	// The block without a hash, those never used, then the first request's
	// tail and head, then the second's.
	assert.Equal(t, []int32{3, 6, 7, 2, 1, 5, 4}, p.take(nil, 7))
	assert.Empty(t, p.byHash)
}

func TestHitsKeepBlocks(t *testing.T) {
	p := newBlockPool(5)
	ids := p.take(nil, 3)
	for i, id := range ids {
		p.remember(id, uint64(i))
	}
	p.release(ids)
	hits := p.prefix(nil, []uint64{0, 1, 9, 2})
	assert.Equal(t, []int32{1, 2}, hits, "a gap ends the prefix")
	assert.Equal(t, 2, p.idle(hits))
	p.reuse(hits)
	p.reuse(hits[:1])
	assert.Zero(t, p.idle(hits))
	assert.Equal(t, 2, p.free)
	p.release(hits)
	assert.Equal(t, 3, p.free, "the first is still referenced")
	p.release(hits[:1])
	assert.Equal(t, 4, p.free)
	assert.Equal(t, []int32{4, 3, 2, 1}, p.take(nil, 4))
}

func TestEqualBlocksStandInForEachOther(t *testing.T) {
	p := newBlockPool(5)
	ids := p.take(nil, 4)
	for _, id := range ids[:3] {
		p.remember(id, 7)
	}
	assert.Equal(t, ids[:1], p.prefix(nil, []uint64{7}), "the oldest serves")
	p.forget(ids[0])
	assert.Equal(t, ids[1:2], p.prefix(nil, []uint64{7}), "then the next oldest, as in a Python dict")
	p.remember(ids[0], 7)
	assert.Equal(t, ids[1:2], p.prefix(nil, []uint64{7}), "it is the newest now")
	p.forget(ids[2])
	p.forget(ids[1])
	assert.Equal(t, ids[:1], p.prefix(nil, []uint64{7}))
	p.forget(ids[0])
	p.forget(ids[2])
	p.forget(ids[2])
	assert.Empty(t, p.prefix(nil, []uint64{7}))
	assert.Empty(t, p.byHash)
}
