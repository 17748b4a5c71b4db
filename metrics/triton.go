package metrics

// Triton reads the page of the Triton Inference Server's TensorRT-LLM backend,
// which Triton serves on a port of its own, 8002 unless told otherwise.
//
//   - Running is nv_trt_llm_request_metrics' request_type "scheduled", Waiting
//     its "waiting" and MaxNumSeqs its "max".
//   - KVUsage is nv_trt_llm_kv_cache_block_metrics' kv_cache_block_type
//     "fraction", else "used" out of "max"; KVTokens is "max"*"tokens_per",
//     BlockTokens "tokens_per".
//   - Engine is the label model, but "" where the page has one model only.
//   - There are no counters and no restart mark.
//
// Sources: the metrics section of the TensorRT-LLM backend's README, the model
// server protocol of llm-d.
func Triton() Dialect { return triton{} }

type triton struct{}

func (triton) Name() string    { return "triton" }
func (triton) Paths() []string { return []string{"/metrics"} }

const (
	tritonRequests series = iota + 1
	tritonBlocks
)

func tritonSeriesOf(name []byte) series {
	switch string(name) {
	case "nv_trt_llm_request_metrics":
		return tritonRequests
	case "nv_trt_llm_kv_cache_block_metrics":
		return tritonBlocks
	}
	return otherSeries
}

// tritonEngine gathers one model's series.
type tritonEngine struct {
	Snapshot
	maxBlocks, usedBlocks, blockTokens Number
}

// Parse implements [Dialect].
func (triton) Parse(page []byte) (Page, error) {
	var parser lineParser
	var engines engineSet[tritonEngine]
	for id, s := range parser.samples(page, tritonSeriesOf) {
		model := s.label("model")
		e := engines.of(model)
		if e == nil {
			continue
		}
		setName(&e.Model, model)
		e.add(id, s)
	}
	all := engines.snapshots(func(e *tritonEngine) (Snapshot, bool) { return e.snapshot(), true })
	if len(all) == 1 {
		all[0].Engine = ""
	}
	return Page{Engines: all}, engines.err(&parser)
}

func (e *tritonEngine) add(id series, s *sample) {
	n := nonNegative(s.value)
	if id == tritonRequests {
		switch string(s.label("request_type")) {
		case "scheduled":
			replace(&e.Running, n)
		case "waiting":
			replace(&e.Waiting, n)
		case "max":
			replace(&e.MaxNumSeqs, n)
		}
		return
	}
	switch string(s.label("kv_cache_block_type")) {
	case "fraction":
		replace(&e.KVUsage, fraction(s.value))
	case "max":
		replace(&e.maxBlocks, n)
	case "used":
		replace(&e.usedBlocks, n)
	case "tokens_per":
		replace(&e.blockTokens, n)
	}
}

func (e *tritonEngine) snapshot() Snapshot {
	s := e.Snapshot
	if !s.KVUsage.OK && e.usedBlocks.OK && e.maxBlocks.OK {
		s.KVUsage = fraction(e.usedBlocks.Value / e.maxBlocks.Value)
	}
	s.KVTokens, s.BlockTokens = product(e.maxBlocks, e.blockTokens), e.blockTokens
	return s
}
