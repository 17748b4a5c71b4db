package warmroute_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// metricsClient serves pages by the URL asked for; "" is a 404.
func metricsClient(page func(url string) string) *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		text := page(r.URL.String())
		status := http.StatusOK
		if text == "" {
			status = http.StatusNotFound
		}
		return answer(status, io.NopCloser(strings.NewReader(text))), nil
	})}
}

// pageSet holds metrics pages by what is asked for, and can be changed.
type pageSet struct {
	mu    sync.Mutex
	pages map[string]string
}

func newPages(pages map[string]string) *pageSet { return &pageSet{pages: pages} }

func (s *pageSet) get(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pages[name]
}

func (s *pageSet) set(name, page string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[name] = page
}

// engine is a rank's state on a simulated metrics page.
type engine struct {
	running, waiting, kv, queries, hits, prompt, generated, steps, started, capacity string
	asleep                                                                           bool
}

// pageOf is a vLLM page of the given engines; a value left out is missing.
func pageOf(engines map[int]engine) string {
	var b strings.Builder
	for rank, e := range engines {
		for name, value := range map[string]string{
			"vllm:num_requests_running": e.running, "vllm:num_requests_waiting": e.waiting,
			"vllm:kv_cache_usage_perc": e.kv, "vllm:prefix_cache_queries_total": e.queries, "vllm:prefix_cache_hits_total": e.hits,
			"vllm:prompt_tokens_total": e.prompt, "vllm:generation_tokens_total": e.generated, "vllm:iteration_tokens_total_count": e.steps,
		} {
			if value != "" {
				fmt.Fprintf(&b, "%s{engine=\"%d\",model_name=\"m\"} %s\n", name, rank, value)
			}
		}
		if e.capacity != "" {
			fmt.Fprintf(&b, "vllm:cache_config_info{engine=\"%d\",kv_cache_size_tokens=\"%s\"} 1\n", rank, e.capacity)
		}
		if e.asleep {
			fmt.Fprintf(&b, "vllm:engine_sleep_state{engine=\"%d\",model_name=\"m\",sleep_state=\"awake\"} 0\n", rank)
		}
		if e.started != "" {
			fmt.Fprintf(&b, "process_start_time_seconds %s\n", e.started)
		}
	}
	return b.String()
}

func idle(ranks ...int) string {
	engines := map[int]engine{}
	for _, r := range ranks {
		engines[r] = engine{running: "0", waiting: "0", kv: "0"}
	}
	return pageOf(engines)
}

// scraped runs test in a bubble with a running router whose pages are those
// that the map holds, by "host" for metrics and "host/version" and the like for
// what else is asked.
func scraped(t *testing.T, pages *pageSet, endpoints []warmroute.Endpoint, opts []warmroute.Option, test func(*testing.T, *warmroute.Router)) {
	synctest.Test(t, func(t *testing.T) {
		client := metricsClient(func(u string) string {
			host := strings.TrimPrefix(u, "http://")
			host, path, _ := strings.Cut(host, "/")
			path, _, _ = strings.Cut(path, "?")
			if strings.HasSuffix(path, "metrics") {
				return pages.get(host)
			}
			return pages.get(host + "/" + path)
		})
		router := newRouter(t, endpoints, append(opts, warmroute.WithScrapeClient(client))...)
		go func() { assert.NoError(t, router.Run(t.Context())) }()
		synctest.Wait()
		test(t, router)
		assert.NoError(t, router.Close())
	})
}

func replicaNames(r *warmroute.Router) []string {
	var out []string
	for _, m := range r.Replicas() {
		out = append(out, m.Name())
	}
	return out
}

func TestRanksAreDiscovered(t *testing.T) {
	pages := newPages(map[string]string{
		"a": idle(0, 1, 2, 3),
		"b": idle(0),
		"c": idle(2, 3), // hybrid: global labels, ranks 0 and 1 of this front end
		"d": "",
		"e": idle(7), // external: one rank behind each front end, which takes no header
	})
	scraped(t, pages, at("http://a", "http://b", "http://c", "http://d", "http://e"), nil, func(t *testing.T, r *warmroute.Router) {
		assert.Equal(t, []string{"a:80@0", "a:80@1", "a:80@2", "a:80@3", "b:80", "c:80@0", "c:80@1", "d:80", "e:80"}, replicaNames(r))
		for _, m := range r.Stats().Pools[0].Replicas {
			assert.Equal(t, m.Name == "d:80", m.Running == nil, m.Name)
		}

		pages.set("a", idle(0, 1))
		time.Sleep(1100 * time.Millisecond)
		assert.Len(t, r.Replicas(), 9, "a page with fewer engines is not believed at once")
		time.Sleep(2200 * time.Millisecond)
		assert.Equal(t, "a:80@0 a:80@1 b:80", strings.Join(replicaNames(r)[:3], " "))

		pages.set("d", idle(0, 1))
		time.Sleep(10 * time.Second)
		assert.Contains(t, replicaNames(r), "d:80@1", "an endpoint that failed is asked again")
	})
}

