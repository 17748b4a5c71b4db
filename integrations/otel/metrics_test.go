package warmotel_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/warmroute/warmroute"
	warmotel "github.com/warmroute/warmroute/integrations/otel"
	"github.com/warmroute/warmroute/internal/families"
	"github.com/warmroute/warmroute/metrics"
)

func TestMetricsOfRequests(t *testing.T) {
	run(t, sim(1), nil, func(t *testing.T, b *bench) {
		b.send(b.chat("s", history, false))
		b.send(b.chat("s", history, true))
		const chat = "gen_ai.operation.name=chat gen_ai.provider.name=vllm gen_ai.request.model=sim"
		const server = " server.address=engine server.port=8000"
		assert.Equal(t, map[string]float64{chat + server: 2}, b.points("gen_ai.client.operation.duration"))
		assert.Equal(t, map[string]float64{chat + server: 1}, b.points("gen_ai.client.operation.time_to_first_chunk"))
		tokens := b.points("gen_ai.client.token.usage")
		assert.InDelta(t, 40, tokens["gen_ai.operation.name=chat gen_ai.provider.name=vllm gen_ai.request.model=sim gen_ai.token.type=output"+server], 0)
		stats := b.router.Stats().Pools[0].Tokens
		assert.InDelta(t, stats.PromptCached+stats.PromptComputed,
			tokens["gen_ai.operation.name=chat gen_ai.provider.name=vllm gen_ai.request.model=sim gen_ai.token.type=input"+server], 0)
		assert.Equal(t, map[string]float64{
			"model=sim outcome=placed replica=engine:8000": 1, "model=sim outcome=sticky replica=engine:8000": 1,
		}, b.points("warmroute.attempts"))
		assert.Equal(t, map[string]float64{"model=sim replica=engine:8000": 1}, b.points("warmroute.first_byte"))

		// What clients make up is no label.
		for _, model := range []string{"a", "b"} {
			_, err := b.router.Route(t.Context(), warmroute.Request{Model: model})
			require.Error(t, err)
		}
		assert.Equal(t, map[string]float64{"reason=unknown_model": 2}, b.points("warmroute.refusals"))
	})
}

// Whatever the stats are exported as is observed, but for histograms, with the
// values and labels of the text.
func TestObserve(t *testing.T) {
	run(t, sim(2), nil, func(t *testing.T, b *bench) {
		registration, err := b.telemetry.Observe(b.router)
		require.NoError(t, err)
		for range 3 {
			b.send(b.chat("s", history, false))
		}
		sink := observed{values: map[string]map[string]float64{}}
		b.router.Stats().Export(&sink)
		want := sink.values
		got := map[string]map[string]float64{}
		for name := range want {
			dotted := strings.Replace(name, "_", ".", 1)
			for _, suffix := range []string{"_total", "_seconds", "_ratio"} {
				dotted = strings.TrimSuffix(dotted, suffix)
			}
			got[name] = b.points(dotted)
		}
		assert.Equal(t, want, got)
		assert.InDelta(t, 2, got["warmroute_requests_total"]["model=sim outcome=sticky replica=engine:8000@0"], 0)
		assert.Greater(t, len(want), 25)

		require.NoError(t, registration.Unregister())
		assert.Empty(t, b.points("warmroute.requests"))
	})
}

// observed is what a sink was given.
type observed struct {
	family string
	values map[string]map[string]float64 // by family and labels
}

func (o *observed) Family(name, _ string, _ metrics.Kind) { o.family = name }

func (o *observed) Sample(value float64, labels ...string) {
	var pairs []string
	for pair := range slices.Chunk(labels, 2) {
		pairs = append(pairs, pair[0]+"="+pair[1])
	}
	slices.Sort(pairs)
	if o.values[o.family] == nil {
		o.values[o.family] = map[string]float64{}
	}
	o.values[o.family][strings.Join(pairs, " ")] = value
}

func (*observed) Histogram(metrics.HistogramSnapshot, ...string) {}

// Each instrument has another name, and counters are counters.
func TestObservedInstruments(t *testing.T) {
	reader := sdk.NewManualReader()
	telemetry, err := warmotel.New(warmotel.WithMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader))))
	require.NoError(t, err)
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a"}})
	require.NoError(t, err)
	defer router.Close()
	_, err = telemetry.Observe(router)
	require.NoError(t, err)
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	kinds, units := map[string]metrics.Kind{}, map[string]string{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		assert.NotContains(t, kinds, m.Name)
		switch data := m.Data.(type) {
		case metricdata.Sum[float64]:
			assert.True(t, data.IsMonotonic, m.Name)
			assert.Equal(t, metricdata.CumulativeTemporality, data.Temporality)
			kinds[m.Name] = metrics.KindCounter
		case metricdata.Gauge[float64]:
			kinds[m.Name] = metrics.KindGauge
		}
		units[m.Name] = m.Unit
	}
	count := 0
	for _, f := range families.All() {
		if f.Kind == metrics.KindCounter {
			name := strings.Replace(strings.TrimSuffix(f.Name, "_total"), "_", ".", 1)
			assert.Equal(t, f.Kind, kinds[name], "%s of %v", name, slices.Collect(maps.Keys(kinds)))
			count++
		}
	}
	assert.Greater(t, count, 8)
	assert.Equal(t, "s", units["warmroute.queue_max_wait"])
	assert.Equal(t, "1", units["warmroute.gap_expected"])
}

// refusing is a meter that has no counters.
type refusing struct{ noop.Meter }

var errRefused = errors.New("no such instrument")

func (refusing) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errRefused
}

func (refusing) Float64ObservableCounter(string, ...metric.Float64ObservableCounterOption) (metric.Float64ObservableCounter, error) {
	return nil, errRefused
}

type refusingProvider struct{ noop.MeterProvider }

func (refusingProvider) Meter(string, ...metric.MeterOption) metric.Meter { return refusing{} }

func TestAMeterThatRefusesIsReported(t *testing.T) {
	_, err := warmotel.New(warmotel.WithMeterProvider(refusingProvider{}))
	require.ErrorIs(t, err, errRefused)
}

// Without providers and without a transport it does nothing, and does no harm.
func TestOnTheGlobalProviders(t *testing.T) {
	telemetry, err := warmotel.New(warmotel.WithProvider("sglang"))
	require.NoError(t, err)
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a"}}, warmroute.WithHooks(telemetry))
	require.NoError(t, err)
	defer router.Close()
	lease, err := router.Route(context.Background(), warmroute.Request{Session: "s"})
	require.NoError(t, err)
	lease.Done(warmroute.Result{Err: errors.New("x")})
}
