package table_test

import (
	"fmt"
	"math/bits"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench/table"
)

const (
	goroutines = 2
	// roundOps are timed at a stretch. In BenchmarkGetOrCreate every tenth makes
	// a conversation, and those are deleted between two rounds, untimed, so that
	// the population stays between n and n + roundOps/10.
	roundOps     = 100_000
	createEvery  = 10
	perRound     = roundOps / createEvery
	roundsOfKeys = 10 // after which the keys of those deleted serve again
	// batchOps are taken by a goroutine at a time: few, so that neither waits
	// long for the other at the end of a round and their keys stay in the cache.
	batchOps = 100
)

// BenchmarkGetOrCreate has 90 % of uses go to a population of n conversations,
// uniformly, and 10 % to conversations never seen.
func BenchmarkGetOrCreate(b *testing.B) { forPopulations(b, createEvery) }

// BenchmarkHit has all uses go to the population.
func BenchmarkHit(b *testing.B) { forPopulations(b, 0) }

func forPopulations(b *testing.B, createEvery int) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint("n=", n), func(b *testing.B) {
			load := sync.OnceValue(func() *population { return newPopulation(n) })
			for _, impl := range table.Impls() {
				// Loaded once for all runs that b.N is found with, and open for as
				// long, which b.Cleanup would not have it.
				var tb table.Table
				stop := func() {}
				b.Run("impl="+impl.Name, func(b *testing.B) {
					p := load()
					if tb == nil {
						tb, _, stop = openTable(impl, time.Hour)
						for i := range n {
							tb.GetOrCreate(p.stored.At(i))
						}
					}
					p.run(b, tb, createEvery)
					require.Equal(b, n, tb.Len())
				})
				stop()
			}
		})
	}
}

// population has the keys that are stored, the same in other bytes for asking,
// and those of conversations to come.
type population struct {
	stored, asked, fresh table.Keys
	read                 atomic.Uint32 // for the compiler not to leave out what is read before
}

func newPopulation(n int) *population {
	stored := table.NewKeys(n, 1)
	return &population{stored: stored, asked: stored.Clone(), fresh: table.NewKeys(perRound*roundsOfKeys, 2)}
}

func (p *population) run(b *testing.B, tb table.Table, createEvery int) {
	b.ReportAllocs()
	b.StopTimer()
	b.ResetTimer()
	var allocs uint64
	var cpu time.Duration
	created := 0
	for done, round := 0, 0; done < b.N; round++ {
		ops := min(roundOps, b.N-done)
		var next atomic.Int64
		allocsBefore, cpuBefore := allocated(), cpuTime()
		b.StartTimer()
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() {
				for {
					from := int(next.Add(batchOps)) - batchOps
					if from >= ops {
						return
					}
					p.batch(tb, round, from, min(from+batchOps, ops), createEvery)
				}
			})
		}
		all.Wait()
		b.StopTimer()
		cpu += cpuTime() - cpuBefore
		allocs += allocated() - allocsBefore
		if createEvery > 0 {
			for i := range ops / createEvery {
				tb.Delete(p.freshKey(round, i))
				created++
			}
		}
		done += ops
	}
	b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
	if created > 0 {
		b.ReportMetric(float64(allocs)/float64(created), "allocs/create")
	}
}

// batch does the operations from from to to of a round. Which keys they use
// depends on nothing else, so that it is the same for all tables.
//
// The keys are read before the operations begin: a request's key has just been
// parsed and is in the processor's cache, which a key out of a million is not.
func (p *population) batch(tb table.Table, round, from, to, createEvery int) {
	rnd := splitMix(uint64(round)<<32 | uint64(from))
	n := uint64(p.asked.Len())
	var keys [batchOps]string
	var read byte
	for i := from; i < to; i++ {
		var key string
		if createEvery > 0 && i%createEvery == createEvery-1 {
			key = p.freshKey(round, i/createEvery)
		} else {
			of, _ := bits.Mul64(rnd.next(), n)
			key = p.asked.At(int(of))
		}
		keys[i-from] = key
		read ^= key[0] ^ key[len(key)-1]
	}
	p.read.Store(uint32(read))
	for _, key := range keys[:to-from] {
		tb.GetOrCreate(key)
	}
}

func (p *population) freshKey(round, i int) string {
	return p.fresh.At(round%roundsOfKeys*perRound + i)
}

// splitMix is SplitMix64, since math/rand's sources cost as much as some of
// what is measured.
type splitMix uint64

func (s *splitMix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// cpuTime is what the process has used of the processors: other jobs of the
// machine lengthen the wall time, but not this.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // it fails for bad arguments only
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// allocated is the number of objects allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