func TestConversationsSurviveTheDiscoveryOfMoreRanks(t *testing.T) {
	pages := newPages(map[string]string{"a": idle(0, 1)})
	scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
		homes := map[string]string{}
		for i := range 8 {
			s := fmt.Sprint(i)
			homes[s], _ = turn(t, r, s)
		}
		pages.set("a", idle(0, 1, 2))
		time.Sleep(2 * time.Second)
		require.Len(t, r.Replicas(), 3)
		for s, home := range homes {
			name, outcome := turn(t, r, s)
			assert.Equal(t, warmroute.Sticky, outcome)
			assert.Equal(t, home, name)
		}
	})
}

func TestAddedAndRemovedEndpointsAreWatched(t *testing.T) {
	pages := newPages(map[string]string{"a": idle(0), "b": idle(0, 1)})
	scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
		require.NoError(t, r.Add(warmroute.Endpoint{URL: "http://b"}))
		synctest.Wait()
		assert.Equal(t, []string{"a:80", "b:80@0", "b:80@1"}, replicaNames(r))
		require.NoError(t, r.Remove("http://b"))
		time.Sleep(3 * time.Second)
		assert.Equal(t, []string{"a:80"}, replicaNames(r))
		require.NoError(t, r.Add(warmroute.Endpoint{URL: "http://b"}))
		synctest.Wait()
		assert.Len(t, r.Replicas(), 3)
	})
}

func TestScrapedValuesInStats(t *testing.T) {
	pages := newPages(map[string]string{"a": pageOf(map[int]engine{
		0: {running: "3", waiting: "2", kv: "0.25", queries: "1000", hits: "400"},
		1: {running: "NaN", kv: "1.5"},
	})})
	scraped(t, pages, at("http://a", "http://gone"), nil, func(t *testing.T, r *warmroute.Router) {
		m := replicaStats(t, r, "a:80@0")
		assert.Equal(t, 3, *m.Running)
		assert.Equal(t, 2, *m.Waiting)
		assert.InDelta(t, 0.25, *m.KVUsage, 1e-9)
		assert.InDelta(t, 0.4, *m.PrefixHitRate, 1e-9)
		assert.InDelta(t, 0, *m.ScrapedAgo, 1e-9)
		assert.False(t, m.Stale)
		m = replicaStats(t, r, "a:80@1")
		assert.Nil(t, m.Running, "not a number is missing, and missing is not zero")
		assert.Nil(t, m.Waiting)
		assert.InDelta(t, 1, *m.KVUsage, 1e-9, "clamped")
		assert.Nil(t, m.PrefixHitRate)
		m = replicaStats(t, r, "gone:80")
		assert.True(t, m.Stale)
		assert.Nil(t, m.ScrapedAgo)

		pages.set("a", "")
		time.Sleep(4900 * time.Millisecond)
		assert.False(t, replicaStats(t, r, "a:80@0").Stale)
		time.Sleep(1200 * time.Millisecond)
		m = replicaStats(t, r, "a:80@0")
		assert.True(t, m.Stale)
		assert.Equal(t, 3, *m.Running, "shown with its age")
		assert.InDelta(t, 6.1, *m.ScrapedAgo, 0.2)
	})
}

func TestStaleValuesLoseTheirVote(t *testing.T) {
	full := pageOf(map[int]engine{0: {running: "0", waiting: "0", kv: "0.99"}})
	pages := newPages(map[string]string{"a": full, "b": idle(0)})
	scraped(t, pages, at("http://a", "http://b"), nil, func(t *testing.T, r *warmroute.Router) {
		for i := range 4 {
			name, _ := turn(t, r, fmt.Sprint("fresh", i))
			if i == 0 {
				assert.Equal(t, "b:80", name)
			}
		}
		before := replicaStats(t, r, "a:80").Sessions
		pages.set("a", "")
		pages.set("b", "")
		time.Sleep(10 * time.Second)
		for i := range 20 {
			turn(t, r, fmt.Sprint("stale", i))
		}
		assert.InDelta(t, 12, replicaStats(t, r, "a:80").Sessions, 1, "it had %d; all by own counts now", before)
	})
}

