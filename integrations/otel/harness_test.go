package warmotel_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/warmroute/warmroute"
	warmotel "github.com/warmroute/warmroute/integrations/otel"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// bench is a router in front of a simulated engine, with telemetry kept in memory.
type bench struct {
	t         *testing.T
	engine    *fakevllm.Server
	router    *warmroute.Router
	transport http.RoundTripper
	telemetry *warmotel.Instrumentation
	tracers   *trace.TracerProvider
	exporter  *tracetest.InMemoryExporter
	reader    *metric.ManualReader

	mu   sync.Mutex
	seen []http.Header // of requests that reached the base transport
	// before answers a request in the engine's place if it returns something.
	before func(*http.Request) (*http.Response, error)
}

// run runs a test in virtual time.
func run(t *testing.T, endpoints []warmroute.Endpoint, opts []warmroute.Option, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, exporter: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
		b.tracers = trace.NewTracerProvider(trace.WithSyncer(b.exporter))
		var err error
		b.engine, err = fakevllm.New(fakevllm.Config{Ranks: 2})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, b.engine.Close()) })
		b.telemetry, err = warmotel.New(warmotel.WithTracerProvider(b.tracers),
			warmotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(b.reader))), warmotel.WithPropagator(propagation.TraceContext{}))
		require.NoError(t, err)
		b.router, err = warmroute.New(endpoints, append([]warmroute.Option{warmroute.WithHooks(b.telemetry)}, opts...)...)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, b.router.Close()) })
		b.transport = b.telemetry.Transport(b.router.Transport(b))
		test(t, b)
	})
}

// RoundTrip is the transport below the router.
func (b *bench) RoundTrip(req *http.Request) (*http.Response, error) {
	b.mu.Lock()
	b.seen = append(b.seen, req.Header.Clone())
	b.mu.Unlock()
	if b.before != nil {
		if resp, err := b.before(req); resp != nil || err != nil {
			return resp, err
		}
	}
	return b.engine.RoundTrip(req)
}

// chat is a request for a chat completion.
func (b *bench) chat(session, words string, stream bool) *http.Request {
	b.t.Helper()
	body := fmt.Sprintf(`{"model":"sim","messages":[{"role":"user","content":%q}],"max_tokens":20,"stream":%t,"stream_options":%s}`,
		words, stream, map[bool]string{true: `{"include_usage":true}`, false: "null"}[stream])
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, "http://model/v1/chat/completions", strings.NewReader(body))
	require.NoError(b.t, err)
	req.Header.Set("Content-Type", "application/json")
	if session != "" {
		req.Header.Set("X-Session-Id", session)
	}
	return req
}

// send sends a request and reads its answer to the end.
func (b *bench) send(req *http.Request) *http.Response {
	b.t.Helper()
	resp, err := b.transport.RoundTrip(req)
	require.NoError(b.t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(b.t, err)
	require.NoError(b.t, resp.Body.Close())
	return resp
}

// spans returns those that have ended since the last call.
func (b *bench) spans() tracetest.SpanStubs {
	spans := b.exporter.GetSpans()
	b.exporter.Reset()
	return spans
}

// one is the only span that has ended.
func (b *bench) one() tracetest.SpanStub {
	b.t.Helper()
	spans := b.spans()
	require.Len(b.t, spans, 1)
	return spans[0]
}

// of is attributes by name.
func of(attributes []attribute.KeyValue) map[string]any {
	out := map[string]any{}
	for _, a := range attributes {
		out[string(a.Key)] = a.Value.AsInterface()
	}
	return out
}

// points are the data points of a metric by their attributes, each the value of a
// counter or gauge, or the count of a histogram.
func (b *bench) points(name string) map[string]float64 {
	b.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(b.t, b.reader.Collect(b.t.Context(), &all))
	out := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					out[labels(p.Attributes)] = float64(p.Value)
				}
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					out[labels(p.Attributes)] = p.Value
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					out[labels(p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					out[labels(p.Attributes)] = float64(p.Count)
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					out[labels(p.Attributes)] = float64(p.Sum)
				}
			}
		}
	}
	return out
}

func labels(set attribute.Set) string {
	var out []string
	for _, a := range set.ToSlice() {
		out = append(out, string(a.Key)+"="+a.Value.String())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
