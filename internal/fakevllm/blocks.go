package fakevllm

// nullBlock is the block that vLLM sets aside. It is never handed out, so its
// links are free to be the ends of the free list.
const nullBlock int32 = 0

// block is one unit of KV memory. A block keeps its hash after its last
// reference is gone, and serves hits until the free list hands it out again.
type block struct {
	hash       uint64 // of this block's tokens and all before them, if hashed
	hashed     bool
	refs       int32
	prev, next int32 // in the free list, while refs is 0
	twin       int32 // next block with the same hash
}

// blockPool is a rank's KV memory: blocks by number, the free list in order
// of eviction, and the blocks by hash. Not safe for concurrent use.
type blockPool struct {
	blocks []block
	free   int
	byHash map[uint64]int32
	change uint64 // counts what changes byHash
}

func newBlockPool(blocks int) *blockPool {
	p := &blockPool{blocks: make([]block, blocks), byHash: make(map[uint64]int32)}
	for id := int32(1); id < int32(blocks); id++ {
		p.insert(id, p.blocks[nullBlock].prev)
	}
	return p
}

// usable is the number of blocks that can hold tokens.
func (p *blockPool) usable() int { return len(p.blocks) - 1 }

// usage is the referenced share of the blocks. Blocks that only wait for a
// hit are free.
func (p *blockPool) usage() float64 { return 1 - float64(p.free)/float64(p.usable()) }

// insert puts an unreferenced block into the free list behind another.
func (p *blockPool) insert(id, behind int32) {
	next := p.blocks[behind].next
	p.blocks[id].prev, p.blocks[id].next = behind, next
	p.blocks[behind].next, p.blocks[next].prev = id, id
	p.free++
}

func (p *blockPool) unlink(id int32) {
	b := &p.blocks[id]
	p.blocks[b.prev].next, p.blocks[b.next].prev = b.next, b.prev
	p.free--
}

// prefix appends to ids the blocks that hold the longest cached prefix of
// hashes. It takes no reference.
func (p *blockPool) prefix(ids []int32, hashes []uint64) []int32 {
	for _, h := range hashes {
		id, ok := p.byHash[h]
		if !ok {
			break
		}
		ids = append(ids, id)
	}
	return ids
}

// idle counts the blocks without a reference: those that a hit would take
// from the free list.
func (p *blockPool) idle(ids []int32) int {
	n := 0
	for _, id := range ids {
		if p.blocks[id].refs == 0 {
			n++
		}
	}
	return n
}

// reuse takes one reference on each block.
func (p *blockPool) reuse(ids []int32) {
	for _, id := range ids {
		if p.blocks[id].refs == 0 {
			p.unlink(id)
		}
		p.blocks[id].refs++
	}
}

// take hands out the first n blocks of the free list, appended to ids, and
// forgets what they cached. The caller has made sure that n are free.
func (p *blockPool) take(ids []int32, n int) []int32 {
	for ; n > 0; n-- {
		id := p.blocks[nullBlock].next
		p.unlink(id)
		p.forget(id)
		p.blocks[id].refs = 1
		ids = append(ids, id)
	}
	return ids
}

// remember makes a full block findable by its hash. Equal blocks are all
// kept, the oldest serves hits first.
func (p *blockPool) remember(id int32, hash uint64) {
	p.change++
	b := &p.blocks[id]
	b.hash, b.hashed, b.twin = hash, true, nullBlock
	first, ok := p.byHash[hash]
	if !ok {
		p.byHash[hash] = id
		return
	}
	last := first
	for p.blocks[last].twin != nullBlock {
		last = p.blocks[last].twin
	}
	p.blocks[last].twin = id
}

func (p *blockPool) forget(id int32) {
	b := &p.blocks[id]
	if !b.hashed {
		return
	}
	p.change++
	b.hashed = false
	first := p.byHash[b.hash]
	switch {
	case first != id:
		for p.blocks[first].twin != id {
			first = p.blocks[first].twin
		}
		p.blocks[first].twin = b.twin
	case b.twin != nullBlock:
		p.byHash[b.hash] = b.twin
	default:
		delete(p.byHash, b.hash)
	}
}

// release drops one reference on each block of a request. Blocks that become
// free are evicted in this order: blocks that can never be hit at once, then,
// after all that were free before, the request's tail before its head.
func (p *blockPool) release(ids []int32) {
	for _, id := range ids {
		b := &p.blocks[id]
		b.refs--
		if b.refs == 0 && !b.hashed {
			p.insert(id, nullBlock)
		}
	}
	for i := len(ids) - 1; i >= 0; i-- {
		if b := &p.blocks[ids[i]]; b.refs == 0 && b.hashed {
			p.insert(ids[i], p.blocks[nullBlock].prev)
		}
	}
}
