package warmroute

import (
	"context"
	"errors"
	"time"
)

// EnqueueHook is told when a turn has to wait for room in a prefix cache.
type EnqueueHook interface {
	OnEnqueue(context.Context, EnqueueEvent)
}

// DequeueHook is told when a turn that waited does so no longer, once for each
// OnEnqueue.
type DequeueHook interface {
	OnDequeue(context.Context, DequeueEvent)
}

// RefuseHook is told of each request that is sent nowhere: what the stats count as
// refused, overloaded or of an unknown model, and what a closed router turns away.
// A caller who gives up is not refused.
type RefuseHook interface {
	OnRefuse(context.Context, RefuseEvent)
}

// EnqueueEvent is a turn that has begun to wait.
type EnqueueEvent struct {
	Model string // of the pool
	// Keyed says that the request has a session key. The key itself is not told.
	Keyed bool
	// Waiting is the number of turns in the queue, this one among them.
	Waiting int
	// Bound is how long it may wait yet: [WithMaxWait], less the time since it first
	// came if this is another attempt; at least 0.
	Bound time.Duration
}

// DequeueEvent is a turn that waits no longer.
type DequeueEvent struct {
	Model string // of the pool
	Keyed bool
	// Waited is how long it waited, before earlier attempts too.
	Waited time.Duration
	Reason DequeueReason
}

// DequeueReason is why a turn waits no longer.
type DequeueReason string

// The ways out of the queue. After the first three the request is routed.
const (
	DequeueAdmitted  DequeueReason = "admitted"   // there is room for it
	DequeueMaxWait   DequeueReason = "max_wait"   // it waited as long as it may ([WithMaxWait])
	DequeueReleased  DequeueReason = "released"   // waiting is of no use: affinity was switched off, or no replica takes turns
	DequeuePushedOut DequeueReason = "pushed_out" // it made way for a turn of another tenant: the queue is full ([WithMaxQueue])
	DequeueCancelled DequeueReason = "cancelled"  // the caller gave up
	DequeueClosed    DequeueReason = "closed"     // the router was closed
)

// RefuseEvent is a request that is sent nowhere.
type RefuseEvent struct {
	// Model is the pool's, or for [RefusedUnknownModel] and [RefusedClosed] what the
	// client asked for, of any length and content.
	Model  string
	Reason RefusalReason
	// Err is what the caller gets.
	Err error
}

// RefusalReason is why a request is sent nowhere.
type RefusalReason string

// The reasons, by the error that the caller gets.
const (
	RefusedNoReplica    RefusalReason = "no_replica"    // [ErrNoReplica]
	RefusedUnknownModel RefusalReason = "unknown_model" // [ErrUnknownModel]
	RefusedClientRank   RefusalReason = "client_rank"   // [ErrClientRank]
	RefusedOverloaded   RefusalReason = "overloaded"    // [ErrOverloaded]
	RefusedClosed       RefusalReason = "closed"        // [ErrClosed]
)

func refusalReason(err error) RefusalReason {
	switch {
	case errors.Is(err, ErrUnknownModel):
		return RefusedUnknownModel
	case errors.Is(err, ErrClientRank):
		return RefusedClientRank
	case errors.Is(err, ErrOverloaded):
		return RefusedOverloaded
	case errors.Is(err, ErrClosed):
		return RefusedClosed
	}
	return RefusedNoReplica
}

// refused tells the hooks of a request that is sent nowhere, and returns the error.
func (r *Router) refused(ctx context.Context, model string, err error) error {
	for _, hook := range r.cfg.hooks.refuse {
		hook.OnRefuse(ctx, RefuseEvent{Model: model, Reason: refusalReason(err), Err: err})
	}
	return err
}

// waitTold is wait that tells the hooks. If one panics the turn is taken back and
// the session given up: the caller never sees them again.
func (p *pool) waitTold(ctx context.Context, a *waiter) error {
	h := &p.router.cfg.hooks
	if len(h.enqueue) == 0 && len(h.dequeue) == 0 {
		_, err := p.wait(ctx, a)
		return err
	}
	told, waiting, sent := false, true, false
	defer func() {
		if told {
			return
		}
		if waiting {
			_ = p.takeBack(a, errGivenUp) // that error
		} else if sent {
			p.unsend(a)
		}
		if a.session != nil {
			p.table.Release(a.session, time.Now())
		}
	}()
	for _, hook := range h.enqueue {
		hook.OnEnqueue(ctx, EnqueueEvent{Model: p.model, Keyed: a.session != nil, Waiting: a.queueLen, Bound: max(0, a.left-boundSlack)})
	}
	reason, err := p.wait(ctx, a)
	waiting, sent = false, err == nil
	for _, hook := range h.dequeue {
		hook.OnDequeue(ctx, DequeueEvent{Model: p.model, Keyed: a.session != nil, Waited: a.Waited(time.Now()), Reason: reason})
	}
	told = true
	return err
}
