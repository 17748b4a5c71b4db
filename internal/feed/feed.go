// Package feed sends the snapshots of one producer to many viewers, as
// server-sent events.
package feed

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Config describes a feed. All fields are required.
type Config struct {
	// Snapshot returns what all viewers are sent next, in JSON, without line breaks.
	// Numbers begin at 1 and rise by one with each call; calls come one at a time.
	Snapshot func(number uint64) ([]byte, error)
	// Interval is the time between two snapshots. None are made while nobody
	// watches.
	Interval time.Duration
	// MaxViewers bounds how many watch at once. Further ones are answered 503 with
	// Retry-After.
	MaxViewers int
	// WriteTimeout is how long a viewer may take to accept one event. It is dropped
	// then. A ResponseWriter that knows no deadlines goes without.
	WriteTimeout time.Duration
}

// Feed is an [http.Handler] for GET and HEAD. A viewer gets the latest snapshot
// at once and then each new one; one that is slow misses snapshots and delays
// nobody. A snapshot that fails is sent as the event "failure", with the error's
// text as a JSON string.
type Feed struct {
	cfg Config

	making sync.Mutex // one snapshot is made at a time, also where rounds overlap
	number uint64     // of the last one

	mu        sync.Mutex
	viewers   int    // of all rounds
	round     *round // nil while nobody watches
	closed    bool
	producing sync.WaitGroup
}

// round is from the first viewer's coming to the last one's leaving.
type round struct {
	over    chan struct{} // closed at its end
	latest  atomic.Pointer[event]
	viewers int // guarded by the feed's lock
}

// event is a snapshot as it is sent. The first of a round is empty.
type event struct {
	text []byte
	next chan struct{} // closed when there is a newer one
}

var (
	errFull   = errors.New("too many viewers")
	errClosed = errors.New("closed")
)

// New returns a feed that nobody watches yet. It returns an error for a field
// that is missing or not positive.
func New(cfg Config) (*Feed, error) {
	switch {
	case cfg.Snapshot == nil:
		return nil, errors.New("feed: no Snapshot")
	case cfg.Interval <= 0:
		return nil, fmt.Errorf("feed: Interval is %v, want more than 0", cfg.Interval)
	case cfg.MaxViewers <= 0:
		return nil, fmt.Errorf("feed: MaxViewers is %d, want at least 1", cfg.MaxViewers)
	case cfg.WriteTimeout <= 0:
		return nil, fmt.Errorf("feed: WriteTimeout is %v, want more than 0", cfg.WriteTimeout)
	}
	return &Feed{cfg: cfg}, nil
}

// Interrupt ends what is being watched. Viewers may come again.
func (f *Feed) Interrupt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end()
}

// Close ends what is being watched and refuses viewers from then on. It returns
// when no snapshot is being made any more; responses end soon after.
func (f *Feed) Close() {
	f.mu.Lock()
	f.closed = true
	f.end()
	f.mu.Unlock()
	f.producing.Wait()
}

// end ends the round, with the lock held.
func (f *Feed) end() {
	if f.round != nil {
		close(f.round.over)
		f.round = nil
	}
}

// join counts a viewer, and starts a round if it is the first.
func (f *Feed) join() (*round, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil, errClosed
	case f.viewers == f.cfg.MaxViewers:
		return nil, errFull
	}
	f.viewers++
	if f.round == nil {
		r := &round{over: make(chan struct{})}
		r.latest.Store(&event{next: make(chan struct{})})
		f.round = r
		f.producing.Add(1)
		go f.produce(r)
	}
	f.round.viewers++
	return f.round, nil
}

// leave ends the round of the last of its viewers.
func (f *Feed) leave(r *round) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.viewers--
	if r.viewers--; r.viewers == 0 && f.round == r {
		f.end()
	}
}

func (f *Feed) produce(r *round) {
	defer f.producing.Done()
	tick := time.NewTicker(f.cfg.Interval)
	defer tick.Stop()
	for {
		next := &event{text: f.snapshot(), next: make(chan struct{})}
		close(r.latest.Swap(next).next)
		select {
		case <-r.over:
			return
		case <-tick.C:
		}
	}
}

func (f *Feed) snapshot() []byte {
	f.making.Lock()
	defer f.making.Unlock()
	f.number++
	return format(f.cfg.Snapshot(f.number))
}
