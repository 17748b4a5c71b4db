package metrics

import (
	"math"
	"strconv"
)

// VLLM reads vLLM's page, from version 0.8.5 to 0.33.
//
//   - Series carry the prefix "vllm:", or "ray_vllm:", "ray_vllm_" or "vllm_"
//     where Ray Serve or a relabelling has rewritten it. Counters come with or
//     without "_total".
//   - kv_cache_usage_perc and prefix_cache_* go before the older
//     gpu_cache_usage_perc and gpu_prefix_cache_*, which are gone since 0.12.0
//     (vllm#18354). Where the older ones are alone the page is 0.8.5's, which
//     counts blocks: they are multiplied by cache_config_info's label
//     block_size, and missing without it.
//   - KVTokens is cache_config_info's label kv_cache_size_tokens (0.24 and
//     newer), else num_gpu_blocks*block_size shared out among the page's
//     engines, since num_gpu_blocks is the sum over all of them, repeated on
//     each. The product is off for models with several kinds of KV cache
//     (vllm#42966, vllm#51163). A label "None" is absent (vllm#16560).
//   - BlockTokens is the label block_size.
//   - MaxNumSeqs is on no page of vLLM; a NIM adds num_request_max to it.
//   - RequestsFinished is the sum of request_success_total over its reasons.
//   - Sleeping is engine_sleep_state's "awake" at 0 (0.11.1 and newer).
//   - Started is process_start_time_seconds, else the smallest _created of the
//     engine's series. A vLLM with several API processes has neither.
//   - RankHeader is false for pages without engine labels and for those with
//     names that were gone before the header took effect.
//   - Series come once for each engine; if one comes twice, the last one counts.
//     A value that is NaN, infinite or, but for the usage, negative counts as
//     not there.
//   - A line that cannot be read costs only itself and is named in the error.
func VLLM() Dialect { return vllm{} }

type vllm struct{}

func (vllm) Name() string    { return "vllm" }
func (vllm) Paths() []string { return []string{"/metrics"} }

// Parse implements [Dialect].
func (vllm) Parse(page []byte) (Page, error) {
	r, err := readVLLM(page, vllmSeriesOf)
	return r.page(), err
}

// readVLLM gathers what a page has of vLLM's series.
func readVLLM(page []byte, seriesOf func(name []byte) series) (*vllmPage, error) {
	var parser lineParser
	var r vllmPage
	for id, s := range parser.samples(page, seriesOf) {
		r.add(id, s)
	}
	return &r, r.engines.err(&parser)
}

// vllmPage gathers a page's series.
type vllmPage struct {
	engines     engineSet[vllmEngine]
	started     Number
	requestMax  Number
	nimFinished Number
	lora        loraInfo
	labelled    bool // an engine is named
	oldNames    bool
}

// vllmEngine gathers one engine's series.
type vllmEngine struct {
	Snapshot
	seen                          bool   // has a series of its own
	created                       Number // smallest _created
	oldUsage, oldQueries, oldHits Number
	sizeTokens, blocks, blockSize Number // labels of cache_config_info
}

func (r *vllmPage) add(id series, s *sample) {
	n := nonNegative(s.value)
	switch id {
	case vllmProcessStart:
		replace(&r.started, n)
		return
	case nimRequestMax:
		replace(&r.requestMax, n)
		return
	case nimFinished:
		add(&r.nimFinished, n)
		return
	case vllmLoRA:
		r.lora.add(s)
		return
	case vllmKVUsageOld, vllmPrefixQueriesOld, vllmPrefixHitsOld:
		r.oldNames = true
	}
	name := s.label("engine")
	e := r.engines.of(name)
	if e == nil {
		return
	}
	if id == vllmCreated {
		if n.OK && (!e.created.OK || n.Value < e.created.Value) {
			e.created = n
		}
		return
	}
	e.seen = true
	r.labelled = r.labelled || len(name) > 0
	e.add(id, n, s)
}

func (e *vllmEngine) add(id series, n Number, s *sample) {
	setName(&e.Model, s.label("model_name"))
	switch id {
	case vllmRunning:
		replace(&e.Running, n)
	case vllmWaiting:
		replace(&e.Waiting, n)
	case vllmWaitingByReason:
		if string(s.label("reason")) == "capacity" {
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
	case vllmPromptTokens:
		replace(&e.PromptTokens, n)
	case vllmGenerationTokens:
		replace(&e.GenerationTokens, n)
	case vllmPreemptions:
		replace(&e.Preemptions, n)
	case vllmFinished:
		add(&e.RequestsFinished, n)
	case vllmSteps:
		replace(&e.Steps, n)
	case vllmSleepState:
		if n.OK && string(s.label("sleep_state")) == "awake" {
			e.Sleeping = n.Value == 0
		}
	case vllmCacheConfig:
		replace(&e.sizeTokens, sizeLabel(s.label("kv_cache_size_tokens")))
		replace(&e.blocks, sizeLabel(s.label("num_gpu_blocks")))
		replace(&e.blockSize, sizeLabel(s.label("block_size")))
	}
}

// sizeLabel reads a size out of a label's value. "None", a text and zero are
// not sizes.
func sizeLabel(value []byte) Number {
	v, err := strconv.ParseFloat(string(value), 64)
	if err != nil || v == 0 {
		return Number{}
	}
	return nonNegative(v)
}

// page settles what was said in more than one way.
func (r *vllmPage) page() Page {
	engines := 0
	for _, e := range r.engines.byLabel {
		if e.seen {
			engines++
		}
	}
	return Page{
		Engines: r.engines.snapshots(func(e *vllmEngine) (Snapshot, bool) {
			return e.snapshot(r, engines), e.seen
		}),
		RankHeader: r.labelled && !r.oldNames,
		LoRA:       r.lora.newest,
	}
}

func (e *vllmEngine) snapshot(r *vllmPage, engines int) Snapshot {
	s := e.Snapshot
	if !s.KVUsage.OK {
		s.KVUsage = e.oldUsage
	}
	// The two counters are one pair: a hit rate out of both names means nothing.
	if !s.PrefixQueries.OK && !s.PrefixHits.OK {
		s.PrefixQueries, s.PrefixHits = product(e.oldQueries, e.blockSize), product(e.oldHits, e.blockSize)
	}
	s.KVTokens = e.sizeTokens
	if !s.KVTokens.OK && e.blocks.OK {
		share := nonNegative(math.Floor(e.blocks.Value / float64(engines)))
		s.KVTokens = product(share, e.blockSize)
	}
	s.BlockTokens = e.blockSize
	s.MaxNumSeqs = r.requestMax
	replace(&s.Started, e.created)
	replace(&s.Started, r.started)
	return s
}
