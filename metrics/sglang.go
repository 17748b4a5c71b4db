package metrics

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
//   - KVTokens is max_total_num_tokens, BlockTokens is page_size.
//   - Steps is the sum of cuda_graph_passes_total, Preemptions is
//     num_retracted_requests_total.
//   - There is no restart mark.
//
// Source: python/sglang/srt/observability/metrics_collector.py.
func SGLang() Dialect { return sglang{} }

type sglang struct{}

func (sglang) Name() string    { return "sglang" }
func (sglang) Paths() []string { return []string{"/metrics"} }

// What is gathered of each engine. From sglangPrompt on the front end may have
// counted it, for all its engines.
const (
	sglangRunning series = iota + 1
	sglangWaiting
	sglangUsage
	sglangKVTokens
	sglangPageSize
	sglangRetracted
	sglangPasses
	sglangComputed // realtime_tokens_total by mode
	sglangFromCache
	sglangDecoded
	sglangPrompt
	sglangGeneration
	sglangCached
	sglangFinished
	sglangCount // of the above, and one
)

func sglangSeriesOf(name []byte) series {
	switch string(shortName(name, "sglang")) {
	case "num_running_reqs":
		return sglangRunning
	case "num_queue_reqs":
		return sglangWaiting
	case "token_usage":
		return sglangUsage
	case "max_total_num_tokens":
		return sglangKVTokens
	case "page_size":
		return sglangPageSize
	case "num_retracted_requests_total":
		return sglangRetracted
	case "cuda_graph_passes_total":
		return sglangPasses
	case "realtime_tokens_total":
		return sglangComputed // until the mode is known
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

// sglangMode tells the modes of realtime_tokens_total apart.
func sglangMode(mode []byte) series {
	switch string(mode) {
	case "prefill_compute":
		return sglangComputed
	case "prefill_cache":
		return sglangFromCache
	case "decode":
		return sglangDecoded
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
	model string
	of    [sglangCount]replicated
}

func (e *sglangEngine) add(id series, s *sample) {
	setName(&e.model, s.label("model_name"))
	n, rank := nonNegative(s.value), schedulerRank(s)
	switch id {
	case sglangUsage:
		n = fraction(s.value)
	case sglangComputed:
		if id = sglangMode(s.label("mode")); id == otherSeries {
			return
		}
	case sglangPasses, sglangPrompt, sglangGeneration, sglangCached, sglangFinished:
		e.of[id].add(rank, n) // it comes in parts
		return
	}
	e.of[id].set(rank, n)
}

// take gives the only engine what the front end counted.
func (e *sglangEngine) take(frontend *sglangEngine) {
	for id := sglangPrompt; id < sglangCount; id++ {
		replace(&e.of[id].Number, frontend.of[id].Number)
	}
	if e.model == "" {
		e.model = frontend.model
	}
}

// takeRealtime gives one of several engines what it counted itself, where the
// front end's counts are not told apart.
func (e *sglangEngine) takeRealtime() {
	if !e.of[sglangPrompt].OK && !e.of[sglangCached].OK {
		add(&e.of[sglangPrompt].Number, e.of[sglangComputed].Number)
		add(&e.of[sglangPrompt].Number, e.of[sglangFromCache].Number)
		e.of[sglangCached] = e.of[sglangFromCache]
	}
	if !e.of[sglangGeneration].OK {
		e.of[sglangGeneration] = e.of[sglangDecoded]
	}
}

func (e *sglangEngine) snapshot() Snapshot {
	n := func(id series) Number { return e.of[id].Number }
	return Snapshot{
		Model: e.model, Running: n(sglangRunning), Waiting: n(sglangWaiting),
		KVUsage: n(sglangUsage), KVTokens: n(sglangKVTokens), BlockTokens: n(sglangPageSize),
		PrefixQueries: n(sglangPrompt), PrefixHits: n(sglangCached),
		PromptTokens: n(sglangPrompt), GenerationTokens: n(sglangGeneration),
		Preemptions: n(sglangRetracted), RequestsFinished: n(sglangFinished), Steps: n(sglangPasses),
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
