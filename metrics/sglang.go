package metrics

import "bytes"

// SGLang reads the page of SGLang, which needs --enable-metrics.
//
//   - Engine is dp_rank, a label that is there only with data parallelism.
//     Several tensor, pipeline or expert ranks may report the same engine: for
//     each series the lowest of them counts. Breakdowns by priority are left out.
//   - Requests, tokens and prefix counts (cached_tokens_total out of
//     prompt_tokens_total) are counted by the front end for all its engines. With
//     several engines they are nobody's, and realtime_tokens_total, which each
//     engine counts itself, stands in for them; RequestsFinished is missing then.
//   - cached_tokens_total is not on the page before the first hit: PrefixHits is
//     missing, not 0.
//   - Steps is the sum of cuda_graph_passes_total, Preemptions is
//     num_retracted_requests_total.
//   - There is no restart mark.
//
// Source: python/sglang/srt/observability/metrics_collector.py.
func SGLang() Dialect { return sglang{} }

type sglang struct{}

func (sglang) Name() string    { return "sglang" }
func (sglang) Paths() []string { return []string{"/metrics"} }

const (
	sglangRunning series = iota + 1
	sglangWaiting
	sglangUsage
	sglangKVTokens
	sglangRetracted
	sglangPasses
	sglangRealtime
	sglangPrompt
	sglangGeneration
	sglangCached
	sglangFinished
)

func sglangSeriesOf(name []byte) series {
	name, ok := bytes.CutPrefix(name, []byte("sglang"))
	if !ok || len(name) == 0 || name[0] != ':' && name[0] != '_' {
		return otherSeries
	}
	switch string(name[1:]) {
	case "num_running_reqs":
		return sglangRunning
	case "num_queue_reqs":
		return sglangWaiting
	case "token_usage":
		return sglangUsage
	case "max_total_num_tokens":
		return sglangKVTokens
	case "num_retracted_requests_total":
		return sglangRetracted
	case "cuda_graph_passes_total":
		return sglangPasses
	case "realtime_tokens_total":
		return sglangRealtime
	case "prompt_tokens_total":
		return sglangPrompt
	case "generation_tokens_total":
		return sglangGeneration
	case "cached_tokens_total":
		return sglangCached
	case "num_requests_total":
		return sglangFinished
	}
	return otherSeries
}

// Parse implements [Dialect].
func (sglang) Parse(page []byte) (Page, error) {
	var (
		parser   lineParser
		engines  engineSet[sglangEngine]
		frontend sglangEngine // what no dp_rank is said of
		counted  bool         // frontend has something
		labelled bool         // an engine has a dp_rank
	)
	for id, s := range parser.samples(page, sglangSeriesOf) {
		if len(s.label("priority")) > 0 {
			continue
		}
		rank := s.label("dp_rank")
		labelled = labelled || len(rank) > 0
		e := &frontend
		if id < sglangPrompt || len(rank) > 0 {
			e = engines.of(rank)
		} else {
			counted = true
		}
		if e != nil {
			e.add(id, s)
		}
	}
	if len(engines.byLabel) == 0 && counted {
		engines.of(nil)
	}
	one := len(engines.byLabel) == 1
	return Page{
		Engines: engines.snapshots(func(e *sglangEngine) (Snapshot, bool) {
			if one {
				e.take(&frontend)
			} else {
				e.takeRealtime()
			}
			return e.snapshot(), true
		}),
		RankHeader: labelled,
	}, engines.err(&parser)
}

// sglangEngine gathers one engine's series.
type sglangEngine struct {
	model                                string
	running, waiting, usage, kvTokens    replicated
	retracted, passes                    replicated
	computed, fromCache, decoded         replicated // realtime_tokens_total by mode
	prompt, generation, cached, finished replicated
}

func (e *sglangEngine) add(id series, s *sample) {
	setName(&e.model, s.label("model_name"))
	n, rank := nonNegative(s.value), schedulerRank(s)
	switch id {
	case sglangRunning:
		e.running.set(rank, n)
	case sglangWaiting:
		e.waiting.set(rank, n)
	case sglangUsage:
		e.usage.set(rank, fraction(s.value))
	case sglangKVTokens:
		e.kvTokens.set(rank, n)
	case sglangRetracted:
		e.retracted.set(rank, n)
	case sglangPasses:
		e.passes.add(rank, n)
	case sglangRealtime:
		switch string(s.label("mode")) {
		case "prefill_compute":
			e.computed.set(rank, n)
		case "prefill_cache":
			e.fromCache.set(rank, n)
		case "decode":
			e.decoded.set(rank, n)
		}
	case sglangPrompt:
		e.prompt.add(rank, n)
	case sglangGeneration:
		e.generation.add(rank, n)
	case sglangCached:
		e.cached.add(rank, n)
	case sglangFinished:
		e.finished.add(rank, n)
	}
}

// take gives the only engine what the front end counted.
func (e *sglangEngine) take(frontend *sglangEngine) {
	replace(&e.prompt.Number, frontend.prompt.Number)
	replace(&e.generation.Number, frontend.generation.Number)
	replace(&e.cached.Number, frontend.cached.Number)
	replace(&e.finished.Number, frontend.finished.Number)
	if e.model == "" {
		e.model = frontend.model
	}
}

// takeRealtime gives one of several engines what it counted itself, where the
// front end's counts are not told apart.
func (e *sglangEngine) takeRealtime() {
	if !e.prompt.OK && !e.cached.OK {
		add(&e.prompt.Number, e.computed.Number)
		add(&e.prompt.Number, e.fromCache.Number)
		e.cached = e.fromCache
	}
	if !e.generation.OK {
		e.generation = e.decoded
	}
}

func (e *sglangEngine) snapshot() Snapshot {
	return Snapshot{
		Model: e.model, Running: e.running.Number, Waiting: e.waiting.Number,
		KVUsage: e.usage.Number, KVTokens: e.kvTokens.Number,
		PrefixQueries: e.prompt.Number, PrefixHits: e.cached.Number,
		PromptTokens: e.prompt.Number, GenerationTokens: e.generation.Number,
		Preemptions: e.retracted.Number, RequestsFinished: e.finished.Number, Steps: e.passes.Number,
	}
}

// replicated is a number that several ranks of one engine report. The lowest
// rank's counts.
type replicated struct {
	Number
	rank int
}

// set takes over a rank's number, the last one if it comes twice.
func (r *replicated) set(rank int, n Number) {
	if n.OK && (!r.OK || rank <= r.rank) {
		r.Number, r.rank = n, rank
	}
}

// add sums up a rank's numbers.
func (r *replicated) add(rank int, n Number) {
	if r.OK && rank == r.rank {
		add(&r.Number, n)
		return
	}
	r.set(rank, n)
}

// schedulerRank orders the ranks that may report one engine: by pipeline rank,
// then tensor, then expert rank. A rank that is not on the line is 0.
func schedulerRank(s *sample) int {
	const most = 1 << 10
	order := 0
	for _, name := range [...]string{"pp_rank", "tp_rank", "moe_ep_rank"} {
		rank := 0
		for _, c := range s.label(name) {
			if c < '0' || c > '9' {
				break
			}
			rank = min(rank*10+int(c-'0'), most-1)
		}
		order = order*most + rank
	}
	return order
}
