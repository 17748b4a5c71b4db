package warmotel_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	warmotel "github.com/warmroute/warmroute/integrations/otel"
	"github.com/warmroute/warmroute/internal/families"
	"github.com/warmroute/warmroute/metrics"
)

// OpenTelemetry's exporter to Prometheus names what is observed as the router's own
// text does, so that one dashboard serves both.
func TestNamesByTheExporterToPrometheus(t *testing.T) {
	run(t, sim(2), nil, func(t *testing.T, b *bench) {
		registry := prometheus.NewRegistry()
		reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
		require.NoError(t, err)
		telemetry, err := warmotel.New(warmotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
		require.NoError(t, err)
		_, err = telemetry.Observe(b.router)
		require.NoError(t, err)
		b.send(b.chat("s", history, true))
		exported, err := registry.Gather()
		require.NoError(t, err)
		names := map[string]string{}
		for _, f := range exported {
			names[f.GetName()] = strings.ToLower(f.GetType().String())
		}
		// Of these nothing is known yet, a residency is not configured, and nobody looks for endpoints.
		unknown := []string{"warmroute_engine_running", "warmroute_engine_waiting", "warmroute_engine_kv_usage_ratio", "warmroute_engine_prefix_hit_ratio",
			"warmroute_scrape_age_seconds", "warmroute_prefill_tokens_per_second", "warmroute_residents",
			"warmroute_discovery_endpoints", "warmroute_discovery_failing", "warmroute_discovery_updated_timestamp_seconds"}
		count := 0
		for _, f := range families.All() {
			if f.Kind == metrics.KindHistogram {
				continue
			}
			if _, ok := names[f.Name]; !ok {
				assert.Contains(t, unknown, f.Name, "%v", names)
				continue
			}
			assert.Equal(t, f.Kind.String(), names[f.Name], f.Name)
			count++
		}
		assert.Greater(t, count, 25)
	})
}
