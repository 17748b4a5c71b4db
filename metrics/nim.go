package metrics

// NIM reads the page of an NVIDIA NIM for LLMs: vLLM's series without their
// prefix, and MaxNumSeqs from num_request_max. A page that has both kinds of
// names is vLLM's. RequestsFinished is request_finish_total where the page has
// it, else request_success_total.
//
// A page counts as a NIM's only if it has requests, their limit or the cache's
// usage: the other names could be anybody's.
//
// Sources: "Observability" in the documentation of NVIDIA NIM for LLMs and of
// its vision language models.
func NIM() Dialect { return nim{} }

type nim struct{}

func (nim) Name() string    { return "nim" }
func (nim) Paths() []string { return []string{"/v1/metrics", "/metrics"} }

// Parse implements [Dialect].
func (nim) Parse(text []byte) (Page, error) {
	r, err := readVLLM(text, nimSeriesOf)
	page := r.page()
	page.RankHeader = false
	known := false
	for i := range page.Engines {
		e := &page.Engines[i]
		known = known || e.Running.OK || e.Waiting.OK || e.KVUsage.OK || e.MaxNumSeqs.OK
		if len(page.Engines) == 1 {
			replace(&e.RequestsFinished, r.nimFinished)
		}
	}
	if !known {
		page = Page{}
	}
	return page, err
}

func nimSeriesOf(name []byte) series {
	switch string(name) {
	case "process_start_time_seconds":
		return vllmProcessStart
	case "num_request_max":
		return nimRequestMax
	case "request_finish_total", "request_finish":
		return nimFinished
	}
	return vllmShortName(name)
}
