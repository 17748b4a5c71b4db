package metrics

import (
	"math"
	"time"
)

// Number is a scraped number that may be missing. Missing is not zero: an
// engine that does not report its queue does not have an empty one.
type Number struct {
	Value float64 // 0 if !OK; never NaN, infinite or negative
	OK    bool    // the page had it
}

// nonNegative takes a value that makes no sense as a count for missing.
func nonNegative(v float64) Number {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return Number{}
	}
	return Number{Value: v, OK: true}
}

// fraction clamps a usage to 0..1; what is not finite is missing.
func fraction(v float64) Number {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Number{}
	}
	return Number{Value: min(max(v, 0), 1), OK: true}
}

// Snapshot is what one engine (one data-parallel rank) said of itself on one
// page.
type Snapshot struct {
	Engine string // value of the engine label, "" if the page has none
	Model  string // model_name: the first served name; "" if the page has none

	// Running and Waiting are requests in the engine's batch and in its queue.
	// An engine updates them only when it steps: one that is idle or hangs
	// repeats its last values (vllm#29928).
	Running, Waiting Number
	// WaitingForCapacity is the part of Waiting that waits for room in the
	// batch or the cache and not for something else. Above zero the engine is
	// at its limit. vLLM has it since 0.20.
	WaitingForCapacity Number

	// KVUsage is the part of the KV cache held by running requests, 0..1.
	// Blocks that are cached and not in use count as free.
	KVUsage Number
	// PrefixQueries and PrefixHits count, since the engine started, the prompt
	// tokens looked up in the prefix cache and found there. vLLM 0.8.5 counts
	// blocks.
	PrefixQueries, PrefixHits Number
	// KVTokens is the capacity of the KV cache in tokens.
	KVTokens Number

	// Steps counts the engine's iterations: requests in flight while it stands
	// still mean an engine that hangs.
	Steps Number
	// Started is the Unix time in seconds at which the process that answered
	// was started. Another value means that counters and caches began anew.
	Started Number
}

// Page is what one endpoint's metrics page said.
type Page struct {
	// Time is when the page had been read.
	Time time.Time
	// Engines is sorted by engine label, numerically where the labels are
	// numbers. It is empty if the page has no engine series, as with vLLM's
	// --disable-log-stats.
	Engines []Snapshot
	// Err is not nil if only a part of the page could be read: it was longer
	// than [Config.MaxBytes], broke off, or had lines that make no sense. What
	// could be read is in Engines.
	Err error
}

// Dialect reads one kind of engine's page. Its methods may be called
// concurrently.
type Dialect interface {
	// Name is the engine's name in lower case, such as "vllm".
	Name() string
	// Path is the page's path below an endpoint's base URL, such as "/metrics".
	Path() string
	// Parse returns the engines on the page, sorted as in [Page]. The error
	// tells what could not be read; the snapshots returned beside it hold the
	// rest. Parse must not keep or change page.
	Parse(page []byte) ([]Snapshot, error)
}
