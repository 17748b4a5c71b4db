package warmroute

import (
	"context"
	"reflect"
	"time"

	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// Hook is told of what happens in a router: a value that implements at least
// one of the interfaces below, each of one method. It is told of what it
// implements, and of nothing else.
//
//	[RouteHook], [DoneHook]        an attempt begins, and ends
//	[EnqueueHook], [DequeueHook]   a turn waits for room, and waits no longer
//	[RefuseHook]                   a request is sent nowhere
//	[ScrapeHook]                   a metrics page was read, or could not be
//	[ReplicaStateHook]             a replica is in another state
//
// Hooks are called one after another, in the order given, on the goroutine of
// what they are told of, many at once, and never with a lock of the router held:
// a hook may ask for [Router.Stats]. It must not block. The context is that of
// the request, so that it carries the caller's span; it may have ended.
//
// A request is told of in this order: if it waits, OnEnqueue and OnDequeue; then
// either OnRefuse, or OnRoute and in the end OnDone, once each an attempt. One
// whose caller gives up before it was routed gets neither.
type Hook any

// RouteHook is told of each request that is routed, once an attempt, before it is
// sent.
type RouteHook interface {
	OnRoute(context.Context, RouteEvent)
}

// DoneHook is told of the end of each attempt, once: when the answer's body has
// ended, failed, been closed or been given up.
type DoneHook interface {
	OnDone(context.Context, DoneEvent)
}

// ScrapeHook is told of each metrics page that was read, or could not be.
type ScrapeHook interface{ OnScrape(ScrapeEvent) }

// ReplicaStateHook is told when a replica changes its state, or restarts.
type ReplicaStateHook interface{ OnReplicaState(ReplicaStateEvent) }

// RouteEvent is a routed request.
type RouteEvent struct {
	Model   string
	Replica *Replica
	Outcome Outcome
	// Keyed says that the request has a session key. The key itself is not told.
	Keyed bool
	// Waited is how long the request waited for room.
	Waited time.Duration
}

// DoneEvent is a finished attempt.
type DoneEvent struct {
	RouteEvent
	Result Result
	// Final says that the request is not sent to another replica after this
	// attempt: it is over.
	Final bool
	// Verdict is what the engine's count says of a turn at home, "" if it was
	// none. The next metrics page may show that it was another, [Ignored] or
	// [Lost], which the stats count then: [Ignored] is told here only where the
	// engine's version says it beforehand. That a rank header is ignored is told as
	// a ReplicaStateEvent.
	Verdict Verdict
}

// ScrapeEvent is one endpoint's metrics page.
type ScrapeEvent struct {
	URL  string
	Page metrics.Page
	Err  error
}

// ReplicaStateEvent is a change of a replica.
type ReplicaStateEvent struct {
	Replica *Replica
	State   replica.State
	// Reason says what happened: "unreachable", "reached", "restarted",
	// "asleep", "awake", "wedged", "recovered", "drained", "resumed", "added",
	// "removed" (both also of ranks, when the endpoint is found to have others or to
	// ignore the header that names them), "rank header ignored", "breaker opened",
	// "probe" (a half-open breaker lets a request through), "breaker closed",
	// "retry after" (the endpoint has asked to be given nothing new), "serves another
	// model" or "serves its model again"; or what [WithHealth] has found, such as
	// "dcgm: XID 79 on GPU 3", and "dcgm: no longer found" when it no longer is.
	Reason string
	Time   time.Time
}

// hooks are the router's, by what they want to be told.
type hooks struct {
	route   []RouteHook
	done    []DoneHook
	enqueue []EnqueueHook
	dequeue []DequeueHook
	refuse  []RefuseHook
	scrape  []ScrapeHook
	state   []ReplicaStateHook
}

// ofRequests reports whether a hook is told of routed requests.
func (h *hooks) ofRequests() bool { return len(h.route) > 0 || len(h.done) > 0 }

// add takes a hook in, or refuses one that would never be told of anything, or not
// of what it has a method for: that method has another signature.
func (h *hooks) add(hook Hook) error {
	refuse := func(value, allowed string) error {
		return &ConfigError{Field: "hook", Value: value, Allowed: allowed}
	}
	if hook == nil {
		return refuse("nil", "a value with a hook's method")
	}
	t := reflect.TypeOf(hook)
	// With constant names, so that the linker still drops methods that nobody calls.
	_, route := t.MethodByName("OnRoute")
	_, done := t.MethodByName("OnDone")
	_, enqueue := t.MethodByName("OnEnqueue")
	_, dequeue := t.MethodByName("OnDequeue")
	_, refused := t.MethodByName("OnRefuse")
	_, scrape := t.MethodByName("OnScrape")
	_, state := t.MethodByName("OnReplicaState")
	known := false
	for _, m := range [...]struct {
		has  bool
		name string
		ok   bool
	}{
		{route, "OnRoute(context.Context, RouteEvent)", take(&h.route, hook)},
		{done, "OnDone(context.Context, DoneEvent)", take(&h.done, hook)},
		{enqueue, "OnEnqueue(context.Context, EnqueueEvent)", take(&h.enqueue, hook)},
		{dequeue, "OnDequeue(context.Context, DequeueEvent)", take(&h.dequeue, hook)},
		{refused, "OnRefuse(context.Context, RefuseEvent)", take(&h.refuse, hook)},
		{scrape, "OnScrape(ScrapeEvent)", take(&h.scrape, hook)},
		{state, "OnReplicaState(ReplicaStateEvent)", take(&h.state, hook)},
	} {
		if m.has && !m.ok {
			return refuse(t.String(), "one whose method is "+m.name)
		}
		known = known || m.ok
	}
	if !known {
		return refuse(t.String(), "a RouteHook, DoneHook, EnqueueHook, DequeueHook, RefuseHook, ScrapeHook or ReplicaStateHook")
	}
	return nil
}

// take appends the hook if it is one of that kind.
func take[H any](hooks *[]H, hook Hook) bool {
	v, ok := hook.(H)
	if ok {
		*hooks = append(*hooks, v)
	}
	return ok
}

func (h *hooks) onState(r *Replica, state replica.State, reason string, at time.Time) {
	for _, hook := range h.state {
		hook.OnReplicaState(ReplicaStateEvent{Replica: r, State: state, Reason: reason, Time: at})
	}
}
