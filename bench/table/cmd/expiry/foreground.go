package main

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/bench/table"
)

// The foreground does a burst of operations, pauses, and does the next: 20,000
// a second at the most, so that it is not what the processors are busy with.
const (
	burst = 20
	pause = time.Millisecond
)

// foreground goes on using the hot conversations in turn, from one goroutine.
type foreground struct {
	table     table.Table
	hot       table.Keys
	recording atomic.Bool
	times     []time.Duration // read when run has returned
}

func (f *foreground) run(ctx context.Context) {
	f.times = make([]time.Duration, 0, 1<<18)
	for next := 0; ctx.Err() == nil; {
		for range burst {
			key := f.hot.At(next)
			next = (next + 1) % f.hot.Len()
			began := time.Now()
			f.table.GetOrCreate(key)
			if took := time.Since(began); f.recording.Load() {
				f.record(took)
			}
		}
		time.Sleep(pause)
	}
}

// record notes an operation and, if it took longer than the pause, those that
// could not begin meanwhile: each would have waited for the rest of it. Without
// them one operation that blocks for half a second would be one slow operation
// among many, however many requests it stands for.
func (f *foreground) record(took time.Duration) {
	f.times = append(f.times, took)
	for rest := took - pause; rest > 0; rest -= pause {
		for range burst {
			f.times = append(f.times, rest)
		}
	}
}

func (f *foreground) summary() (longest, p999 time.Duration) {
	if len(f.times) == 0 {
		return 0, 0
	}
	slices.Sort(f.times)
	return f.times[len(f.times)-1], f.times[len(f.times)*999/1000]
}
