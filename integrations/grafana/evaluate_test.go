package warmgrafana_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
	"github.com/warmroute/warmroute/metrics"
)

// sample is what a Prometheus server would have scraped.
type sample struct {
	labels labels.Labels
	at     time.Time
	value  float64
}

// scraper keeps what is exported to it.
type scraper struct {
	samples []sample
	family  string
	at      time.Time
}

func (s *scraper) Family(name, _ string, _ metrics.Kind) { s.family = name }

func (s *scraper) Sample(value float64, pairs ...string) { s.add(s.family, value, pairs...) }

func (s *scraper) Histogram(h metrics.HistogramSnapshot, pairs ...string) {
	count := 0.0
	for i, n := range h.Counts {
		count += float64(n)
		le := "+Inf"
		if i < len(h.Bounds) {
			le = fmt.Sprint(h.Bounds[i])
		}
		s.add(s.family+"_bucket", count, append([]string{"le", le}, pairs...)...)
	}
	s.add(s.family+"_sum", h.Sum, pairs...)
	s.add(s.family+"_count", count, pairs...)
}

func (s *scraper) add(name string, value float64, pairs ...string) {
	pairs = append([]string{"__name__", name, "instance", "gateway:9000"}, pairs...)
	s.samples = append(s.samples, sample{labels.FromStrings(pairs...), s.at, value})
}

// traffic has conversations run through a router in front of two simulated engines
// of two models for some minutes, and returns what was scraped each 15 seconds.
func traffic(t *testing.T) (scraped []sample, end time.Time) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		engines := map[string]*fakevllm.Server{}
		for host, model := range map[string]string{"a": "small", "b": "large"} {
			engine, err := fakevllm.New(fakevllm.Config{Model: model, Ranks: 2, Blocks: 400})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, engine.Close()) })
			engines[host] = engine
		}
		base := fleet(engines)
		router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a", Model: "small"}, {URL: "http://b", Model: "large", Ranks: 2}},
			warmroute.WithScrapeClient(&http.Client{Transport: base}), warmroute.WithSpill(2))
		require.NoError(t, err)
		var all sync.WaitGroup
		all.Go(func() { assert.NoError(t, router.Run(t.Context())) })
		transport := router.Transport(base)
		const minutes = 5
		for n := range 12 {
			all.Go(func() {
				history := strings.Repeat(fmt.Sprint("word ", n, " "), 200)
				for turn := range minutes * 7 {
					model := []string{"small", "large"}[n%2]
					body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"max_tokens":30,"stream":true,"stream_options":{"include_usage":true}}`, model, history)
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model/v1/chat/completions", strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Content-Type", "application/json")
					if n > 1 {
						req.Header.Set("X-Session-Id", fmt.Sprint(n, "-", turn/10))
					}
					resp, err := transport.RoundTrip(req)
					if err != nil {
						t.Error(err)
						return
					}
					answer, err := io.ReadAll(resp.Body)
					if err != nil || resp.StatusCode != http.StatusOK {
						t.Error(resp.Status, string(answer), err)
					}
					if err := resp.Body.Close(); err != nil {
						t.Error(err)
					}
					history += fmt.Sprint(" turn ", turn)
					time.Sleep(9 * time.Second)
				}
			})
		}
		s := &scraper{}
		for range minutes * 4 {
			time.Sleep(15 * time.Second)
			s.at = time.Now()
			router.Stats().Export(s)
		}
		time.Sleep(5 * time.Minute) // the last turns
		require.NoError(t, router.Close())
		all.Wait()
		scraped, end = s.samples, s.at
	})
	return scraped, end
}

// fleet is several engines by their hosts.
type fleet map[string]*fakevllm.Server

func (f fleet) RoundTrip(req *http.Request) (*http.Response, error) {
	return f[req.URL.Hostname()].RoundTrip(req)
}

// Every query of the dashboard shows something of a router at work, by
// Prometheus's own engine.
func TestQueriesShowSomething(t *testing.T) {
	scraped, end := traffic(t)
	storage := teststorage.New(t)
	appender := storage.Appender(t.Context())
	for _, s := range scraped {
		_, err := appender.Append(0, s.labels, s.at.UnixMilli(), s.value)
		require.NoError(t, err)
	}
	require.NoError(t, appender.Commit())
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	defer engine.Close()
	for _, q := range queries(t) {
		t.Run(q.panel, func(t *testing.T) {
			instant, err := engine.NewInstantQuery(t.Context(), storage, nil, filled(q.expr), end)
			require.NoError(t, err)
			defer instant.Close()
			result := instant.Exec(t.Context())
			require.NoError(t, result.Err)
			assert.Empty(t, result.Warnings)
			vector, err := result.Vector()
			require.NoError(t, err)
			require.NotEmpty(t, vector, q.expr)
			for _, s := range vector {
				assert.False(t, math.IsNaN(s.F) || math.IsInf(s.F, 0) || s.F < 0, "%s: %v", q.expr, s)
				if strings.Contains(strings.ToLower(q.panel), "share") {
					assert.LessOrEqual(t, s.F, 1.0, q.expr)
				}
			}
		})
	}
}
