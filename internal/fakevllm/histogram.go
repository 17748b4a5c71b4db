package fakevllm

// histogram counts observations by upper bound.
type histogram struct {
	bounds  []float64
	buckets []int // one more than bounds; not cumulative
	count   int
	sum     float64
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, buckets: make([]int, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	at := 0
	for at < len(h.bounds) && v > h.bounds[at] {
		at++
	}
	h.buckets[at]++
	h.count++
	h.sum += v
}

// clone returns a copy that later observations do not change.
func (h *histogram) clone() histogram {
	c := *h
	c.buckets = append([]int(nil), h.buckets...)
	return c
}

// stepTokenBounds are the buckets of vllm:iteration_tokens_total.
func stepTokenBounds() []float64 {
	return []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
}

// firstSecondBounds are the buckets of vllm:time_to_first_token_seconds.
func firstSecondBounds() []float64 {
	return []float64{
		0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
		1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
}
