package fakevllm

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// sample is what one rank contributes to the metrics page.
type sample struct {
	running, waiting int
	usage            float64
	queries, found   int
	preemptions      int
	asleep           bool
	counts           counts
}

// sample copies a rank's numbers. vLLM shows those of the end of the last
// step; here they are the ones of this moment.
func (e *engine) sample() sample {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := sample{
		running: len(e.sched.running), waiting: len(e.sched.waiting),
		usage:   e.sched.pool.usage(),
		queries: e.sched.queries, found: e.sched.found,
		preemptions: e.sched.preemptions,
		asleep:      e.hold.asleep,
		counts:      e.counts,
	}
	s.counts.stepTokens = e.counts.stepTokens.clone()
	s.counts.firstSeconds = e.counts.firstSeconds.clone()
	return s
}

func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	life := s.life.Load()
	p := &metricsPage{model: `model_name="` + escapeLabel(life.model) + `"`}
	if s.cfg.APIServers == 1 {
		p.family("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.")
		p.line("process_start_time_seconds", float64(life.started.UnixNano())/1e9)
	}
	if !s.cfg.DisableLogStats {
		for _, e := range life.ranks {
			p.ranks = append(p.ranks, e.sample())
		}
		s.engineMetrics(p)
	}
	body := p.buf
	w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	// An error here means that the client is gone; nobody is left to tell.
	_, _ = w.Write(body)
}

// engineMetrics writes the series of the ranks, by the names of vLLM 0.26.
func (s *Server) engineMetrics(p *metricsPage) {
	const prefix = "vllm:"
	p.gauge(prefix+"num_requests_running", "Number of requests in model execution batches.",
		each("", func(r *sample) float64 { return float64(r.running) }))
	p.gauge(prefix+"num_requests_waiting", "Number of requests waiting to be processed.",
		each("", func(r *sample) float64 { return float64(r.waiting) }))
	p.gauge(prefix+"num_requests_waiting_by_reason", "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all reasons equals vllm:num_requests_waiting.",
		each(`reason="capacity"`, func(r *sample) float64 { return float64(r.waiting) }),
		each(`reason="deferred"`, constant(0)))
	p.gauge(prefix+"engine_sleep_state", "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
		each(`sleep_state="awake"`, func(r *sample) float64 { return oneIf(!r.asleep) }),
		each(`sleep_state="weights_offloaded"`, func(r *sample) float64 { return oneIf(r.asleep) }),
		each(`sleep_state="discard_all"`, constant(0)))
	p.gauge(prefix+"kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.",
		each("", func(r *sample) float64 { return r.usage }))
	s.cacheConfigInfo(p)
	p.counter(prefix+"prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.",
		each("", func(r *sample) float64 { return float64(r.queries) }))
	p.counter(prefix+"prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.",
		each("", func(r *sample) float64 { return float64(r.found) }))
	p.counter(prefix+"num_preemptions_total", "Cumulative number of preemption from the engine.",
		each("", func(r *sample) float64 { return float64(r.preemptions) }))
	p.counter(prefix+"prompt_tokens_total", "Number of prefill tokens processed.",
		each("", func(r *sample) float64 { return float64(r.counts.prompt) }))
	p.counter(prefix+"prompt_tokens_by_source_total", "Number of prompt tokens by source.",
		each(`source="local_compute"`, func(r *sample) float64 { return float64(r.counts.prompt - r.counts.cached) }),
		each(`source="local_cache_hit"`, func(r *sample) float64 { return float64(r.counts.cached) }),
		each(`source="external_kv_transfer"`, constant(0)))
	p.counter(prefix+"prompt_tokens_cached_total", "Number of cached prompt tokens (local + external).",
		each("", func(r *sample) float64 { return float64(r.counts.cached) }))
	p.counter(prefix+"generation_tokens_total", "Number of generation tokens processed.",
		each("", func(r *sample) float64 { return float64(r.counts.generated) }))
	var finished []series
	for _, reason := range []finish{byStop, byLength, byAbort, byError} {
		finished = append(finished, each(`finished_reason="`+reason.String()+`"`,
			func(r *sample) float64 { return float64(r.counts.finished[reason]) }))
	}
	finished = append(finished, each(`finished_reason="repetition"`, constant(0)))
	p.counter(prefix+"request_success_total", "Count of successfully processed requests.", finished...)
	p.histogram(prefix+"iteration_tokens_total", "Histogram of number of tokens per engine_step.",
		func(r *sample) *histogram { return &r.counts.stepTokens })
	p.histogram(prefix+"time_to_first_token_seconds", "Histogram of time to first token in seconds.",
		func(r *sample) *histogram { return &r.counts.firstSeconds })
}

