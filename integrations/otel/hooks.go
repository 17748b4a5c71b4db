package warmotel

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

// The instrumentation is these hooks.
var _ interface {
	warmroute.RouteHook
	warmroute.DoneHook
	warmroute.EnqueueHook
	warmroute.DequeueHook
	warmroute.RefuseHook
} = (*Instrumentation)(nil)

// OnRoute implements [warmroute.RouteHook].
func (i *Instrumentation) OnRoute(ctx context.Context, e warmroute.RouteEvent) {
	span, r := trace.SpanFromContext(ctx), i.of(ctx)
	if r != nil {
		span = r.span
	}
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("warmroute.replica", e.Replica.Name()),
			attribute.String("warmroute.outcome", string(e.Outcome)),
			attribute.Bool("warmroute.keyed", e.Keyed),
			attribute.Float64("warmroute.wait", e.Waited.Seconds()),
		)
		span.SetAttributes(i.serverOf(e.Replica)...)
		if rank := e.Replica.Rank(); rank != replica.NoRank {
			span.SetAttributes(attribute.Int("warmroute.rank", rank))
		}
	}
	if r == nil {
		return
	}
	if again := r.attempt(); again > 0 {
		span.SetAttributes(semconv.HTTPRequestResendCount(again))
	}
	if r.operation == "" {
		return
	}
	span.SetAttributes(semconv.GenAIProviderNameKey.String(i.providerOf(e.Replica)))
	if e.Model != "" {
		span.SetName(r.operation + " " + e.Model)
		span.SetAttributes(semconv.GenAIRequestModel(e.Model))
	}
}

// OnDone implements [warmroute.DoneHook].
func (i *Instrumentation) OnDone(ctx context.Context, e warmroute.DoneEvent) {
	span, r := trace.SpanFromContext(ctx), i.of(ctx)
	if r != nil {
		span = r.span
	}
	kind, description := errorOfResult(e.Result)
	counted := []attribute.KeyValue{
		attribute.String("model", e.Model), attribute.String("replica", e.Replica.Name()), attribute.String("outcome", string(e.Outcome)),
	}
	if e.Result.FirstByte > 0 {
		i.firstByte.Record(ctx, e.Result.FirstByte.Seconds(), metric.WithAttributes(counted[:2]...))
	}
	if kind != "" {
		counted = append(counted, semconv.ErrorTypeKey.String(kind))
	}
	i.attempts.Add(ctx, 1, metric.WithAttributes(counted...))
	if span.IsRecording() {
		if !e.Final {
			span.AddEvent("warmroute.attempt.failed", trace.WithAttributes(
				attribute.String("warmroute.replica", e.Replica.Name()), semconv.ErrorTypeKey.String(kind), semconv.ExceptionMessage(description),
			))
			return
		}
		span.SetAttributes(resultAttributes(ctx, e)...)
	}
	if r == nil || !e.Final {
		return
	}
	if r.operation != "" {
		i.usage(ctx, r, e)
	}
	r.end(ctx, kind, description)
}

// resultAttributes is what a span says of how its request ended.
func resultAttributes(ctx context.Context, e warmroute.DoneEvent) []attribute.KeyValue {
	var out []attribute.KeyValue
	u := e.Result.Usage
	if u.Known {
		out = append(out, semconv.GenAIUsageInputTokens(int(u.Prompt)), semconv.GenAIUsageOutputTokens(int(u.Completion)))
	}
	if u.Known && u.Measured {
		out = append(out, semconv.GenAIUsageCacheReadInputTokens(int(u.Cached)))
		if u.Prompt > 0 {
			out = append(out, attribute.Float64("warmroute.cached_share", float64(u.Cached)/float64(u.Prompt)))
		}
	}
	if e.Result.FirstByte > 0 {
		out = append(out, semconv.GenAIRequestStream(true), semconv.GenAIResponseTimeToFirstChunk(firstChunk(e).Seconds()))
	}
	if e.Verdict != "" {
		out = append(out, attribute.String("warmroute.verdict", string(e.Verdict)))
	}
	if e.Result.StatusCode != 0 {
		out = append(out, semconv.HTTPResponseStatusCode(e.Result.StatusCode))
	}
	if e.Result.Err == nil && ctx.Err() != nil {
		out = append(out, attribute.Bool("warmroute.abandoned", true))
	}
	return out
}

// firstChunk is the time from a request's arrival to the first byte of its answer.
func firstChunk(e warmroute.DoneEvent) time.Duration { return e.Waited + e.Result.FirstByte }

