package warmotel_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/warmroute/warmroute"
)

func sim(ranks int) []warmroute.Endpoint {
	return []warmroute.Endpoint{{URL: "http://engine:8000", Ranks: ranks, Model: "sim"}}
}

var history = strings.Repeat("some words of a long history ", 40)

func TestSpanOfAConversation(t *testing.T) {
	run(t, sim(2), nil, func(t *testing.T, b *bench) {
		for turn := range 2 {
			resp := b.send(b.chat("secret-key", history, turn == 1))
			assert.Nil(t, resp.Request.Header["Traceparent"], "the caller's request is as it was")
		}
		spans := b.spans()
		require.Len(t, spans, 2)
		first, second := of(spans[0].Attributes), of(spans[1].Attributes)

		assert.Equal(t, "chat sim", spans[0].Name)
		assert.Equal(t, trace.SpanKindClient, spans[0].SpanKind)
		assert.Equal(t, codes.Unset, spans[0].Status.Code)
		assert.Equal(t, "placed", first["warmroute.outcome"])
		assert.NotContains(t, first, "gen_ai.request.stream")
		assert.NotContains(t, first, "warmroute.verdict", "it is not a turn at home")

		u := b.router.Stats().Pools[0].Tokens
		for name, want := range map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "vllm", "gen_ai.request.model": "sim",
			"server.address": "engine", "server.port": int64(8000), "http.request.method": "POST",
			"http.response.status_code": int64(200), "url.path": "/v1/chat/completions",
			"warmroute.outcome": "sticky", "warmroute.keyed": true, "warmroute.wait": 0.0, "warmroute.verdict": "verified",
			"gen_ai.request.stream": true, "warmroute.replica": first["warmroute.replica"], "warmroute.rank": first["warmroute.rank"],
			"gen_ai.usage.output_tokens": int64(20), "gen_ai.usage.cache_read.input_tokens": int64(u.PromptCached),
			"gen_ai.usage.input_tokens": first["gen_ai.usage.input_tokens"],
		} {
			assert.Equal(t, want, second[name], name)
		}
		prompt := second["gen_ai.usage.input_tokens"].(int64)
		assert.InDelta(t, float64(u.PromptCached)/float64(prompt), second["warmroute.cached_share"], 1e-9)
		assert.Greater(t, second["warmroute.cached_share"], 0.9)
		ttft := second["gen_ai.response.time_to_first_chunk"].(float64)
		assert.Positive(t, ttft)
		assert.Less(t, ttft, spans[1].EndTime.Sub(spans[1].StartTime).Seconds())
		assert.NotContains(t, second, "error.type")
		for _, s := range spans {
			for _, a := range s.Attributes {
				assert.NotContains(t, a.Value.String(), "secret-key")
			}
		}
	})
}

// The engine gets the span as the parent of its own, and the span has that of the
// context, or of the headers where there is none.
func TestSpanContextGoesOn(t *testing.T) {
	run(t, sim(2), nil, func(t *testing.T, b *bench) {
		ctx, parent := b.tracers.Tracer("test").Start(t.Context(), "parent")
		b.send(b.chat("s", "hi", false).WithContext(ctx))
		span := b.one()
		assert.Equal(t, parent.SpanContext().SpanID(), span.Parent.SpanID())
		assert.Equal(t, "00-"+span.SpanContext.TraceID().String()+"-"+span.SpanContext.SpanID().String()+"-01", b.seen[0].Get("Traceparent"))
		assert.Equal(t, parent.SpanContext().TraceID(), span.SpanContext.TraceID())

		req := b.chat("s", "hi", false)
		req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		b.send(req)
		span = b.one()
		assert.Equal(t, "0af7651916cd43dd8448eb211c80319c", span.SpanContext.TraceID().String())
		assert.Equal(t, "b7ad6b7169203331", span.Parent.SpanID().String())
		assert.Equal(t, []string{"00-0af7651916cd43dd8448eb211c80319c-" + span.SpanContext.SpanID().String() + "-01"}, b.seen[1].Values("Traceparent"))
		assert.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", req.Header.Get("Traceparent"))
	})
}

