package warmprom_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	warmprom "github.com/warmroute/warmroute/integrations/prometheus"
	"github.com/warmroute/warmroute/metrics"
)

// busy is a router of two pools that has seen every outcome, with names that are
// hard to write.
func busy(t *testing.T) *warmroute.Router {
	t.Helper()
	router, err := warmroute.New([]warmroute.Endpoint{
		{URL: "http://a", Ranks: 2, Model: "q\"w\\e\nn"}, {URL: "http://b/prefix", Model: "\xffother"},
	}, warmroute.WithPool("\xffother", warmroute.WithResidency(100_000)), warmroute.WithSpill(1))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, router.Close()) })
	for _, model := range []string{"q\"w\\e\nn", "\xffother"} {
		var held []warmroute.Lease
		for i := range 12 {
			lease, err := router.Route(t.Context(), warmroute.Request{Model: model, Session: []string{"", "x", "y"}[i%3], PromptTokens: 1000})
			require.NoError(t, err)
			lease.Answered()
			result := warmroute.Result{
				FirstByte: time.Duration(i) * 100 * time.Millisecond,
				Usage:     warmroute.Usage{Prompt: 3000, Cached: int64(i) * 200, Completion: 20, Known: true, Measured: i%4 != 0},
			}
			if i%5 == 0 {
				held = append(held, lease)
				continue
			}
			if i%7 == 0 {
				result.Err = context.DeadlineExceeded
			}
			lease.Done(result)
			time.Sleep(time.Second)
		}
		pinned, err := router.Route(t.Context(), warmroute.Request{Model: model, ClientRank: "1"})
		require.NoError(t, err)
		held = append(held, pinned)
		t.Cleanup(func() {
			for _, lease := range held {
				lease.Done(warmroute.Result{})
			}
		})
	}
	_, err = router.Route(t.Context(), warmroute.Request{Model: "unknown"})
	require.Error(t, err)
	require.NoError(t, router.Drain("a:80@1"))
	return router
}

func TestCollectorIsTheTextExposition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no time goes by between the two
		router := busy(t)
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(warmprom.NewCollector(router)))
		page := httptest.NewRecorder()
		router.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		text := page.Body.String()

		parser := expfmt.NewTextParser(model.UTF8Validation)
		want, err := parser.TextToMetricFamilies(strings.NewReader(text))
		require.NoError(t, err)
		got, err := registry.Gather()
		require.NoError(t, err)
		assert.Equal(t, lines(slices.Collect(maps.Values(want))), lines(got))
		assert.Greater(t, len(lines(got)), 150)
	})
}

// lines writes families in one order, whatever theirs is. A family without a
// sample is none to a registry.
func lines(families []*dto.MetricFamily) []string {
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			slices.SortFunc(m.GetLabel(), func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
			if h := m.GetHistogram(); h != nil { // the last bucket is the count, written out or not
				h.Bucket = slices.DeleteFunc(h.Bucket, func(b *dto.Bucket) bool { return math.IsInf(b.GetUpperBound(), 1) })
			}
			out = append(out, fmt.Sprint(f.GetName(), " ", f.GetType(), " ", f.GetHelp(), " ", m.String()))
		}
	}
	slices.Sort(out)
	return out
}

func TestCollectorIsLintClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		problems, err := testutil.CollectAndLint(warmprom.NewCollector(busy(t)))
		require.NoError(t, err)
		assert.Empty(t, problems)
	})
}

// fixed are stats that stay as they are, and a count of how often they were asked
// for.
type fixed struct {
	stats warmroute.Stats
	asked atomic.Int32
}

func (f *fixed) Stats() warmroute.Stats { f.asked.Add(1); return f.stats }

