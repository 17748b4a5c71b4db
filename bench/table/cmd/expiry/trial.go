package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/bench/table"
)

// trial is one mass expiry.
type trial struct {
	n, hot           int
	ttl, sweep, tail time.Duration
}

// result is what a trial found. The window is from when the first conversation
// falls due to the trial's tail after the last does.
type result struct {
	load          time.Duration
	longest, p999 time.Duration // of the foreground's operations in the window
	cpu           time.Duration // of the process in the window
	gone          time.Duration // from when the last falls due, or notGone
	peak, left    float64       // bytes of heap, the keys left out
	lost          int64         // hot conversations that were bound anew
}

const (
	notGone = time.Duration(math.MaxInt64)
	// patience is how long after the last has fallen due a trial waits for all to
	// be gone.
	patience = 30 * time.Second
)

func (tr trial) run(impl table.Impl) (result, error) {
	keys, hot := table.NewKeys(tr.n, 1), table.NewKeys(tr.hot, 2)
	replicas, choose := table.RoundRobin(8)
	var created atomic.Int64
	clock := affinity.NewClock()
	base := heap()

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { clock.Run(ctx) })
	tb := impl.New(table.Config{
		TTL: tr.ttl, Clock: clock, Replicas: replicas,
		Choose: func() *table.Replica {
			created.Add(1)
			return choose()
		},
	})
	defer tb.Close()
	running.Go(func() { sweepEach(ctx, tr.sweep, tb) })

	var r result
	started := time.Now()
	load(tb, keys)
	loaded := time.Now()
	load(tb, hot.Clone())
	r.load = loaded.Sub(started)
	if got, want := created.Load(), int64(tr.n+tr.hot); got != want {
		return r, fmt.Errorf("%s: %d creations for %d conversations", impl.Name, got, want)
	}
	front := foreground{table: tb, hot: hot}
	running.Go(func() { front.run(ctx) })
	r.peak = heap() - base

	firstDue, lastDue := started.Add(tr.ttl), loaded.Add(tr.ttl)
	time.Sleep(time.Until(firstDue))
	cpu := cpuTime()
	front.recording.Store(true)
	r.gone = notGone
	watch := func(until time.Time) {
		for now := time.Now(); now.Before(until); now = time.Now() {
			if r.gone == notGone && tb.Len() <= tr.hot {
				r.gone = max(0, time.Since(lastDue))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	watch(lastDue.Add(tr.tail))
	front.recording.Store(false)
	r.cpu = cpuTime() - cpu
	for r.gone == notGone && time.Since(lastDue) < patience {
		watch(time.Now().Add(50 * time.Millisecond))
	}
	cancel()
	running.Wait()
	r.longest, r.p999 = front.summary()
	r.lost = created.Load() - int64(tr.n+tr.hot)
	r.left = heap() - base
	runtime.KeepAlive(keys)
	runtime.KeepAlive(hot)
	runtime.KeepAlive(tb)
	return r, nil
}

// load makes all conversations, on two goroutines.
func load(tb table.Table, keys table.Keys) {
	var all sync.WaitGroup
	half := keys.Len() / 2
	for _, part := range [][2]int{{0, half}, {half, keys.Len()}} {
		all.Go(func() {
			for i := part[0]; i < part[1]; i++ {
				tb.GetOrCreate(keys.At(i))
			}
		})
	}
	all.Wait()
}

func sweepEach(ctx context.Context, interval time.Duration, tb table.Table) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			tb.Sweep()
		}
	}
}

// heap is the bytes of the heap in use, with no garbage among them.
func heap() float64 {
	runtime.GC()
	runtime.GC() // what the first one found to have a finalizer or be in a pool
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// cpuTime is what the process has used of the processors.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // it fails for bad arguments only
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