// Requests of other gateways show in the engine's counts, ours do not count
// twice, and one that ends while the page is on its way is nobody else's.
func TestOtherGatewaysCount(t *testing.T) {
	p := new(seen)
	pages := newPages(map[string]string{"a": pageOf(map[int]engine{0: {running: "5", waiting: "1"}})})
	opts := []warmroute.Option{warmroute.WithPicker(newSeen(p))}
	scraped(t, pages, at("http://a"), opts, func(t *testing.T, r *warmroute.Router) {
		others := func() int {
			route(t, r, warmroute.Request{}).Done(warmroute.Result{})
			return p.candidates[0].Others
		}
		assert.Zero(t, others(), "one page alone is not believed")
		time.Sleep(1500 * time.Millisecond)
		assert.Equal(t, 6, others())
		var ours []warmroute.Lease
		for range 4 {
			ours = append(ours, route(t, r, warmroute.Request{}))
		}
		assert.Equal(t, 4, p.candidates[0].InFlight+1)
		time.Sleep(1500 * time.Millisecond)
		assert.Equal(t, 2, others(), "four of the six are ours")
		for _, l := range ours {
			l.Done(warmroute.Result{})
		}
		pages.set("a", idle(0))
		time.Sleep(1500 * time.Millisecond)
		assert.Zero(t, others())
	})
}

func TestOnePageSharedByTwoCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(seen)
		client := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Millisecond)
			return answer(200, io.NopCloser(strings.NewReader(pageOf(map[int]engine{0: {running: "9", waiting: "0"}})))), nil
		})}
		router := newRouter(t, at("http://a"), warmroute.WithScrapeClient(client), warmroute.WithPicker(newSeen(p)))
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { assert.NoError(t, router.Scrape(t.Context())) })
		}
		both.Wait()
		route(t, router, warmroute.Request{}).Done(warmroute.Result{})
		assert.Zero(t, p.candidates[0].Others)
		assert.Equal(t, 9, p.candidates[0].Running)
	})
}

func TestOthersOfStalePagesDoNotCount(t *testing.T) {
	p := new(seen)
	pages := newPages(map[string]string{"a": pageOf(map[int]engine{0: {running: "9", waiting: "0"}})})
	scraped(t, pages, at("http://a"), []warmroute.Option{warmroute.WithPicker(newSeen(p))}, func(t *testing.T, r *warmroute.Router) {
		time.Sleep(3 * time.Second)
		route(t, r, warmroute.Request{}).Done(warmroute.Result{})
		assert.Equal(t, 9, p.candidates[0].Others)
		pages.set("a", "")
		time.Sleep(10 * time.Second)
		route(t, r, warmroute.Request{}).Done(warmroute.Result{})
		assert.Zero(t, p.candidates[0].Others)
		assert.True(t, p.candidates[0].Stale)
		assert.Equal(t, -1, p.candidates[0].Running)
	})
}

func TestAbsurdCountsAreMissing(t *testing.T) {
	for _, absurd := range []string{"1e15", "1e300"} {
		pages := newPages(map[string]string{"a": pageOf(map[int]engine{0: {running: absurd, waiting: "4"}})})
		scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
			assert.Equal(t, warmroute.Threshold{Value: 64, Source: "default"}, r.Stats().Pools[0].Spill)
			assert.Nil(t, replicaStats(t, r, "a:80").Running)
		})
	}
}

// An endpoint that left and came back for another model is watched anew.
func TestAnEndpointThatComesBackIsAskedAnew(t *testing.T) {
	pages := newPages(map[string]string{"a": idle(0), "b": idle(0), "a/server_info": `{"vllm_config":{"scheduler_config":{"max_num_seqs":64}}}`})
	scraped(t, pages, []warmroute.Endpoint{{URL: "http://a", Model: "x"}, {URL: "http://b", Model: "x"}}, nil, func(t *testing.T, r *warmroute.Router) {
		require.NoError(t, r.Remove("http://a"))
		require.NoError(t, r.Add(warmroute.Endpoint{URL: "http://a", Model: "y"}))
		time.Sleep(2 * time.Second)
		assert.Equal(t, warmroute.Threshold{Value: 16, Source: "server_info"}, r.Stats().Pools[1].Spill)
	})
}