// A stream's span ends once, with the stream, however that ends.
func TestSpanEndsWithTheStream(t *testing.T) {
	for _, tc := range []struct {
		name string
		// end ends a stream of which something was read.
		end       func(b *bench, body io.ReadCloser, cancel func())
		abandoned bool
		status    codes.Code
		kind      string
	}{
		{"read to its end", func(b *bench, body io.ReadCloser, _ func()) {
			_, err := io.Copy(io.Discard, body)
			require.NoError(b.t, err)
		}, false, codes.Unset, ""},
		{"closed early", func(b *bench, body io.ReadCloser, _ func()) {
			require.NoError(b.t, body.Close())
		}, false, codes.Unset, ""},
		{"cancelled and dropped", func(_ *bench, _ io.ReadCloser, cancel func()) { cancel() }, true, codes.Unset, ""},
		{"cancelled and closed", func(b *bench, body io.ReadCloser, cancel func()) {
			cancel()
			_ = body.Close() // what it says is the engine's business
		}, true, codes.Unset, ""},
		{"broken", func(b *bench, body io.ReadCloser, _ func()) {
			b.engine.Stop()
			_, err := io.Copy(io.Discard, body)
			require.Error(b.t, err)
		}, false, codes.Error, "*"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, sim(2), nil, func(t *testing.T, b *bench) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				resp, err := b.transport.RoundTrip(b.chat("s", history, true).WithContext(ctx))
				require.NoError(t, err)
				_, err = resp.Body.Read(make([]byte, 10))
				require.NoError(t, err)
				time.Sleep(100 * time.Millisecond)
				assert.Empty(t, b.spans(), "the stream goes on")
				before := time.Now()
				tc.end(b, resp.Body, cancel)
				synctest.Wait()
				span := b.one()
				assert.GreaterOrEqual(t, span.EndTime, before)
				assert.Equal(t, tc.status, span.Status.Code)
				a := of(span.Attributes)
				assert.Equal(t, tc.abandoned, a["warmroute.abandoned"] == true)
				if tc.kind == "" {
					assert.NotContains(t, a, "error.type")
				} else {
					assert.NotEmpty(t, a["error.type"])
				}
				_ = resp.Body.Close() // again
				cancel()
				synctest.Wait()
				assert.Empty(t, b.spans(), "it ends once")
			})
		})
	}
}

// Only what failed is an error.
func TestSpanStatus(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	status := func(code int) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		}
	}
	for _, tc := range []struct {
		name    string
		before  func(*http.Request) (*http.Response, error)
		change  func(*http.Request)
		refusal any
		kind    string // error.type; empty if it is no failure
		fails   bool   // the transport returns an error
	}{
		{name: "400", before: status(400)},
		{name: "429", before: status(429)},
		{name: "500", before: status(500), kind: "500"},
		{name: "503", before: status(503), kind: "503"},
		{name: "unreachable", before: func(*http.Request) (*http.Response, error) { return nil, refused }, kind: "unreachable", fails: true},
		{name: "reset", before: func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, kind: "*errors.errorString", fails: true},
		{name: "rank out of range", change: func(r *http.Request) { r.Header.Set("X-Data-Parallel-Rank", "9") }, refusal: "client_rank", fails: true},
		{name: "unknown model", change: func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(`{"model":"made up"}`))
			r.ContentLength = -1
		}, refusal: "unknown_model", fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, sim(2), nil, func(t *testing.T, b *bench) {
				b.before = tc.before
				req := b.chat("s", "hi", false)
				if tc.change != nil {
					tc.change(req)
				}
				resp, err := b.transport.RoundTrip(req)
				assert.Equal(t, tc.fails, err != nil)
				if err == nil {
					assert.Empty(t, b.spans())
					require.NoError(t, resp.Body.Close())
				}
				span := b.one()
				a := of(span.Attributes)
				assert.Equal(t, tc.refusal, a["warmroute.refusal"])
				if tc.kind == "" {
					assert.Equal(t, codes.Unset, span.Status.Code)
					assert.NotContains(t, a, "error.type")
					return
				}
				assert.Equal(t, codes.Error, span.Status.Code)
				assert.NotEmpty(t, span.Status.Description)
				assert.Equal(t, tc.kind, a["error.type"])
			})
		})
	}
}

func TestSpanOfAClosedRouter(t *testing.T) {
	run(t, sim(1), nil, func(t *testing.T, b *bench) {
		require.NoError(t, b.router.Close())
		_, err := b.transport.RoundTrip(b.chat("s", "hi", false))
		require.ErrorIs(t, err, warmroute.ErrClosed)
		span := b.one()
		assert.Equal(t, "chat", span.Name)
		assert.Equal(t, codes.Error, span.Status.Code)
		assert.Equal(t, "closed", of(span.Attributes)["error.type"])
		assert.Equal(t, map[string]float64{"reason=closed": 1}, b.points("warmroute.refusals"))
	})
}

