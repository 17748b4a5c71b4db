package metrics

// LlamaCPP reads the page of llama.cpp's server, which needs --metrics.
//
//   - PromptTokens is prompt_tokens_total, which counts only what was computed,
//     and prompt_tokens_cached_total, which servers since August 2026 have. Of an
//     older one, prompt tokens that were in a slot's cache are not in it, and there
//     is no prefix count.
//   - Steps is n_decode_total.
//   - KVUsage is kv_cache_usage_ratio, which newer servers do not have.
//   - There is no model name and no restart mark. MaxNumSeqs is not on the page:
//     [Scraper.MaxNumSeqs] asks for the number of slots.
//
// The counters move when a request ends, not while it runs. Sources:
// tools/server/README.md of llama.cpp, and pages of builds 9080 and 11151.
func LlamaCPP() Dialect { return llamaCPP{} }

type llamaCPP struct{}

func (llamaCPP) Name() string    { return "llama.cpp" }
func (llamaCPP) Paths() []string { return []string{"/metrics"} }

const (
	llamaRunning series = iota + 1
	llamaWaiting
	llamaUsage
	llamaPrompt
	llamaCached
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
	case "llamacpp:prompt_tokens_cached_total":
		return llamaCached
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
	var computed Number
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
			replace(&computed, n)
		case llamaCached:
			replace(&s.PrefixHits, n)
		case llamaGeneration:
			replace(&s.GenerationTokens, n)
		case llamaSteps:
			replace(&s.Steps, n)
		}
	}
	if !seen {
		return Page{}, parser.err()
	}
	s.PromptTokens = computed
	if computed.OK && s.PrefixHits.OK {
		add(&s.PromptTokens, s.PrefixHits)
		s.PrefixQueries = s.PromptTokens
	}
	return Page{Engines: []Snapshot{s}}, parser.err()
}