func TestAScrapeReadsTheStatsOnce(t *testing.T) {
	f := &fixed{stats: warmroute.Stats{Pools: []warmroute.PoolStats{{Model: "m", Queue: warmroute.QueueStats{
		Waits: metrics.HistogramSnapshot{Bounds: []float64{1, 2}, Counts: []uint64{3, 0, 4}, Count: 7, Sum: 20},
	}}}}}
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(warmprom.NewCollector(f)))
	assert.Zero(t, f.asked.Load(), "to be described needs no stats")
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP warmroute_wait_seconds Time that turns waited for room in a prefix cache, those that did not wait included.
# TYPE warmroute_wait_seconds histogram
warmroute_wait_seconds_bucket{model="m",le="1"} 3
warmroute_wait_seconds_bucket{model="m",le="2"} 3
warmroute_wait_seconds_bucket{model="m",le="+Inf"} 7
warmroute_wait_seconds_sum{model="m"} 20
warmroute_wait_seconds_count{model="m"} 7
`), "warmroute_wait_seconds"))
	assert.Equal(t, int32(1), f.asked.Load())
}

// A histogram that is none is reported, and what is sound beside it is kept.
func TestABrokenFamilyFailsTheScrapeAndSaysWhy(t *testing.T) {
	f := &fixed{stats: warmroute.Stats{Pools: []warmroute.PoolStats{{Model: "m"}}}}
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(warmprom.NewCollector(f)))
	families, err := registry.Gather()
	require.ErrorContains(t, err, "warmroute_wait_seconds")
	assert.NotEmpty(t, families)
}

func TestRegisteredTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := busy(t)
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(warmprom.NewCollector(router)))
		var already prometheus.AlreadyRegisteredError
		require.ErrorAs(t, registry.Register(warmprom.NewCollector(router)), &already, "it would count twice")
		other := prometheus.WrapRegistererWith(prometheus.Labels{"router": "b"}, registry)
		require.Error(t, other.Register(warmprom.NewCollector(router)), "families must have the same labels")

		apart := prometheus.NewPedanticRegistry()
		for _, name := range []string{"a", "b"} {
			labelled := prometheus.WrapRegistererWith(prometheus.Labels{"router": name}, apart)
			require.NoError(t, labelled.Register(warmprom.NewCollector(router)))
		}
		families, err := apart.Gather()
		require.NoError(t, err)
		assert.NotEmpty(t, families)
	})
}

// Scrapes may come at the same time, while requests and replicas come and go.
func TestConcurrentScrapes(t *testing.T) {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a", Ranks: 4}})
	require.NoError(t, err)
	defer router.Close()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(warmprom.NewCollector(router)))
	page := promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	stop := make(chan struct{})
	var traffic, scrapes sync.WaitGroup
	traffic.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			lease, err := router.Route(t.Context(), warmroute.Request{Session: "s"})
			if err != nil {
				t.Error(err)
				return
			}
			lease.Answered()
			lease.Done(warmroute.Result{FirstByte: time.Millisecond, Usage: warmroute.Usage{Prompt: 9, Known: true}})
		}
	})
	traffic.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := router.Add(warmroute.Endpoint{URL: "http://b"}); err != nil {
				t.Error(err)
			}
			if err := router.Remove("http://b"); err != nil {
				t.Error(err)
			}
		}
	})
	for range 4 {
		scrapes.Go(func() {
			last := 0.0
			for range 20 {
				w := httptest.NewRecorder()
				page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
				if w.Code != http.StatusOK {
					t.Error(w.Body)
					return
				}
				parser := expfmt.NewTextParser(model.LegacyValidation)
				families, err := parser.TextToMetricFamilies(w.Body)
				if err != nil {
					t.Error(err)
					return
				}
				sum := 0.0
				for _, m := range families["warmroute_pool_requests_total"].GetMetric() {
					sum += m.GetCounter().GetValue()
				}
				if sum < last {
					t.Errorf("%v requests after %v", sum, last)
				}
				last = sum
			}
		})
	}
	scrapes.Wait()
	close(stop)
	traffic.Wait()
}
