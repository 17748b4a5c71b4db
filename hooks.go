package warmroute

import (
	"fmt"
	"time"

	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// Hook is told of what happens in a router: a value that implements at least
// one of [RouteHook], [DoneHook], [ScrapeHook] and [ReplicaStateHook]. Its
// methods are called from many goroutines at once, on the path of requests, and
// must not block.
type Hook any

// RouteHook is told of each request that is routed, once an attempt.
type RouteHook interface{ OnRoute(RouteEvent) }

// DoneHook is told of the end of each attempt.
type DoneHook interface{ OnDone(DoneEvent) }

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
	// "removed", "rank header ignored", "breaker opened", "probe" (a half-open
	// breaker lets a request through), "breaker closed" or "retry after" (the
	// endpoint has asked to be given nothing new).
	Reason string
	Time   time.Time
}

// hooks are the router's, by what they want to be told.
type hooks struct {
	route  []RouteHook
	done   []DoneHook
	scrape []ScrapeHook
	state  []ReplicaStateHook
}

// add takes a hook in, or refuses one that would never be told of anything.
func (h *hooks) add(hook Hook) error {
	known := false
	if v, ok := hook.(RouteHook); ok {
		h.route, known = append(h.route, v), true
	}
	if v, ok := hook.(DoneHook); ok {
		h.done, known = append(h.done, v), true
	}
	if v, ok := hook.(ScrapeHook); ok {
		h.scrape, known = append(h.scrape, v), true
	}
	if v, ok := hook.(ReplicaStateHook); ok {
		h.state, known = append(h.state, v), true
	}
	if !known {
		return &ConfigError{Field: "hook", Value: fmt.Sprintf("%T", hook),
			Allowed: "a RouteHook, DoneHook, ScrapeHook or ReplicaStateHook"}
	}
	return nil
}

func (h *hooks) onState(r *Replica, state replica.State, reason string, at time.Time) {
	for _, hook := range h.state {
		hook.OnReplicaState(ReplicaStateEvent{Replica: r, State: state, Reason: reason, Time: at})
	}
}
