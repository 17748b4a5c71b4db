package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"time"

	"github.com/warmroute/warmroute/metrics"
)

func ExampleVLLM() {
	page := `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="llama"} 4.0
vllm:num_requests_running{engine="1",model_name="llama"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="llama"} 0.5
`
	read, err := metrics.VLLM().Parse([]byte(page))
	if err != nil {
		fmt.Println(err)
	}
	for _, e := range read.Engines {
		fmt.Printf("rank %s of %s: running %v, cache in use %v\n", e.Engine, e.Model, e.Running, e.KVUsage)
	}
	// Output:
	// rank 0 of llama: running {4 true}, cache in use {0.5 true}
	// rank 1 of llama: running {1 true}, cache in use {0 false}
}

func ExampleScraper_Scrape() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, `vllm:num_requests_waiting{engine="0",model_name="llama"} 2.0`)
	}))
	defer engine.Close()
	base, err := url.Parse(engine.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	scraper, err := metrics.NewScraper(metrics.Config{Timeout: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer scraper.CloseIdleConnections()
	page, err := scraper.Scrape(context.Background(), base)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(page.Engines), page.Engines[0].Waiting.Value)
	// Output: 1 2
}

// One endpoint is told to be SGLang; what the other is will be found out.
func ExampleScraper_SetDialect() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, `sglang:num_running_reqs{dp_rank="0",model_name="qwen",tp_rank="0"} 5.0`)
		fmt.Fprintln(w, `sglang:num_running_reqs{dp_rank="1",model_name="qwen",tp_rank="2"} 1.0`)
	}))
	defer engine.Close()
	scraper, err := metrics.NewScraper(metrics.Config{Timeout: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer scraper.CloseIdleConnections()
	told, err := url.Parse(engine.URL + "/told")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := scraper.SetDialect(told, metrics.SGLang()); err != nil {
		fmt.Println(err)
		return
	}
	found, err := url.Parse(engine.URL + "/found")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, base := range []*url.URL{told, found} {
		page, err := scraper.Scrape(context.Background(), base)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(page.Dialect, len(page.Engines), page.Engines[0].Running.Value, page.RankHeader)
	}
	// Output:
	// sglang 2 5 true
	// sglang 2 5 true
}

func ExampleDialectByName() {
	dialect, err := metrics.DialectByName("TensorRT-LLM")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(dialect.Name(), dialect.Paths())
	_, err = metrics.DialectByName("ollama")
	fmt.Println(err)
	// Output:
	// tensorrt-llm [/prometheus/metrics /metrics]
	// metrics: unknown dialect "ollama", want one of vllm, sglang, tensorrt-llm, triton, llama.cpp, tgi, nim
}

func ExampleWriter() {
	waits, err := metrics.NewHistogram(0.1, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	waits.Observe(0.05)
	waits.Observe(3)

	w := metrics.NewWriter(os.Stdout)
	w.Family("warmroute_requests_total", "Requests, by outcome.", metrics.KindCounter)
	w.Sample(12, "pool", "llama", "outcome", "sticky")
	w.Sample(3, "pool", "llama", "outcome", "placed")
	w.Family("warmroute_wait_seconds", "Time requests waited to be sent.", metrics.KindHistogram)
	w.Histogram(waits.Snapshot(), "pool", "llama")
	if err := w.Err(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// # HELP warmroute_requests_total Requests, by outcome.
	// # TYPE warmroute_requests_total counter
	// warmroute_requests_total{pool="llama",outcome="sticky"} 12
	// warmroute_requests_total{pool="llama",outcome="placed"} 3
	// # HELP warmroute_wait_seconds Time requests waited to be sent.
	// # TYPE warmroute_wait_seconds histogram
	// warmroute_wait_seconds_bucket{pool="llama",le="0.1"} 1
	// warmroute_wait_seconds_bucket{pool="llama",le="1"} 1
	// warmroute_wait_seconds_bucket{pool="llama",le="+Inf"} 2
	// warmroute_wait_seconds_sum{pool="llama"} 3.05
	// warmroute_wait_seconds_count{pool="llama"} 2
}
