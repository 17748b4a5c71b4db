// Package balance chooses between replicas: which one a new conversation is
// placed on, and when a conversation's home is too busy to go to.
//
// It is pure: no I/O, no goroutines, no clock of its own, and nothing of
// net/http. What it may know comes in as a [Request] and a slice of
// [Candidate]; time comes in as a value.
package balance

import (
	"errors"
	"time"

	"github.com/warmroute/warmroute/replica"
)

// ErrNoCandidate is returned by a [Picker] that is given no candidates.
var ErrNoCandidate = errors.New("no candidate replica")

// Unknown is the value of a number that is missing or too old to be believed:
// missing is not zero.
const Unknown = -1

// Request is what a picker may know of a request.
type Request struct {
	// Session is the hash of the conversation's key, 0 if the request has none.
	Session uint64
	// Parent is the hash of the key of the conversation this one was started
	// from (a sub-agent's main agent), 0 if none.
	Parent uint64
	// Model is the pool's name.
	Model string
	// Adapter is the name of the LoRA adapter that the request is for, "" for the
	// base model.
	Adapter string
	// PromptTokens is an estimate of the prompt's size, 0 if unknown.
	PromptTokens int
	// Home is the index among the candidates of the replica the conversation is
	// bound to, -1 if it has none or it is not among them.
	Home int
	// ParentHome is the same for the parent conversation.
	ParentHome int
	// HomeTokens is the number of tokens that the conversation's last turn left in
	// the cache of its home: its prompt, and its answer where the next prompt
	// begins with that too. 0 if unknown.
	HomeTokens int
	// HomeLost is the part of HomeTokens, 0 to 1, that is probably not there any
	// more, as learned from what was left after pauses as long as this one. 0 if
	// nothing was seen to be lost lately.
	HomeLost float64
	// Prefix is what the prompt begins with, as far as is known.
	Prefix Prefix
	// FamilyShare is the part, 0 to 1, of the conversations placed lately in the
	// pool that [Candidate].Family counts on any of its replicas.
	FamilyShare float64
	// Now is the time of the pick.
	Now time.Time
}

// Candidate is one replica as it is seen at the time of a pick.
type Candidate struct {
	Replica *replica.Replica
	// InFlight is the number of requests this process has on the replica. Exact.
	InFlight int
	// Others is the number of requests that the engine last reported beyond
	// this process's own: those of other gateways. 0 if unknown or stale.
	Others int
	// Sessions is the number of conversations bound to the replica by this
	// process that were active lately. Exact.
	Sessions int
	// Running and Waiting are the engine's own counts from the last scrape,
	// Unknown if missing or stale.
	Running, Waiting int
	// KVUsage is the share of the KV cache that running requests hold, 0 to 1,
	// Unknown if missing or stale. Cached blocks of idle conversations count as
	// free in it (vLLM v1/core/block_pool.py).
	KVUsage float64
	// KVTokens is the capacity of the KV cache in tokens, 0 if unknown.
	KVTokens int
	// Resident is the number of tokens that the conversations bound to the
	// replica are believed to hold in its cache, 0 if unknown.
	Resident int
	// PrefillRate is the speed of prefill in computed tokens a second, as learned
	// from answers, 0 if unknown.
	PrefillRate float64
	// PendingPrefill is the number of prompt tokens that this process has sent to
	// the replica, that it probably has to compute, and that have no first byte
	// yet.
	PendingPrefill int
	// SharedTokens is about how many tokens of the prompt's beginning
	// ([Request.Prefix]) are expected in the replica's cache since other
	// conversations had them, 0 if none or unknown.
	SharedTokens int
	// Family is about how many conversations that begin as this one does were
	// placed on the replica lately, each counting half after [PrefixHalfLife]. To
	// begin as this one does they have in common with it at least half of what any
	// candidate has of it.
	Family float64
	// Adapters are the names of the LoRA adapters that the engine has in use, as
	// far as vllm:lora_requests_info shows it, each once; nil if unknown, empty if
	// it shows none. vLLM lists those that have requests in the batch or the queue
	// there, so an adapter that is loaded but idle is missing; and the series has
	// no engine label, so with several engines behind one front end it need not be
	// about this one. A picker must not change the slice.
	Adapters []string
	// MaxAdapters is the most adapters that the engine has in a batch at a time
	// (vLLM's --max-loras), 0 if unknown. While so many are in use a request for
	// another one waits.
	MaxAdapters int
	// Age is the time since the last scrape; Stale says that it is too old for
	// the scraped values to count. Both are zero if there was no scrape.
	Age   time.Duration
	Stale bool
}

// Load is the number of requests on the replica as far as is known: this
// process's own, and those the engine reported beyond them.
func (c *Candidate) Load() int { return c.InFlight + c.Others }

// Picker chooses a replica. A pool calls its picker under its own lock, so a
// Picker need not be safe for concurrent use, must not block, and must not
// keep the slice or change it. Give each pool a Picker of its own.
type Picker interface {
	// Pick returns the index of the chosen candidate. It returns
	// [ErrNoCandidate] if there are none; any other error, or an index out of
	// range, makes the router fall back to the least loaded candidate.
	Pick(req *Request, candidates []Candidate) (int, error)
}

// HomePicker is a Picker that is also asked for requests whose conversation has
// a home to go to, which is among the candidates then ([Request].Home). If it
// picks the home the request stays, else it goes elsewhere and the conversation
// keeps its home, unless more than three quarters of what it left there are
// probably lost ([Request].HomeLost): then it moves. The spill threshold is not
// looked at.
type HomePicker interface {
	Picker
	// PicksAtHome does nothing; it marks the picker.
	PicksAtHome()
}

// Scorer rates replicas; see [Weighted] for the picker that uses it. The rules
// for a [Picker] hold for a Scorer as well.
type Scorer interface {
	// Score writes one score per candidate into scores, which has their length
	// and is zeroed: higher is better, 0 to 1.
	Score(req *Request, candidates []Candidate, scores []float64)
}
