package fakevllm

import (
	"sync"
	"time"
)

// countsInterval is how often vLLM's coordinator tells the front ends the
// ranks' counts if none of them reports any.
const countsInterval = 5 * time.Second

// balancer chooses the rank of a request that names none, as one API server's
// DPLBAsyncMPClient does from 0.10.2 to 0.26: waiting*4 + running, the lowest
// wins, and the scan starts one rank further each time.
//
// Where the ranks report, their counts are the exact ones here; vLLM's front
// end knows those of up to 100 ms ago, corrected by its own requests. Where
// they do not, all counts are zero but for the requests that this API server
// has given out since the coordinator last told it so.
type balancer struct {
	blind bool

	mu    sync.Mutex
	start int   // rank where the next scan starts
	given []int // requests, by rank
	reset int64 // when given was, in intervals since the life's start
}

// choose returns a rank.
func (b *balancer) choose(l *life) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := int64(time.Since(l.started) / countsInterval); b.blind && at != b.reset {
		b.reset = at
		clear(b.given)
	}
	best, least := 0, -1
	for i := range l.ranks {
		at := (b.start + i) % len(l.ranks)
		score := b.given[at]
		if !b.blind {
			running, waiting := l.ranks[at].load()
			score = waiting*4 + running
		}
		if least < 0 || score < least {
			best, least = at, score
		}
	}
	b.start = (b.start + 1) % len(l.ranks)
	if b.blind {
		b.given[best]++
	}
	return best
}
