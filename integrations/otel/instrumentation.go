// Package warmotel gives a [warmroute.Router] OpenTelemetry traces and metrics.
//
//	telemetry, err := warmotel.New()
//	router, err := warmroute.New(endpoints, warmroute.WithHooks(telemetry))
//	registration, err := telemetry.Observe(router)            // the stats as metrics
//	transport := telemetry.Transport(router.Transport(nil))   // a span a request
//
// # Spans
//
// [Instrumentation.Transport] starts a span of kind client for each request and
// ends it when the answer's body has: at its end, at an error, when it is closed or
// when the request's context ends. The span's context is put into the request's
// headers, so that the engine's spans are its children (vLLM reads traceparent if
// it was started with --otlp-traces-endpoint). The parent is the span of the
// request's context or, if there is none, that of its headers.
//
// Attributes that have a name in the semantic conventions have that one: gen_ai.*,
// http.*, server.* and error.type of version 1.41.0, the last to hold those for
// generative AI, which are in development. The others:
//
//	warmroute.replica       the replica's name
//	warmroute.rank          its data-parallel rank, if it is addressed by one
//	warmroute.outcome       sticky, placed, spilled, pinned or unkeyed
//	warmroute.keyed         whether the request has a session key; the key is never told
//	warmroute.wait          seconds for which it waited for room in a prefix cache
//	warmroute.verdict       what the engine's count says of a turn at home
//	warmroute.cached_share  part of the prompt that was taken from the prefix cache, 0 to 1
//	warmroute.abandoned     true if the request's context ended before its answer
//	warmroute.refusal       why it was sent nowhere
//
// Waiting, and each attempt that was not the last, are events of the span. Its
// status is an error for what failed: no replica, too many waiting, no answer, a
// 5xx, a stream that broke. It is not for a 4xx, a model or rank that does not
// exist, or a caller who gives up.
//
// A program that calls [warmroute.Router.Route] itself has the attributes set on
// the span of the context that it gives, and ends that itself.
//
// # Metrics
//
// By the conventions gen_ai.client.operation.duration,
// gen_ai.client.operation.time_to_first_chunk and gen_ai.client.token.usage. Of
// requests warmroute.attempts, warmroute.refusals, warmroute.queue.wait and
// warmroute.first_byte. [Instrumentation.Observe] adds what the stats count. An
// attribute's name there is that of the label in [warmroute.Stats.Export]: model,
// replica, outcome and so on.
package warmotel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the instrumentation.
const scope = "github.com/warmroute/warmroute/integrations/otel"

// DefaultProvider is the gen_ai.provider.name of engines.
const DefaultProvider = "vllm"

// Option configures an [Instrumentation].
type Option interface{ apply(*config) }

type option func(*config)

func (o option) apply(c *config) { o(c) }

type config struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	propagator propagation.TextMapPropagator
	provider   string
}

// WithTracerProvider sets where spans go. Default the global provider.
func WithTracerProvider(p trace.TracerProvider) Option {
	return option(func(c *config) { c.tracers = p })
}

// WithMeterProvider sets where metrics go. Default the global provider.
func WithMeterProvider(p metric.MeterProvider) Option {
	return option(func(c *config) { c.meters = p })
}

// WithPropagator sets how a span's context is written into the headers of a
// request, and read from them. Default the global propagator, which does neither
// unless the program has set another.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return option(func(c *config) { c.propagator = p })
}

// WithProvider sets the gen_ai.provider.name of engines of which the endpoint does
// not say what they are. Default [DefaultProvider].
func WithProvider(name string) Option {
	return option(func(c *config) { c.provider = name })
}

// Instrumentation is the traces and metrics of a router: a hook for
// [warmroute.WithHooks], and a transport around the router's. It is safe for
// concurrent use, and may serve several routers if they need not be told apart.
type Instrumentation struct {
	tracer     trace.Tracer
	meter      metric.Meter
	propagator propagation.TextMapPropagator
	provider   string

	duration   metric.Float64Histogram
	firstChunk metric.Float64Histogram
	tokens     metric.Int64Histogram
	attempts   metric.Int64Counter
	refusals   metric.Int64Counter
	queueWait  metric.Float64Histogram
	firstByte  metric.Float64Histogram
}

// New returns an instrumentation. The error is a meter's that refuses an
// instrument.
func New(opts ...Option) (*Instrumentation, error) {
	c := config{
		tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider(),
		propagator: otel.GetTextMapPropagator(), provider: DefaultProvider,
	}
	for _, o := range opts {
		o.apply(&c)
	}
	i := &Instrumentation{tracer: c.tracers.Tracer(scope), meter: c.meters.Meter(scope), propagator: c.propagator, provider: c.provider}
	if err := i.instruments(); err != nil {
		return nil, fmt.Errorf("warmotel: %w", err)
	}
	return i, nil
}

func (i *Instrumentation) instruments() (err error) {
	// The bounds are those that the conventions advise.
	seconds := metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
	if i.duration, err = i.meter.Float64Histogram(genaiconv.ClientOperationDuration{}.Name(), metric.WithUnit("s"),
		metric.WithDescription("GenAI operation duration."), seconds); err != nil {
		return err
	}
	if i.firstChunk, err = i.meter.Float64Histogram(genaiconv.ClientOperationTimeToFirstChunk{}.Name(), metric.WithUnit("s"),
		metric.WithDescription("Time to receive the first chunk of a streamed answer."), seconds); err != nil {
		return err
	}
	if i.tokens, err = i.meter.Int64Histogram(genaiconv.ClientTokenUsage{}.Name(), metric.WithUnit("{token}"),
		metric.WithDescription("Number of input and output tokens used."),
		metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)); err != nil {
		return err
	}
	if i.attempts, err = i.meter.Int64Counter("warmroute.attempts", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts to have a replica answer a request, by what routing did and how they ended.")); err != nil {
		return err
	}
	if i.refusals, err = i.meter.Int64Counter("warmroute.refusals", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that were sent nowhere, by reason.")); err != nil {
		return err
	}
	if i.queueWait, err = i.meter.Float64Histogram("warmroute.queue.wait", metric.WithUnit("s"),
		metric.WithDescription("Time for which turns that had to wait did, by how that ended."),
		metric.WithExplicitBucketBoundaries(0.01, 0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300)); err != nil {
		return err
	}
	i.firstByte, err = i.meter.Float64Histogram("warmroute.first_byte", metric.WithUnit("s"),
		metric.WithDescription("Time from routing a streamed request to the first byte of its answer's body."),
		metric.WithExplicitBucketBoundaries(.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 50, 100))
	return err
}

// requestKey is the context's key for the request that a transport has in hand.
type requestKey struct{ *Instrumentation }

// of is the request that a context belongs to, nil if it came by no transport of
// this instrumentation.
func (i *Instrumentation) of(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{i}).(*request)
	return r
}
