package warmotel_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/warmroute/warmroute"
	warmotel "github.com/warmroute/warmroute/integrations/otel"
)

// nothing is a base transport that answers at once.
type nothing struct{}

func (nothing) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: emptyBody{}}, nil
}

// emptyBody is a body that is not http.NoBody.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

// BenchmarkTransport is a round trip over a base that does nothing: by the router
// alone, with spans that are not sampled, and with all of it.
func BenchmarkTransport(b *testing.B) {
	metered := warmotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())))
	for _, bc := range []struct {
		name string
		opts []warmotel.Option // nil: no telemetry
	}{
		{"bare", nil},
		{"noop", []warmotel.Option{warmotel.WithTracerProvider(tracenoop.NewTracerProvider())}},
		{"unsampled", []warmotel.Option{metered, warmotel.WithTracerProvider(trace.NewTracerProvider(trace.WithSampler(trace.NeverSample())))}},
		{"sampled", []warmotel.Option{metered, warmotel.WithPropagator(propagation.TraceContext{}),
			warmotel.WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(tracetest.NewNoopExporter())))}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			var hooks []warmroute.Option
			var telemetry *warmotel.Instrumentation
			if bc.opts != nil {
				var err error
				telemetry, err = warmotel.New(bc.opts...)
				require.NoError(b, err)
				hooks = append(hooks, warmroute.WithHooks(telemetry))
			}
			router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a", Ranks: 8}}, hooks...)
			require.NoError(b, err)
			defer router.Close()
			var transport http.RoundTripper = router.Transport(nothing{})
			if telemetry != nil {
				transport = telemetry.Transport(transport)
			}
			req, err := http.NewRequest(http.MethodPost, "http://model/v1/chat/completions", http.NoBody)
			require.NoError(b, err)
			req.Header.Set("X-Session-Id", "s")
			b.ReportAllocs()
			for b.Loop() {
				resp, err := transport.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				if err := resp.Body.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