func TestGarbageMetricsChangeNothing(t *testing.T) {
	for name, page := range map[string]string{
		"html":      "<html><body>502 Bad Gateway</body></html>",
		"json":      `{"error":"x"}`,
		"no series": "# nothing\n",
		"bad lines": "vllm:num_requests_running{engine=\"0\" 1\nvllm:num_requests_running{} x\n\x00\xff\n",
		"panic":     "# TYPE h histogram\nfoo 1\n{\"h\",a=\"b\"} 1\n",
		"missing":   "",
	} {
		t.Run(name, func(t *testing.T) {
			scraped(t, newPages(map[string]string{"a": page, "b": page}), []warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b"}}, nil, func(t *testing.T, r *warmroute.Router) {
				time.Sleep(5 * time.Second)
				assert.Len(t, r.Replicas(), 3)
				for i := range 30 {
					turn(t, r, fmt.Sprint(i))
				}
				for _, m := range r.Stats().Pools[0].Replicas {
					assert.Equal(t, 10, m.Sessions)
					assert.Nil(t, m.Running)
				}
			})
		})
	}
}

func TestOtherEngines(t *testing.T) {
	pages := newPages(map[string]string{
		"sglang": "sglang:num_running_reqs{model_name=\"m\",dp_rank=\"0\"} 2\nsglang:num_queue_reqs{model_name=\"m\",dp_rank=\"0\"} 1\nsglang:token_usage{model_name=\"m\",dp_rank=\"0\"} 0.5\n" +
			"sglang:num_running_reqs{model_name=\"m\",dp_rank=\"1\"} 0\nsglang:num_queue_reqs{model_name=\"m\",dp_rank=\"1\"} 0\nsglang:token_usage{model_name=\"m\",dp_rank=\"1\"} 0.1\n",
		"llama": "llamacpp:requests_processing 3\nllamacpp:requests_deferred 1\n",
		"vllm":  idle(0, 1),
	})
	endpoints := []warmroute.Endpoint{{URL: "http://sglang"}, {URL: "http://llama", Engine: "llamacpp"}, {URL: "http://vllm"}}
	scraped(t, pages, endpoints, nil, func(t *testing.T, r *warmroute.Router) {
		assert.Equal(t, []string{"sglang:80@0", "sglang:80@1", "llama:80", "vllm:80@0", "vllm:80@1"}, replicaNames(r))
		m := replicaStats(t, r, "sglang:80@0")
		assert.Equal(t, 2, *m.Running)
		assert.Equal(t, 1, *m.Waiting)
		assert.InDelta(t, 0.5, *m.KVUsage, 1e-9)
		assert.Equal(t, 3, *replicaStats(t, r, "llama:80").Running)
	})
}

func TestScrapeOnce(t *testing.T) {
	client := metricsClient(func(u string) string {
		if strings.HasPrefix(u, "http://a/") {
			return idle(0, 1)
		}
		return ""
	})
	router := newRouter(t, at("http://a", "http://b"), warmroute.WithScrapeClient(client))
	err := router.Scrape(t.Context())
	require.Error(t, err, "b does not answer")
	assert.ErrorContains(t, err, "http://b")
	assert.Equal(t, []string{"a:80@0", "a:80@1", "b:80"}, replicaNames(router))
}

func TestAHangingMetricsPageDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "hangs" {
				<-r.Context().Done()
				return nil, errors.New("gave up")
			}
			if r.URL.Path == "/metrics" {
				asked.Add(1)
			}
			return answer(200, io.NopCloser(strings.NewReader(idle(0)))), nil
		})}
		router := newRouter(t, at("http://hangs", "http://a"), warmroute.WithScrapeClient(client))
		go func() { assert.NoError(t, router.Run(t.Context())) }()
		time.Sleep(10 * time.Second)
		assert.InDelta(t, 11, asked.Load(), 2)
		assert.NoError(t, router.Close())
	})
}

// A number that no engine can mean is not known, rather than negative.
func TestANumberThatIsNoCountIsNotKnown(t *testing.T) {
	pages := newPages(map[string]string{"a": pageOf(map[int]engine{0: {running: "1e300", waiting: "3", kv: "0.5"}})})
	scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
		m := r.Stats().Pools[0].Replicas[0]
		assert.Nil(t, m.Running)
		assert.Equal(t, new(3), m.Waiting)
		assert.GreaterOrEqual(t, m.MaxRunning, 0)
		assert.Positive(t, r.Stats().Pools[0].Spill.Value)
	})
}
