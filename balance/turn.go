package balance

import "time"

// Turn is one request to an [Admission]: the exported fields are the caller's,
// who sets them before [Admission.Arrive] and keeps the Turn until
// [Admission.Finish] or [Admission.Cancel], or until [Admission.PushOut] returns it.
type Turn struct {
	// Session is the hash of the conversation's key, 0 if it has none.
	Session uint64
	// Tenant is whose turn it is. Tenants that wait are served in turn, and none can
	// have the queue for itself ([AdmissionConfig].MaxQueue).
	Tenant uint64
	// Priority orders the queue before all else, lower first, as vLLM's does.
	Priority int
	// PromptTokens is an estimate of the prompt's size from that of the request,
	// 0 if unknown. It may be off by any constant factor.
	PromptTokens int
	// MaxTokens is the limit that the request sets to its answer, 0 if none.
	MaxTokens int
	// Home is the replica that the conversation is bound to, nil if none.
	Home *Room
	// Lost says that what the conversation's last turn left is probably not in the
	// cache of its home any more, so that it may as well go elsewhere.
	Lost bool
	// Avoid are rooms that this request must not go to.
	Avoid []*Room
	// Since is when the request first arrived, if it was sent before and is sent
	// again: it is ahead of those that came later.
	Since time.Time
	// Owner is the caller's own.
	Owner any

	arrived, began time.Time
	room           *Room
	conv           *conversation
	own            conversation // if it has no key
	stay           int          // the conversation's, when the turn was sent
	footprint      int
	beside         int  // of it, if others of the conversation were there
	cold           bool // new to the room: its prefix has to be computed
	answered       bool
	prefill        time.Duration // of a cold turn, from its sending to its first byte
	queued         bool
	tag            float64 // its place among tenants
}

// Room is the replica that the turn was sent to, nil while it waits.
func (t *Turn) Room() *Room { return t.room }

// Waited is how long the turn waited, or has waited by now.
func (t *Turn) Waited(now time.Time) time.Duration {
	if t.room != nil {
		now = t.began
	}
	return max(0, now.Sub(t.arrived))
}

// Served is what became of a turn.
type Served struct {
	// Prompt, Cached and Completion are the engine's counts, in tokens. Known
	// says that there are any, Measured that Cached is one.
	Prompt, Cached, Completion int
	Known, Measured            bool
	// Failed says that the replica did not serve the turn, so that nothing of it
	// is in its cache.
	Failed bool
}
