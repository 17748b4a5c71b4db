package metrics

import (
	"math"
	"slices"
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

// replace keeps the old number where the new one is missing.
func replace(old *Number, n Number) {
	if n.OK {
		*old = n
	}
}

// add sums numbers, as long as the sum is one.
func add(sum *Number, n Number) {
	if n.OK {
		replace(sum, nonNegative(sum.Value+n.Value))
	}
}

// product is missing if one of its factors is.
func product(a, b Number) Number {
	if !a.OK || !b.OK {
		return Number{}
	}
	return nonNegative(a.Value * b.Value)
}

// Snapshot is what one engine (one data-parallel rank) said of itself on one
// page. Counters run since the engine started.
type Snapshot struct {
	Engine string // value of the label that names the engine, "" if there is none
	Model  string // the model's name on the page, vLLM's first served name; "" if it has none

	// Running and Waiting are requests in the engine's batch and in its queue.
	// An engine updates them only when it steps: one that is idle or hangs
	// repeats its last values (vllm#29928).
	Running, Waiting Number
	// WaitingForCapacity is the part of Waiting that waits for room in the
	// batch or the cache and not for something else. Above zero the engine is
	// at its limit. vLLM has it since 0.20.
	WaitingForCapacity Number
	// MaxNumSeqs is the most requests the engine runs at the same time. vLLM and
	// SGLang have it on no page: see [Scraper.MaxNumSeqs].
	MaxNumSeqs Number

	// KVUsage is the part of the KV cache held by running requests, 0..1.
	// Blocks that are cached and not in use count as free.
	KVUsage Number
	// PrefixQueries and PrefixHits count the prompt tokens looked up in the
	// prefix cache and found there.
	PrefixQueries, PrefixHits Number
	// KVTokens is the capacity of the KV cache in tokens.
	KVTokens Number
	// BlockTokens is the size of a block of the KV cache in tokens. Prefixes are
	// cached in whole blocks. vLLM's label is the smallest of several for models
	// with several kinds of cache (vllm#51163).
	BlockTokens Number

	// PromptTokens and GenerationTokens count the tokens of the requests'
	// prompts, those found in the prefix cache among them (but for older
	// [LlamaCPP]), and of the answers.
	PromptTokens, GenerationTokens Number
	// Preemptions counts requests that were put back from the batch into the
	// queue for want of cache.
	Preemptions Number
	// RequestsFinished counts requests that came to an end, in vLLM whatever the
	// reason.
	RequestsFinished Number

	// Steps counts the engine's iterations: requests in flight while it stands
	// still mean an engine that hangs.
	Steps Number
	// Started is the Unix time in seconds at which the process that answered
	// was started. Another value means that counters and caches began anew.
	Started Number
	// Sleeping is true only if the engine says that it is not awake: its cache
	// is gone and requests wait until somebody wakes it. vLLM says so since
	// 0.11.1.
	Sleeping bool
}

// setName does not allocate if the name is the same.
func setName(old *string, name []byte) {
	if len(name) > 0 && *old != string(name) {
		*old = string(name)
	}
}

// Page is what one endpoint's metrics page said.
type Page struct {
	// Asked is when the request for the page was sent: what had ended by then is
	// on it. Time is when the page had been read.
	Asked, Time time.Time
	// Dialect is the [Dialect.Name] of the dialect that read the engines; "" if
	// there are none.
	Dialect string
	// Engines is sorted by engine label, numerically where the labels are
	// numbers.
	Engines []Snapshot
	// NoEngineSeries tells that this is a metrics page and that nothing on it
	// is an engine's, as with vLLM's --disable-log-stats. Engines is empty then,
	// and Err is nil. A page that is none, such as HTML, is an error of
	// [Scraper.Scrape].
	NoEngineSeries bool
	// RankHeader tells that each engine of the page can be addressed with the
	// header X-Data-Parallel-Rank, whose value is the engine's place in Engines
	// and not its label, which is global in vLLM's hybrid and external load
	// balancing. vLLM obeys the header since 0.14.0 (vllm#29002) and SGLang
	// since sglang#19832; older pages look the same, see [Scraper.Version].
	RankHeader bool
	// LoRA is nil if the page says nothing of adapters.
	LoRA *LoRA
	// Err is not nil if only a part of the page could be read: it was longer
	// than [Config.MaxBytes], broke off, or had lines that make no sense. What
	// could be read is in Engines.
	Err error
}

// clone returns a page that shares no memory with p.
func (p Page) clone() Page {
	p.Engines = slices.Clone(p.Engines)
	if p.LoRA != nil {
		lora := *p.LoRA
		lora.Running, lora.Waiting = slices.Clone(lora.Running), slices.Clone(lora.Waiting)
		p.LoRA = &lora
	}
	return p
}