func TestSpanOfAFailover(t *testing.T) {
	endpoints := append(sim(2), warmroute.Endpoint{URL: "http://dead", Model: "sim"})
	run(t, endpoints, nil, func(t *testing.T, b *bench) {
		b.before = func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "dead" {
				return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
			}
			return nil, nil
		}
		for range 6 {
			b.send(b.chat("", "hi", false))
			span := b.one()
			a := of(span.Attributes)
			assert.Equal(t, "engine", a["server.address"], "that answered")
			assert.Equal(t, codes.Unset, span.Status.Code)
			if a["http.request.resend_count"] == nil {
				continue
			}
			assert.Equal(t, int64(1), a["http.request.resend_count"])
			require.Len(t, span.Events, 1)
			assert.Equal(t, "warmroute.attempt.failed", span.Events[0].Name)
			assert.Equal(t, map[string]any{
				"warmroute.replica": "dead:80", "error.type": "unreachable", "exception.message": "dial: connection refused",
			}, of(span.Events[0].Attributes))
			assert.InDelta(t, 1, b.points("warmroute.attempts")["error.type=unreachable model=sim outcome=unkeyed replica=dead:80"], 0)
			return
		}
		t.Fatal("nobody was sent to the dead endpoint")
	})
}

func TestSpanOfAWait(t *testing.T) {
	opts := []warmroute.Option{warmroute.WithResidency(1000), warmroute.WithMaxWait(20 * time.Second)}
	run(t, sim(1), opts, func(t *testing.T, b *bench) {
		// As large as the cache, so that there is room for one.
		large := func(ctx context.Context, session string) (warmroute.Lease, error) {
			return b.router.Route(ctx, warmroute.Request{Model: "sim", Session: session, PromptTokens: 900, MaxTokens: 50})
		}
		for range 70 {
			lease, err := large(t.Context(), "")
			require.NoError(t, err)
			lease.Answered()
			lease.Done(warmroute.Result{Usage: warmroute.Usage{Prompt: 900, Completion: 50, Known: true, Measured: true}})
		}
		first, err := large(t.Context(), "1")
		require.NoError(t, err)

		// A program that routes itself: its own span has it all.
		ctx, span := b.tracers.Tracer("test").Start(t.Context(), "own")
		done := make(chan struct{})
		go func() {
			defer close(done)
			lease, err := large(ctx, "2")
			if err != nil {
				t.Error(err)
				return
			}
			lease.Done(warmroute.Result{})
		}()
		synctest.Wait()
		time.Sleep(3 * time.Second)
		first.Done(warmroute.Result{})
		<-done
		assert.Empty(t, b.spans(), "it is its owner's to end")
		span.End()
		own := b.one()
		require.Len(t, own.Events, 2)
		assert.Equal(t, "warmroute.queue.entered", own.Events[0].Name)
		assert.Equal(t, map[string]any{"warmroute.queue.length": int64(1), "warmroute.queue.bound": 20.0}, of(own.Events[0].Attributes))
		assert.Equal(t, "warmroute.queue.left", own.Events[1].Name)
		assert.Equal(t, "admitted", of(own.Events[1].Attributes)["warmroute.queue.reason"])
		assert.InDelta(t, 3, of(own.Attributes)["warmroute.wait"], 0.2, "it goes by the admission's clock")
		assert.Equal(t, "placed", of(own.Attributes)["warmroute.outcome"])
		assert.Equal(t, map[string]float64{"model=sim reason=admitted": 1}, b.points("warmroute.queue.wait"))
	})
}

// Requests that generate nothing have a span by their method.
func TestSpanOfAnotherRequest(t *testing.T) {
	run(t, sim(1), nil, func(t *testing.T, b *bench) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://model/v1/models", nil)
		require.NoError(t, err)
		b.send(req)
		span := b.one()
		assert.Equal(t, "GET", span.Name)
		assert.NotContains(t, of(span.Attributes), "gen_ai.operation.name")
		assert.Empty(t, b.points("gen_ai.client.operation.duration"))
		req.Method = "MADE-UP"
		b.send(req)
		assert.Equal(t, "_OTHER", b.one().Name)
	})
}

// What is in the way of an answer's body is what the router put there.
func TestTransportPassesThrough(t *testing.T) {
	run(t, sim(1), nil, func(t *testing.T, b *bench) {
		closed := 0
		b.before = func(*http.Request) (*http.Response, error) { panic("base") }
		assert.PanicsWithValue(t, "base", func() { _, _ = b.transport.RoundTrip(b.chat("s", "hi", false)) })
		assert.NotEmpty(t, b.one().Name)
		inner := b.telemetry.Transport(idleCloser(func() { closed++ }))
		(&http.Client{Transport: inner}).CloseIdleConnections()
		assert.Equal(t, 1, closed)
		_, err := inner.RoundTrip(&http.Request{Method: http.MethodGet}) // without URL or header
		require.ErrorIs(t, err, errNothing)
		span := b.one()
		assert.Equal(t, codes.Error, span.Status.Code)
		assert.Contains(t, span.Attributes, attribute.String("error.type", "*errors.errorString"))
	})
}

var errNothing = errors.New("nothing")

type idleCloser func()

func (idleCloser) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNothing }
func (f idleCloser) CloseIdleConnections()                         { f() }
