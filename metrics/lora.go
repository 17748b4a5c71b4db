package metrics

import "strings"

// LoRA is what a page says of adapters, from vllm:lora_requests_info. The
// series is the frontend's and not an engine's: with several engines each of
// them overwrites what the others said, and with several API processes the
// newest entry need not be the newest truth. Take it as a hint.
type LoRA struct {
	// Max is the most adapters an engine has in a batch: --max-loras.
	Max Number
	// Running and Waiting are the names of the adapters with requests in the batch
	// and in the queue. vLLM's V1 engine lists every adapter with a request in
	// either under both, also at 0 (v1/metrics/stats.py).
	Running, Waiting []string
}

// loraInfo keeps the entry with the largest value, which is its Unix time.
type loraInfo struct {
	newest *LoRA
	at     float64
}

func (l *loraInfo) add(s *sample) {
	at := nonNegative(s.value)
	if !at.OK || l.newest != nil && at.Value < l.at {
		return
	}
	l.at = at.Value
	l.newest = &LoRA{
		Max:     sizeLabel(s.label("max_lora")),
		Running: names(s.label("running_lora_adapters")),
		Waiting: names(s.label("waiting_lora_adapters")),
	}
}

// names splits a comma list.
func names(list []byte) []string {
	var all []string
	for name := range strings.SplitSeq(string(list), ",") {
		if name = strings.TrimSpace(name); name != "" {
			all = append(all, name)
		}
	}
	return all
}
