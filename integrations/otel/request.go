package warmotel

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// request is one that a transport has in hand, with its span, which it ends once.
type request struct {
	instrumentation *Instrumentation
	span            trace.Span
	start           time.Time
	operation       string // gen_ai.operation.name; empty if the request is for something else

	mu       sync.Mutex
	ended    bool
	attempts int
	// attributes of the metrics that are recorded at the end
	attributes []attribute.KeyValue
}

// operationOf is the gen_ai.operation.name of an API's path, whatever is before it.
func operationOf(path string) string {
	for _, api := range [...]struct{ suffix, operation string }{
		{"/v1/chat/completions", semconv.GenAIOperationNameChat.Value.AsString()},
		{"/v1/messages", semconv.GenAIOperationNameChat.Value.AsString()},
		{"/v1/responses", semconv.GenAIOperationNameChat.Value.AsString()},
		{"/v1/completions", semconv.GenAIOperationNameTextCompletion.Value.AsString()},
		{"/v1/embeddings", semconv.GenAIOperationNameEmbeddings.Value.AsString()},
	} {
		if strings.HasSuffix(path, api.suffix) {
			return api.operation
		}
	}
	return ""
}

// methodOf is the http.request.method: clients make up methods too.
func methodOf(method string) string {
	switch method {
	case "":
		return http.MethodGet
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return semconv.HTTPRequestMethodOther.Value.AsString()
}

// begin starts the span of an HTTP request, and returns the context that has it.
func (i *Instrumentation) begin(req *http.Request) (context.Context, *request) {
	ctx := req.Context()
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = i.propagator.Extract(ctx, headerCarrier(req.Header))
	}
	r := &request{instrumentation: i, start: time.Now()}
	name := methodOf(req.Method)
	attributes := []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(name)}
	if req.URL != nil {
		attributes = append(attributes, semconv.URLPath(req.URL.Path))
		if req.Method == http.MethodPost {
			r.operation = operationOf(req.URL.Path)
		}
	}
	if r.operation != "" {
		name = r.operation
		attributes = append(attributes, semconv.GenAIOperationNameKey.String(r.operation))
	}
	ctx, r.span = i.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	return context.WithValue(ctx, requestKey{i}, r), r
}

// attempt notes that the request is sent to a replica, and returns how often it
// was before.
func (r *request) attempt() (before int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts++
	return r.attempts - 1
}

// end ends the request, with the kind of error that it ended with, if any, and a
// sentence about it. Only the first call has an effect.
func (r *request) end(ctx context.Context, kind, description string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	if kind != "" {
		r.span.SetAttributes(semconv.ErrorTypeKey.String(kind))
		r.span.SetStatus(codes.Error, description)
	}
	if r.operation != "" {
		attributes := r.attributes
		if attributes == nil { // it was sent nowhere
			attributes = r.instrumentation.genAI(r.operation, nil, "")
		}
		if kind != "" {
			attributes = append(attributes, semconv.ErrorTypeKey.String(kind))
		}
		r.instrumentation.duration.Record(ctx, time.Since(r.start).Seconds(), metric.WithAttributes(attributes...))
	}
	r.span.End()
}
