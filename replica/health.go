package replica

import (
	"sync/atomic"
	"time"
)

const (
	firstPause = time.Second
	maxPause   = 30 * time.Second
)

// health is passive: it learns from the requests that are sent anyway. Only a
// connection that could not be made counts, since that alone says for certain
// that no request was delivered and none will be for now. Other failures are for
// the breakers.
type health struct {
	failures atomic.Int32
	until    atomic.Int64 // Unix nanoseconds; 0 while reachable
	held     atomic.Int64 // Unix nanoseconds until which it asked to be left alone
}

func (h *health) down(now time.Time) bool {
	until := h.until.Load()
	return until != 0 && now.UnixNano() < until
}

func (h *health) failed(now time.Time) {
	// Requests that were sent together fail together: they are one failure.
	if h.down(now) {
		return
	}
	n := h.failures.Add(1)
	pause := maxPause
	if n <= 5 {
		pause = firstPause << (n - 1)
	}
	h.until.Store(now.Add(pause).UnixNano())
}

func (h *health) succeeded() (again bool) {
	// Loads first: on the path of every request the line stays shared.
	if h.until.Load() != 0 {
		again = h.until.Swap(0) != 0
	}
	if h.failures.Load() != 0 {
		h.failures.Store(0)
	}
	return again
}
