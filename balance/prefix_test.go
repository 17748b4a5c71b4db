package balance_test

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/balance"
)

// prefixOf is a prefix with these hashes for its first steps.
func prefixOf(hashes ...uint64) *balance.Prefix {
	p := new(balance.Prefix)
	copy(p.Hashes[:], hashes)
	return p
}

func TestPrefixLogFindsTheLongest(t *testing.T) {
	var log balance.PrefixLog
	step, age := log.Longest(prefixOf(1, 2, 3), now)
	assert.Equal(t, -1, step)
	assert.Zero(t, age)
	log.Add(prefixOf(1, 2, 3), now)
	log.Add(prefixOf(1, 2, 4), now.Add(time.Minute))
	later := now.Add(3 * time.Minute)
	for _, tt := range []struct {
		prefix *balance.Prefix
		step   int
		age    time.Duration
	}{
		{prefixOf(1, 2, 3), 2, 3 * time.Minute},
		{prefixOf(1, 2, 4, 5), 2, 2 * time.Minute},
		{prefixOf(1, 2, 6), 1, 2 * time.Minute},
		{prefixOf(1, 2), 1, 2 * time.Minute},
		{prefixOf(7, 8), -1, 0},
		{prefixOf(), -1, 0},
	} {
		step, age := log.Longest(tt.prefix, later)
		assert.Equal(t, tt.step, step, tt.prefix)
		assert.Equal(t, tt.age, age, tt.prefix)
	}
	whole := prefixOf(1)
	whole.Hashes[balance.PrefixSteps-1], whole.Bytes = 9, 1500
	log.Add(whole, later)
	step, _ = log.Longest(whole, later)
	assert.Equal(t, balance.PrefixSteps-1, step)
	assert.Equal(t, 375, whole.Tokens(step))
	log.Forget()
	step, _ = log.Longest(prefixOf(1, 2, 3), later)
	assert.Equal(t, -1, step)
	assert.Zero(t, log.Total(later))
}

func TestPrefixLogCounts(t *testing.T) {
	var log balance.PrefixLog
	p := prefixOf(1, 2)
	assert.Zero(t, log.Count(p, 0, now))
	assert.Zero(t, log.Total(now))
	for range 4 {
		log.Add(p, now)
	}
	log.Add(prefixOf(1, 3), now)
	log.Add(prefixOf(), now)
	assert.Equal(t, 5., log.Count(p, 0, now))
	assert.Equal(t, 4., log.Count(p, 1, now))
	assert.Zero(t, log.Count(p, 2, now), "a step that it does not have")
	assert.Equal(t, 6., log.Total(now), "one without a prefix counts too")
	half := now.Add(balance.PrefixHalfLife)
	assert.InDelta(t, 2., log.Count(p, 1, half), 1e-9)
	assert.InDelta(t, 3., log.Total(half), 1e-9)
	log.Add(p, half)
	assert.InDelta(t, 3., log.Count(p, 1, half), 1e-9)
	assert.InDelta(t, 3., log.Count(p, 1, now), 1e-9, "a time that goes back fades nothing")
	log.Add(p, now)
	assert.InDelta(t, 4., log.Count(p, 1, half), 1e-9)
	assert.InDelta(t, 0., log.Total(now.Add(100*time.Hour)), 1e-9)
}

// TestPrefixLogIsBounded has many more beginnings than it has room for: those
// that are sent again and again stay.
func TestPrefixLogIsBounded(t *testing.T) {
	assert.Less(t, unsafe.Sizeof(balance.PrefixLog{}), uintptr(32<<10))
	var log balance.PrefixLog
	rng := rand.New(rand.NewPCG(1, 2))
	at := now
	kept := make([]*balance.Prefix, 100)
	for i := range kept {
		kept[i] = prefixOf(rng.Uint64(), rng.Uint64())
	}
	for range 100 {
		for _, p := range kept {
			log.Add(p, at)
			at = at.Add(time.Millisecond)
		}
		for range 200 {
			log.Add(prefixOf(rng.Uint64()), at)
			at = at.Add(time.Millisecond)
		}
	}
	found := 0
	for _, p := range kept {
		if step, _ := log.Longest(p, at); step == 1 {
			found++
		}
	}
	assert.Greater(t, found, 95)
	assert.Zero(t, testing.AllocsPerRun(100, func() { log.Add(kept[0], at); log.Longest(kept[0], at) }))
}

func TestPrefixTokens(t *testing.T) {
	var none balance.Prefix
	assert.False(t, none.Known())
	assert.True(t, prefixOf(1).Known())
	for i, want := range []int{256, 512, 1024, 2048, 4096, 8192, 16384, 0} {
		assert.Equal(t, want, none.Tokens(i))
	}
}

// TestAPrefixThatWasNotSentAfterAll takes placements back, each at the time that
// it was noted.
func TestAPrefixThatWasNotSentAfterAll(t *testing.T) {
	var log balance.PrefixLog
	p, half := prefixOf(1, 2), now.Add(balance.PrefixHalfLife)
	log.Add(p, now)
	log.Add(prefixOf(1, 3), half)
	log.Remove(p, now)
	assert.InDelta(t, 1., log.Total(half), 1e-9)
	assert.InDelta(t, 1., log.Count(p, 0, half), 1e-9)
	step, age := log.Longest(p, half)
	assert.Equal(t, 0, step, "the rest of it is nowhere")
	assert.Zero(t, age)
	log.Remove(prefixOf(1, 3), half)
	step, _ = log.Longest(p, half)
	assert.Equal(t, -1, step)
	assert.Zero(t, log.Total(half))
	log.Remove(p, half)
	assert.Zero(t, log.Total(half), "there is nothing more to take back")
	log.Add(p, half)
	assert.InDelta(t, 1., log.Count(p, 1, half), 1e-9)
}
