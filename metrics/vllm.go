package metrics

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// maxEngines bounds what a page full of made-up engine labels costs. It is far
// above any data-parallel size.
const maxEngines = 4096

// errTooManyEngines is in a page's error if engines beyond maxEngines were
// left out.
var errTooManyEngines = fmt.Errorf("metrics: more than %d engines, the rest is left out", maxEngines)

// VLLM reads vLLM's page, from version 0.8.5 on.
//
//   - Series carry the prefix "vllm:", or "ray_vllm:", "ray_vllm_" or "vllm_"
//     where Ray Serve or a relabelling has rewritten it. Counters come with or
//     without "_total".
//   - kv_cache_usage_perc and prefix_cache_* go before the older
//     gpu_cache_usage_perc and gpu_prefix_cache_*, which are gone since 0.12.0
//     (vllm#18354).
//   - KVTokens is cache_config_info's label kv_cache_size_tokens (0.24 and
//     newer), else num_gpu_blocks*block_size shared out among the page's
//     engines, since num_gpu_blocks is the sum over all of them, repeated on
//     each. The product is off for models with several kinds of KV cache
//     (vllm#42966, vllm#51163). A label "None" is absent (vllm#16560).
//   - Started is process_start_time_seconds, else the smallest _created of the
//     engine's series. A vLLM with several API processes has neither.
//   - If a series of an engine comes twice, the last one counts. A value that
//     is NaN, infinite or, but for the usage, negative counts as not there.
//   - A line that cannot be read costs only itself and is named in the error.
//     A page without vLLM's series, whatever else it holds, has no engines and
//     is no error.
func VLLM() Dialect { return vllm{} }

type vllm struct{}

func (vllm) Name() string { return "vllm" }
func (vllm) Path() string { return "/metrics" }

// vllmSeries is one of the series Parse reads.
type vllmSeries uint8

const (
	vllmOther vllmSeries = iota
	vllmRunning
	vllmWaiting
	vllmWaitingByReason
	vllmKVUsage
	vllmKVUsageOld
	vllmPrefixQueries
	vllmPrefixQueriesOld
	vllmPrefixHits
	vllmPrefixHitsOld
	vllmSteps
	vllmCacheConfig
	vllmCreated
	vllmProcessStart
)

// vllmSeriesOf tells from its name which series a line belongs to. It runs for
// every line of a page and does not allocate.
func vllmSeriesOf(name []byte) vllmSeries {
	if string(name) == "process_start_time_seconds" {
		return vllmProcessStart
	}
	name = bytes.TrimPrefix(name, []byte("ray_"))
	name, ok := bytes.CutPrefix(name, []byte("vllm"))
	if !ok || len(name) == 0 || name[0] != ':' && name[0] != '_' {
		return vllmOther
	}
	name = name[1:]
	switch string(name) {
	case "num_requests_running":
		return vllmRunning
	case "num_requests_waiting":
		return vllmWaiting
	case "num_requests_waiting_by_reason":
		return vllmWaitingByReason
	case "kv_cache_usage_perc":
		return vllmKVUsage
	case "gpu_cache_usage_perc":
		return vllmKVUsageOld
	case "prefix_cache_queries_total", "prefix_cache_queries":
		return vllmPrefixQueries
	case "gpu_prefix_cache_queries_total", "gpu_prefix_cache_queries":
		return vllmPrefixQueriesOld
	case "prefix_cache_hits_total", "prefix_cache_hits":
		return vllmPrefixHits
	case "gpu_prefix_cache_hits_total", "gpu_prefix_cache_hits":
		return vllmPrefixHitsOld
	case "iteration_tokens_total_count": // a histogram, its name ends in _total
		return vllmSteps
	case "cache_config_info":
		return vllmCacheConfig
	}
	if bytes.HasSuffix(name, []byte("_created")) {
		return vllmCreated
	}
	return vllmOther
}

// Parse implements [Dialect].
func (vllm) Parse(page []byte) ([]Snapshot, error) {
	var (
		parser  lineParser
		engines vllmEngines
		started Number
		created bool // the page has _created series
	)
	for line := range sampleLines(page) {
		series := vllmSeriesOf(line.name)
		switch series {
		case vllmOther:
			continue
		case vllmCreated:
			created = true // read below, if it has to be
			continue
		}
		s, ok := parser.parse(line)
		switch {
		case !ok:
		case series == vllmProcessStart:
			replace(&started, nonNegative(s.value))
		default:
			if engine := engines.of(s.label("engine")); engine != nil {
				engine.add(series, s)
			}
		}
	}
	if created && !started.OK {
		for line := range sampleLines(page) {
			if vllmSeriesOf(line.name) != vllmCreated {
				continue
			}
			if s, ok := parser.parse(line); ok {
				engines.created(s)
			}
		}
	}
	return engines.snapshots(started), errors.Join(parser.err(), engines.err)
}

