package metrics

import "bytes"

// TGI reads the page of Hugging Face's Text Generation Inference.
//
//   - Running is batch_current_size, Waiting is queue_size.
//   - PromptTokens and GenerationTokens are the sums of the histograms of
//     finished requests, RequestsFinished is request_success.
//   - Steps is batch_inference_count over prefill and decode.
//   - The page says nothing of the KV cache, has no model name, no limit and no
//     restart mark.
//
// Source: the chapter "Metrics" of its documentation.
func TGI() Dialect { return tgi{} }

type tgi struct{}

func (tgi) Name() string    { return "tgi" }
func (tgi) Paths() []string { return []string{"/metrics"} }

const (
	tgiRunning series = iota + 1
	tgiWaiting
	tgiPrompt
	tgiGeneration
	tgiFinished
	tgiSteps
)

func tgiSeriesOf(name []byte) series {
	name, ok := bytes.CutPrefix(name, []byte("tgi_"))
	if !ok {
		return otherSeries
	}
	switch string(name) {
	case "batch_current_size":
		return tgiRunning
	case "queue_size":
		return tgiWaiting
	case "request_input_length_sum":
		return tgiPrompt
	case "request_generated_tokens_sum":
		return tgiGeneration
	case "request_success", "request_success_total":
		return tgiFinished
	case "batch_inference_count", "batch_inference_count_total":
		return tgiSteps
	}
	return otherSeries
}

// Parse implements [Dialect].
func (tgi) Parse(page []byte) (Page, error) {
	var parser lineParser
	var s Snapshot
	seen := false
	for id, line := range parser.samples(page, tgiSeriesOf) {
		seen = true
		n := nonNegative(line.value)
		switch id {
		case tgiRunning:
			replace(&s.Running, n)
		case tgiWaiting:
			replace(&s.Waiting, n)
		case tgiPrompt:
			replace(&s.PromptTokens, n)
		case tgiGeneration:
			replace(&s.GenerationTokens, n)
		case tgiFinished:
			add(&s.RequestsFinished, n)
		case tgiSteps:
			add(&s.Steps, n)
		}
	}
	if !seen {
		return Page{}, parser.err()
	}
	return Page{Engines: []Snapshot{s}}, parser.err()
}