// cacheConfigInfo writes the sizes of the caches. The number of blocks is that
// of all ranks, repeated on each of them; the tokens are one rank's.
func (s *Server) cacheConfigInfo(p *metricsPage) {
	const name = "vllm:cache_config_info"
	tokens := s.cfg.Blocks * s.cfg.BlockSize
	p.family(name, "gauge", "Information of the LLMEngine CacheConfig")
	for rank := range p.ranks {
		p.line(fmt.Sprintf(name+`{block_size="%d",cache_dtype="auto",enable_prefix_caching="True",engine="%d",`+
			`gpu_memory_utilization="0.92",kv_cache_max_concurrency="%s",kv_cache_size_tokens="%d",`+
			`num_cpu_blocks="None",num_gpu_blocks="%d",num_gpu_blocks_override="%d",`+
			`prefix_caching_hash_algo="sha256",sliding_window="None"}`,
			s.cfg.BlockSize, rank, pythonFloat(float64(tokens)/float64(s.cfg.MaxModelLen)), tokens,
			s.cfg.Blocks*len(p.ranks), s.cfg.Blocks), 1)
	}
}

// series is one label set of a family, for every rank.
type series struct {
	label string // other than engine and model_name
	value func(*sample) float64
}

func each(label string, value func(*sample) float64) series { return series{label, value} }

func oneIf(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

func constant(v float64) func(*sample) float64 { return func(*sample) float64 { return v } }

// metricsPage is a page in Prometheus's text format, laid out like that of
// Python's client: labels sorted by name, ranks within a label set.
type metricsPage struct {
	model string // label
	ranks []sample
	buf   []byte
}

func (p *metricsPage) add(texts ...string) {
	for _, text := range texts {
		p.buf = append(p.buf, text...)
	}
}

func (p *metricsPage) family(name, kind, help string) {
	p.add("# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n")
}

// line writes a series that is no rank's, or whose labels are in the name.
func (p *metricsPage) line(name string, v float64) {
	p.add(name, " ")
	p.buf = appendPythonFloat(p.buf, v)
	p.add("\n")
}

// ranked writes a rank's series with one more label, which sorts after engine,
// and before or after model_name.
func (p *metricsPage) ranked(name, suffix string, rank int, other string, v float64) {
	p.add(name, suffix, `{engine="`)
	p.buf = strconv.AppendInt(p.buf, int64(rank), 10)
	switch {
	case other == "":
		p.add(`",`, p.model)
	case other < p.model:
		p.add(`",`, other, ",", p.model)
	default:
		p.add(`",`, p.model, ",", other)
	}
	p.line("}", v)
}

func (p *metricsPage) gauge(name, help string, all ...series) {
	p.family(name, "gauge", help)
	p.series(name, all)
}

func (p *metricsPage) counter(name, help string, all ...series) {
	p.family(name, "counter", help)
	p.series(name, all)
}

func (p *metricsPage) series(name string, all []series) {
	for _, one := range all {
		for rank := range p.ranks {
			p.ranked(name, "", rank, one.label, one.value(&p.ranks[rank]))
		}
	}
}

func (p *metricsPage) histogram(name, help string, of func(*sample) *histogram) {
	p.family(name, "histogram", help)
	for rank := range p.ranks {
		h := of(&p.ranks[rank])
		p.ranked(name, "_sum", rank, "", h.sum)
		below := 0
		for i, n := range h.buckets {
			bound := "+Inf"
			if i < len(h.bounds) {
				bound = pythonFloat(h.bounds[i])
			}
			below += n
			p.ranked(name, "_bucket", rank, `le="`+bound+`"`, float64(below))
		}
		p.ranked(name, "_count", rank, "", float64(h.count))
	}
}

func escapeLabel(value string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(value)
}

// appendPythonFloat appends what pythonFloat returns.
func appendPythonFloat(b []byte, v float64) []byte {
	if n := int64(v); float64(n) == v && n >= 0 && n < 1e6 {
		return append(strconv.AppendInt(b, n, 10), ".0"...)
	}
	return append(b, pythonFloat(v)...)
}

// pythonFloat formats a number as Python's Prometheus client does: always
// with a decimal point, in scientific notation from a million on.
func pythonFloat(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	whole, fraction, found := strings.Cut(s, ".")
	if !found {
		fraction = "0"
	}
	if v > 0 && len(whole) > 6 {
		mantissa := strings.TrimRight(whole[:1]+"."+whole[1:]+fraction, "0.")
		return fmt.Sprintf("%se+%02d", mantissa, len(whole)-1)
	}
	return whole + "." + fraction
}