// vllmEngine gathers one engine's series.
type vllmEngine struct {
	Snapshot
	oldUsage, oldQueries, oldHits Number
	sizeTokens, blocks, blockSize Number // labels of cache_config_info
}

// vllmEngines is a page's engines by their label.
type vllmEngines struct {
	byLabel map[string]*vllmEngine
	err     error
}

// of returns the engine with a label, a new one if need be; nil if there are
// too many.
func (e *vllmEngines) of(name string) *vllmEngine {
	if engine := e.byLabel[name]; engine != nil {
		return engine
	}
	if len(e.byLabel) == maxEngines {
		e.err = errTooManyEngines
		return nil
	}
	if e.byLabel == nil {
		e.byLabel = make(map[string]*vllmEngine)
	}
	engine := &vllmEngine{Snapshot: Snapshot{Engine: name}}
	e.byLabel[name] = engine
	return engine
}

// created takes a _created sample as the engine's start if it is the oldest.
func (e *vllmEngines) created(s sample) {
	engine := e.byLabel[s.label("engine")]
	if n := nonNegative(s.value); engine != nil && n.OK && (!engine.Started.OK || n.Value < engine.Started.Value) {
		engine.Started = n
	}
}

func (e *vllmEngine) add(series vllmSeries, s sample) {
	if model := s.label("model_name"); model != "" {
		e.Model = model
	}
	n := nonNegative(s.value)
	switch series {
	case vllmRunning:
		replace(&e.Running, n)
	case vllmWaiting:
		replace(&e.Waiting, n)
	case vllmWaitingByReason:
		if s.label("reason") == "capacity" {
			replace(&e.WaitingForCapacity, n)
		}
	case vllmKVUsage:
		replace(&e.KVUsage, fraction(s.value))
	case vllmKVUsageOld:
		replace(&e.oldUsage, fraction(s.value))
	case vllmPrefixQueries:
		replace(&e.PrefixQueries, n)
	case vllmPrefixQueriesOld:
		replace(&e.oldQueries, n)
	case vllmPrefixHits:
		replace(&e.PrefixHits, n)
	case vllmPrefixHitsOld:
		replace(&e.oldHits, n)
	case vllmSteps:
		replace(&e.Steps, n)
	case vllmCacheConfig:
		replace(&e.sizeTokens, sizeLabel(s.label("kv_cache_size_tokens")))
		replace(&e.blocks, sizeLabel(s.label("num_gpu_blocks")))
		replace(&e.blockSize, sizeLabel(s.label("block_size")))
	}
}

// replace keeps the old number where the new one is missing.
func replace(old *Number, n Number) {
	if n.OK {
		*old = n
	}
}

// sizeLabel reads a size out of a label's value. "None", a text and zero are
// not sizes.
func sizeLabel(value string) Number {
	v, err := strconv.ParseFloat(value, 64)
	if err != nil || v == 0 {
		return Number{}
	}
	return nonNegative(v)
}

func (e *vllmEngines) snapshots(started Number) []Snapshot {
	if len(e.byLabel) == 0 {
		return nil
	}
	all := make([]Snapshot, 0, len(e.byLabel))
	for _, engine := range e.byLabel {
		all = append(all, engine.snapshot(started, len(e.byLabel)))
	}
	slices.SortFunc(all, func(a, b Snapshot) int { return compareEngines(a.Engine, b.Engine) })
	return all
}

// snapshot settles what the page said in more than one way.
func (e *vllmEngine) snapshot(started Number, engines int) Snapshot {
	s := e.Snapshot
	if !s.KVUsage.OK {
		s.KVUsage = e.oldUsage
	}
	// The two counters are one pair: a hit rate out of both names means nothing.
	if !s.PrefixQueries.OK && !s.PrefixHits.OK {
		s.PrefixQueries, s.PrefixHits = e.oldQueries, e.oldHits
	}
	s.KVTokens = e.sizeTokens
	if !s.KVTokens.OK && e.blocks.OK && e.blockSize.OK {
		s.KVTokens = nonNegative(math.Floor(e.blocks.Value/float64(engines)) * e.blockSize.Value)
	}
	replace(&s.Started, started)
	return s
}

// compareEngines puts numbers first and in their order, then the other labels
// in theirs.
func compareEngines(a, b string) int {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	switch {
	case errA == nil && errB == nil:
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return cmp.Compare(a, b)
}
