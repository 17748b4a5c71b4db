package warmroute

import (
	"sync/atomic"
	"time"
)

// logPause is how long a message that requests bring about is not logged again.
const logPause = 10 * time.Second

// logLimit keeps a message that every request may bring about from flooding the
// log: it is logged at once, and then no more than every logPause, with how often
// it was not. The zero value is ready, and safe for concurrent use.
type logLimit struct {
	next    atomic.Int64 // Unix nanoseconds from which on it is logged again
	skipped atomic.Int64
}

// take reports whether the message is to be logged now, and how often it was not
// since it last was.
func (l *logLimit) take() (skipped int64, ok bool) {
	now := time.Now().UnixNano()
	next := l.next.Load()
	if now < next || !l.next.CompareAndSwap(next, now+int64(logPause)) {
		l.skipped.Add(1)
		return 0, false
	}
	return l.skipped.Swap(0), true
}

// sayUnreachable logs that no connection to the member could be made.
func (m *member) sayUnreachable(err error) {
	if skipped, ok := m.unreachables.take(); ok {
		m.pool.router.cfg.logger.Warn("replica unreachable", "replica", m.Name(), "err", err, "skipped", skipped)
	}
}

// sayPickerFailed logs that the pool's picker failed. locked says that the pool's
// lock is held, which a log handler may want.
func (p *pool) sayPickerFailed(err error, locked bool) {
	skipped, ok := p.failures.take()
	if !ok {
		return
	}
	say := func() {
		p.router.cfg.logger.Warn("picker failed; the least loaded replica was taken", "model", p.model, "err", err, "skipped", skipped)
	}
	if locked {
		go say() // one in logPause
		return
	}
	say()
}
