package fakevllm

import (
	"context"
	"time"
)

// hold is what keeps an engine from its next step. It is guarded by the
// engine's lock.
type hold struct {
	wedged, asleep bool
	freed          chan struct{} // closed when nothing holds it any more; nil then
}

// set notes what holds the engine.
func (h *hold) set(wedged, asleep bool) {
	h.wedged, h.asleep = wedged, asleep
	switch held := wedged || asleep; {
	case held && h.freed == nil:
		h.freed = make(chan struct{})
	case !held && h.freed != nil:
		close(h.freed)
		h.freed = nil
	}
}

func (e *engine) setWedged(wedged bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold.set(wedged, e.hold.asleep)
}

// awaitFreed waits while the engine is held, and reports whether it goes on.
func (e *engine) awaitFreed(ctx context.Context) bool {
	for {
		e.mu.Lock()
		freed := e.hold.freed
		e.mu.Unlock()
		if freed == nil {
			return true
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// Sleep puts the engines to sleep at level 1, as POST /sleep?level=1&mode=abort
// does: requests are aborted, the caches are lost, and further requests wait.
// /health goes on saying 200.
func (s *Server) Sleep() {
	for _, e := range s.life.Load().ranks {
		e.sleep()
	}
}

// Wake ends a sleep.
func (s *Server) Wake() {
	for _, e := range s.life.Load().ranks {
		e.mu.Lock()
		e.hold.set(e.hold.wedged, false)
		e.mu.Unlock()
	}
}

func (e *engine) sleep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended || e.hold.asleep {
		return
	}
	e.hold.set(e.hold.wedged, true)
	for _, q := range e.sched.empty(byAbort) {
		e.settle(q, time.Now())
	}
	e.sched.pool = newBlockPool(e.cfg.Blocks)
	e.sched.lookup = lookup{}
}
