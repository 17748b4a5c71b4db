package metrics

// LlamaCPP reads the page of llama.cpp's server, which needs --metrics.
//
//   - PromptTokens counts only what was computed: prompt tokens that were in a
//     slot's cache are not in it.
//   - Steps is n_decode_total.
//   - KVUsage is kv_cache_usage_ratio, which newer servers do not have.
//   - There is no model name, no prefix count and no restart mark. MaxNumSeqs is
//     not on the page: [Scraper.MaxNumSeqs] asks for the number of slots.
//
// Source: tools/server/README.md of llama.cpp.
func LlamaCPP() Dialect { return llamaCPP{} }

type llamaCPP struct{}

func (llamaCPP) Name() string    { return "llama.cpp" }
func (llamaCPP) Paths() []string { return []string{"/metrics"} }

const (
	llamaRunning series = iota + 1
	llamaWaiting
	llamaUsage
	llamaPrompt
	llamaGeneration
	llamaSteps
)

func llamaCPPSeriesOf(name []byte) series {
	switch string(name) {
	case "llamacpp:requests_processing":
		return llamaRunning
	case "llamacpp:requests_deferred":
		return llamaWaiting
	case "llamacpp:kv_cache_usage_ratio":
		return llamaUsage
	case "llamacpp:prompt_tokens_total":
		return llamaPrompt
	case "llamacpp:tokens_predicted_total":
		return llamaGeneration
	case "llamacpp:n_decode_total":
		return llamaSteps
	}
	return otherSeries
}

// Parse implements [Dialect].
func (llamaCPP) Parse(page []byte) (Page, error) {
	var parser lineParser
	var s Snapshot
	seen := false
	for id, line := range parser.samples(page, llamaCPPSeriesOf) {
		seen = true
		n := nonNegative(line.value)
		switch id {
		case llamaRunning:
			replace(&s.Running, n)
		case llamaWaiting:
			replace(&s.Waiting, n)
		case llamaUsage:
			replace(&s.KVUsage, fraction(line.value))
		case llamaPrompt:
			replace(&s.PromptTokens, n)
		case llamaGeneration:
			replace(&s.GenerationTokens, n)
		case llamaSteps:
			replace(&s.Steps, n)
		}
	}
	if !seen {
		return Page{}, parser.err()
	}
	return Page{Engines: []Snapshot{s}}, parser.err()
}
