package replica

import (
	"sync"
	"sync/atomic"
	"time"
)

// BreakerState is the state of a [Breaker].
type BreakerState int

// The states of a breaker.
const (
	BreakerClosed   BreakerState = iota // requests go through
	BreakerHalfOpen                     // probes go through
	BreakerOpen                         // none should
)

// String is "closed", "half-open" or "open".
func (s BreakerState) String() string {
	switch s {
	case BreakerHalfOpen:
		return "half-open"
	case BreakerOpen:
		return "open"
	}
	return "closed"
}

// MarshalText returns what String does.
func (s BreakerState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what String returns.
func (s *BreakerState) UnmarshalText(text []byte) error {
	for _, v := range [...]BreakerState{BreakerClosed, BreakerHalfOpen, BreakerOpen} {
		if v.String() == string(text) {
			*s = v
			return nil
		}
	}
	return &ConfigError{Field: "breaker state", Value: string(text), Allowed: "closed, half-open or open"}
}

// Breaker judges by the results of requests whether more should be sent. It
// opens when too many have failed, after a while lets a bounded number of probes
// through, and closes when one of them succeeds.
//
// It only advises: a request that is sent all the same counts like others, so
// that one that succeeds closes it. Results of requests that began before it
// opened last change nothing: they tell of what it has opened for.
//
// It has no clock and starts no goroutine; the times that it is given should not
// go back by more than the window. All methods are safe for concurrent use and
// allocate nothing. While it is closed and nothing fails they take no lock.
type Breaker struct {
	cfg BreakerConfig

	until       atomic.Int64 // Unix ns at which it is half-open; 0: closed
	consecutive atomic.Int32 // failures in a row
	generation  atomic.Uint32
	opens       atomic.Uint64
	buckets     [breakerBuckets]breakerBucket

	mu       sync.Mutex // short; of what follows, and of changes of the state
	probes   int        // that are under way
	probedAt time.Time  // when the last one began
	row      int        // times that it opened, each soon after the one before
	closedAt time.Time  // zero: never opened
}

// breakerBuckets is how many parts the window slides by.
const breakerBuckets = 10

// breakerBucket counts the requests of one part of the window.
type breakerBucket struct {
	tick       atomic.Int64 // which part, since the Unix epoch
	ok, failed atomic.Uint32
}

// NewBreaker returns a closed breaker. It returns a [*ConfigError] for a setting
// that is out of range.
func NewBreaker(cfg BreakerConfig) (*Breaker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b := new(Breaker)
	b.init(cfg)
	return b, nil
}

func (b *Breaker) init(cfg BreakerConfig) { b.cfg = cfg.withDefaults() }

// Pass is a request as a [Breaker] knows it, from [Breaker.Begin] to its result.
type Pass struct {
	generation uint32
	probe      bool
}

// Probe reports whether the request is one of the probes of a half-open breaker.
func (p Pass) Probe() bool { return p.probe }

// State is the state at now.
func (b *Breaker) State(now time.Time) BreakerState {
	switch until := b.until.Load(); {
	case until == 0:
		return BreakerClosed
	case now.UnixNano() < until:
		return BreakerOpen
	}
	return BreakerHalfOpen
}

// Opens is how often the breaker has opened.
func (b *Breaker) Opens() uint64 { return b.opens.Load() }

// Allows reports whether a request should be sent now.
func (b *Breaker) Allows(now time.Time) bool {
	until := b.until.Load()
	if until == 0 {
		return true
	}
	if now.UnixNano() < until {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until.Load() == 0 || b.hasProbe(now)
}

// hasProbe needs the lock and a breaker that is half-open. A probe that takes
// longer than the breaker is ever open does not keep others from being made: it
// may be one whose answer is just long.
func (b *Breaker) hasProbe(now time.Time) bool {
	return b.probes < b.cfg.Probes || now.Sub(b.probedAt) >= b.cfg.MaxOpenFor
}

// Begin counts a request in. ok is what [Breaker.Allows] would say, in the same
// step; the request may be sent in any case. Its result is to be told by one of
// [Breaker.Succeeded], [Breaker.Failed] and [Breaker.Released].
func (b *Breaker) Begin(now time.Time) (p Pass, ok bool) {
	p.generation = b.generation.Load()
	if b.until.Load() == 0 {
		return p, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p.generation = b.generation.Load()
	switch until := b.until.Load(); {
	case until == 0:
		return p, true
	case now.UnixNano() < until || !b.hasProbe(now):
		return p, false
	}
	b.probes = min(b.probes, b.cfg.Probes-1) + 1
	b.probedAt = now
	p.probe = true
	return p, true
}

// Succeeded notes that a request was answered as it should be, or has shown that
// it will be. It reports whether that has closed the breaker.
func (b *Breaker) Succeeded(p Pass, now time.Time) (closed bool) {
	if b.cfg.Off {
		return false
	}
	if b.until.Load() == 0 {
		if p.generation == b.generation.Load() {
			if b.consecutive.Load() != 0 {
				b.consecutive.Store(0)
			}
			b.bucket(now).ok.Add(1)
		}
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.Load() == 0 || p.generation != b.generation.Load() {
		return false
	}
	b.consecutive.Store(0)
	b.forget()
	b.probes, b.closedAt = 0, now
	b.until.Store(0)
	return true
}

// Failed notes that a request failed, and reports whether that has opened the
// breaker, for the first time or again.
func (b *Breaker) Failed(p Pass, now time.Time) (opened bool) { return b.failed(p, now, true) }

// FailedPerhaps notes a failure that may be the request's own fault. It is not
// one of those that open the breaker by coming in a row, which may all be one
// client's, and does not keep a half-open breaker from being probed again.
func (b *Breaker) FailedPerhaps(p Pass, now time.Time) (opened bool) {
	return b.failed(p, now, false)
}

func (b *Breaker) failed(p Pass, now time.Time, certain bool) (opened bool) {
	if b.cfg.Off {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.generation != b.generation.Load() {
		return false
	}
	switch until := b.until.Load(); {
	case until == 0:
		b.bucket(now).failed.Add(1)
		n := b.consecutive.Load()
		if certain {
			n = b.consecutive.Add(1)
		}
		if int(n) < b.cfg.Consecutive && !b.tooMany(now) {
			return false
		}
	case now.UnixNano() < until:
		return false // it is open
	case !certain:
		b.release(p)
		return false
	}
	b.open(now)
	return true
}

// Released notes that a request has ended without saying anything: its caller
// gave it up, or was refused for its own fault.
func (b *Breaker) Released(p Pass) {
	if !p.probe {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release(p)
}

func (b *Breaker) release(p Pass) {
	if p.probe && p.generation == b.generation.Load() {
		b.probes = max(0, b.probes-1)
	}
}

// open needs the lock.
func (b *Breaker) open(now time.Time) {
	if b.until.Load() == 0 && (b.closedAt.IsZero() || now.Sub(b.closedAt) >= b.cfg.MaxOpenFor) {
		b.row = 0
	}
	pause := b.cfg.MaxOpenFor
	if b.row < 62 {
		if p := b.cfg.OpenFor << b.row; p > 0 && p>>b.row == b.cfg.OpenFor {
			pause = min(pause, p)
		}
	}
	b.row++
	pause -= time.Duration(min(max(0, b.cfg.Jitter()), 1) * float64(pause) / 5)
	b.probes = 0
	b.generation.Add(1)
	b.consecutive.Store(0)
	b.forget()
	b.opens.Add(1)
	b.until.Store(max(1, now.Add(pause).UnixNano()))
}

// bucket is the part of the window that now is in.
func (b *Breaker) bucket(now time.Time) *breakerBucket {
	tick := b.tick(now)
	k := &b.buckets[int(uint64(tick)%breakerBuckets)]
	if old := k.tick.Load(); old < tick && k.tick.CompareAndSwap(old, tick) {
		// A result that is counted just now may be lost: one of very many.
		k.ok.Store(0)
		k.failed.Store(0)
	}
	return k
}

func (b *Breaker) tick(now time.Time) int64 {
	return now.UnixNano() / int64(b.cfg.Window/breakerBuckets)
}

// tooMany reports whether too large a part of the window's requests has failed.
func (b *Breaker) tooMany(now time.Time) bool {
	tick := b.tick(now)
	var ok, failed uint64
	for i := range b.buckets {
		if k := &b.buckets[i]; k.tick.Load() > tick-breakerBuckets {
			ok += uint64(k.ok.Load())
			failed += uint64(k.failed.Load())
		}
	}
	all := ok + failed
	return all >= uint64(b.cfg.MinRequests) && float64(failed) >= b.cfg.FailureShare*float64(all)
}

// forget empties the window, so that what has opened the breaker does not open it
// again.
func (b *Breaker) forget() {
	for i := range b.buckets {
		b.buckets[i].ok.Store(0)
		b.buckets[i].failed.Store(0)
	}
}