// usage records what the conventions want of a finished operation.
func (i *Instrumentation) usage(ctx context.Context, r *request, e warmroute.DoneEvent) {
	attributes := i.genAI(r.operation, e.Replica, e.Model)
	r.mu.Lock()
	r.attributes = attributes[:len(attributes):len(attributes)]
	r.mu.Unlock()
	if e.Result.FirstByte > 0 {
		i.firstChunk.Record(ctx, firstChunk(e).Seconds(), metric.WithAttributes(attributes...))
	}
	if u := e.Result.Usage; u.Known {
		all := len(attributes)
		input := append(attributes[:all:all], semconv.GenAITokenTypeInput)
		output := append(attributes[:all:all], semconv.GenAITokenTypeOutput)
		i.tokens.Record(ctx, u.Prompt, metric.WithAttributes(input...))
		i.tokens.Record(ctx, u.Completion, metric.WithAttributes(output...))
	}
}

// genAI is the attributes of the conventions' metrics. The replica is nil for a
// request that was sent nowhere.
func (i *Instrumentation) genAI(operation string, to *warmroute.Replica, model string) []attribute.KeyValue {
	out := []attribute.KeyValue{semconv.GenAIOperationNameKey.String(operation), semconv.GenAIProviderNameKey.String(i.providerOf(to))}
	if to != nil {
		out = append(out, i.serverOf(to)...)
	}
	if model != "" {
		out = append(out, semconv.GenAIRequestModel(model))
	}
	return out
}

func (i *Instrumentation) providerOf(r *warmroute.Replica) string {
	if r != nil && r.Endpoint().Engine != "" {
		return r.Endpoint().Engine
	}
	return i.provider
}

// serverOf is a replica's address.
func (*Instrumentation) serverOf(r *warmroute.Replica) []attribute.KeyValue {
	u := r.URL()
	out := []attribute.KeyValue{semconv.ServerAddress(u.Hostname())}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if n, err := strconv.Atoi(port); err == nil {
		out = append(out, semconv.ServerPort(n))
	}
	return out
}

// OnEnqueue implements [warmroute.EnqueueHook].
func (i *Instrumentation) OnEnqueue(ctx context.Context, e warmroute.EnqueueEvent) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent("warmroute.queue.entered", trace.WithAttributes(
			attribute.Int("warmroute.queue.length", e.Waiting), attribute.Float64("warmroute.queue.bound", e.Bound.Seconds())))
	}
}

// OnDequeue implements [warmroute.DequeueHook].
func (i *Instrumentation) OnDequeue(ctx context.Context, e warmroute.DequeueEvent) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent("warmroute.queue.left", trace.WithAttributes(
			attribute.String("warmroute.queue.reason", string(e.Reason)), attribute.Float64("warmroute.wait", e.Waited.Seconds())))
	}
	i.queueWait.Record(ctx, e.Waited.Seconds(), metric.WithAttributes(
		attribute.String("model", e.Model), attribute.String("reason", string(e.Reason))))
}

// OnRefuse implements [warmroute.RefuseHook].
func (i *Instrumentation) OnRefuse(ctx context.Context, e warmroute.RefuseEvent) {
	attributes := []attribute.KeyValue{attribute.String("reason", string(e.Reason))}
	if e.Reason != warmroute.RefusedUnknownModel && e.Reason != warmroute.RefusedClosed { // whose model is whatever the client made up
		attributes = append(attributes, attribute.String("model", e.Model))
	}
	i.refusals.Add(ctx, 1, metric.WithAttributes(attributes...))
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("warmroute.refusal", string(e.Reason)))
	}
}

// errorOfResult is the error.type of a failed attempt, and a sentence about it;
// nothing if it did not fail.
func errorOfResult(res warmroute.Result) (kind, description string) {
	switch {
	case res.Err == nil:
		return "", ""
	case res.Unreachable:
		return "unreachable", res.Err.Error()
	case res.StatusCode >= 500:
		return strconv.Itoa(res.StatusCode), res.Err.Error()
	}
	return typeOf(res.Err), res.Err.Error()
}

// errorOf is the same of a request that got no answer.
func errorOf(ctx context.Context, err error) (kind, description string) {
	switch {
	case ctx.Err() != nil || clientsFault(err):
		return "", ""
	case errors.Is(err, warmroute.ErrOverloaded):
		return string(warmroute.RefusedOverloaded), err.Error()
	case errors.Is(err, warmroute.ErrClosed):
		return string(warmroute.RefusedClosed), err.Error()
	case errors.Is(err, warmroute.ErrNoReplica):
		return string(warmroute.RefusedNoReplica), err.Error()
	}
	return typeOf(err), err.Error()
}

// typeOf is an error.type of few values: what is known of the network's errors by
// name, and otherwise the Go type.
func typeOf(err error) string {
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() {
		return "timeout"
	}
	return semconv.ErrorType(err).Value.AsString()
}
