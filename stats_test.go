package warmroute_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// keys lists the names of a JSON value with those below them.
func keys(prefix string, v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for k, below := range v {
			out = append(out, prefix+k)
			out = append(out, keys(prefix+k+".", below)...)
		}
	case []any:
		if len(v) > 0 {
			out = append(out, keys(prefix, v[0])...)
		}
	}
	slices.Sort(out)
	return out
}

func TestStatsJSON(t *testing.T) {
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a/p", Ranks: 2}, {URL: "http://b"}})
	w := get(t, router.Handler(), "/stats")
	assert.Equal(t, 200, w.Code)
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var v any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
	want := strings.Fields(`since unknown_model pools.turns pools.turns.verified pools.turns.lost pools.turns.ignored
		pools.turns.rewritten pools.turns.unmeasured pools.verified_share pools.gaps pools.gaps.up_to_s pools.gaps.turns
		pools.gaps.kept pools.gaps.expected pools.replicas.gaps pools.replicas.gaps.up_to_s pools.replicas.gaps.turns
		pools.replicas.gaps.kept pools.replicas.gaps.expected pools.answers_cached pools.problems pools.queue pools.queue.active pools.queue.longest_wait_s pools.queue.max_wait_s
		pools.queue.max_waiting pools.queue.overloaded pools.queue.residency pools.queue.waiting pools.replicas.residents pools.replicas.turns pools.replicas.turns.verified pools.replicas.turns.lost
		pools.replicas.turns.ignored pools.replicas.turns.rewritten pools.replicas.turns.unmeasured
		pools.replicas.verified_share pools.replicas.prefill_tokens_per_s pools.replicas.max_running pools pools.model pools.affinity pools.spill pools.spill.value pools.spill.source
		pools.in_flight pools.sessions pools.sticky_share pools.requests pools.requests.sticky pools.requests.placed
		pools.requests.spilled pools.requests.pinned pools.requests.unkeyed pools.requests.failed pools.requests.refused
		pools.requests.picker_errors pools.tokens pools.tokens.prompt_cached pools.tokens.prompt_computed
		pools.tokens.completion pools.tokens.unmeasured_requests pools.tokens.cached_share_last_hour pools.replicas
		pools.replicas.name pools.replicas.url pools.replicas.rank pools.replicas.state pools.replicas.finding pools.replicas.in_flight
		pools.replicas.sessions pools.replicas.sticky pools.replicas.placed pools.replicas.spilled_in
		pools.replicas.pinned pools.replicas.unkeyed pools.replicas.failed pools.replicas.running pools.replicas.waiting
		pools.replicas.kv_usage pools.replicas.prefix_hit_rate pools.replicas.scraped_ago_s pools.replicas.stale
		pools.requests.retries pools.requests.retries_refused pools.replicas.breaker pools.replicas.breaker_opens
		pools.replicas.header_timeouts pools.replicas.idle_timeouts`)
	slices.Sort(want)
	assert.Equal(t, want, keys("", v))
	var s warmroute.Stats
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
	assert.Equal(t, 1, *s.Pools[0].Replicas[1].Rank)
	assert.Nil(t, s.Pools[0].Replicas[2].Rank)
	assert.Equal(t, "http://a/p", s.Pools[0].Replicas[0].URL)
	assert.Nil(t, s.Pools[0].StickyShare)
}

func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a"))
		done := func(r warmroute.Result) { route(t, router, warmroute.Request{}).Done(r) }
		done(warmroute.Result{Usage: warmroute.Usage{Prompt: 100, Cached: 80, Completion: 5, Known: true, Measured: true}})
		done(warmroute.Result{Usage: warmroute.Usage{Prompt: 50, Cached: 49, Completion: 1, Known: true}})
		done(warmroute.Result{})
		done(warmroute.Result{NoTokens: true})
		done(warmroute.Result{Err: errors.New("x")})
		done(warmroute.Result{Usage: warmroute.Usage{Prompt: 10, Cached: 99, Completion: -1, Known: true, Measured: true}})
		tokens := router.Stats().Pools[0].Tokens
		assert.Equal(t, uint64(90), tokens.PromptCached, "never more than the prompt")
		assert.Equal(t, uint64(70), tokens.PromptComputed, "unmeasured counts as computed")
		assert.Equal(t, uint64(6), tokens.Completion)
		assert.Equal(t, uint64(2), tokens.UnmeasuredRequests)
		assert.InDelta(t, 90.0/160, *tokens.CachedShareLastHour, 1e-9)

		time.Sleep(59 * time.Minute)
		done(warmroute.Result{Usage: warmroute.Usage{Prompt: 40, Known: true, Measured: true}})
		assert.InDelta(t, 90.0/200, *router.Stats().Pools[0].Tokens.CachedShareLastHour, 1e-9)
		time.Sleep(time.Minute)
		assert.InDelta(t, 0, *router.Stats().Pools[0].Tokens.CachedShareLastHour, 1e-9)
		time.Sleep(time.Hour)
		assert.Nil(t, router.Stats().Pools[0].Tokens.CachedShareLastHour)
	})
}

func TestPrometheusText(t *testing.T) {
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2, Model: `m"\`}})
	for i := range 2 {
		lease := route(t, router, warmroute.Request{Session: "s"})
		lease.Answered()
		lease.Done(warmroute.Result{Usage: warmroute.Usage{Prompt: 1000, Cached: int64(990 * i), Known: true, Measured: true}})
	}
	lease := route(t, router, warmroute.Request{Model: `m"\`})
	lease.Done(warmroute.Result{FirstByte: 70 * time.Millisecond, Usage: warmroute.Usage{Prompt: 10, Cached: 4, Completion: 3, Known: true, Measured: true}})
	route(t, router, warmroute.Request{})
	w := get(t, router.Handler(), "/metrics")
	assert.Equal(t, "text/plain; version=0.0.4; charset=utf-8", w.Header().Get("Content-Type"))
	text := w.Body.String()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err, text)

	value := func(name string, labels ...string) float64 {
		sum := 0.0
		require.Contains(t, families, name)
		for _, m := range families[name].GetMetric() {
			have := map[string]string{}
			for _, l := range m.GetLabel() {
				have[l.GetName()] = l.GetValue()
			}
			match := have["model"] == `m"\`
			for i := 0; i < len(labels); i += 2 {
				match = match && have[labels[i]] == labels[i+1]
			}
			if match {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		return sum
	}
	assert.InDelta(t, 1, value("warmroute_requests_total", "outcome", "placed"), 0)
	assert.InDelta(t, 1, value("warmroute_requests_total", "outcome", "sticky"), 0)
	assert.InDelta(t, 2, value("warmroute_requests_total", "outcome", "unkeyed"), 0)
	assert.InDelta(t, 4, value("warmroute_requests_total"), 0)
	assert.InDelta(t, 1, value("warmroute_in_flight"), 0)
	assert.InDelta(t, 1, value("warmroute_sessions"), 0)
	assert.InDelta(t, 994, value("warmroute_prompt_tokens_total", "source", "cached"), 0)
	assert.InDelta(t, 1016, value("warmroute_prompt_tokens_total", "source", "computed"), 0)
	assert.InDelta(t, 3, value("warmroute_completion_tokens_total"), 0)
	assert.InDelta(t, 64, value("warmroute_spill_threshold", "source", "default"), 0)
	assert.InDelta(t, 1, value("warmroute_affinity"), 0)
	assert.InDelta(t, 2, value("warmroute_replica_up"), 0)
	assert.InDelta(t, 1, value("warmroute_first_byte_seconds", "replica", lease.Replica().Name()), 0)
	assert.InDelta(t, 1, value("warmroute_gap_turns_total", "up_to", "10", "verdict", "verified"), 0)
	assert.InDelta(t, 1, value("warmroute_gap_turns_total"), 0)
	assert.InDelta(t, 2, value("warmroute_gap_expected_ratio", "up_to", "+Inf"), 0, "of both replicas")
	assert.InDelta(t, 0, value("warmroute_max_running"), 0)
	assert.InDelta(t, 0, value("warmroute_breaker_state"), 0)
	for _, name := range []string{"warmroute_retries_total", "warmroute_retries_refused_total", "warmroute_timeouts_total", "warmroute_breaker_opens_total"} {
		assert.InDelta(t, 0, value(name), 0)
	}
	assert.NotContains(t, families, "warmroute_prefill_tokens_per_second", "not learned yet")
	lease = route(t, router, warmroute.Request{Model: `m"\`})
	if lease.Replica().InFlight() > 1 { // the other one has a request in flight
		lease = route(t, router, warmroute.Request{Model: `m"\`})
	}
	lease.Done(warmroute.Result{FirstByte: time.Second, Usage: warmroute.Usage{Prompt: 3000, Known: true, Measured: true}})
	assert.Contains(t, get(t, router.Handler(), "/metrics").Body.String(),
		`warmroute_prefill_tokens_per_second{model="m\"\\",replica="`+lease.Replica().Name()+`"} 3000`)
	for name := range families {
		assert.True(t, strings.HasPrefix(name, "warmroute_"), name)
	}
}

func TestHandler(t *testing.T) {
	router := newRouter(t, four())
	h := http.StripPrefix("/debug/warmroute", router.Handler())
	assert.Contains(t, get(t, h, "/debug/warmroute/").Body.String(), "a:80@3")
	assert.Contains(t, get(t, h, "/debug/warmroute/").Body.String(), "waiting for room off", "no cache's size is known")
	assert.Equal(t, 200, get(t, h, "/debug/warmroute/stats").Code)
	assert.Equal(t, 200, get(t, h, "/debug/warmroute/metrics").Code)
	assert.Equal(t, 404, get(t, h, "/debug/warmroute/other").Code)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/debug/warmroute/stats", nil))
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

func TestErrorHandler(t *testing.T) {
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://secret-host", Model: "x"}})
	require.NoError(t, router.Drain("http://secret-host"))
	_, noReplica := router.Route(t.Context(), warmroute.Request{})
	_, unknownModel := router.Route(t.Context(), warmroute.Request{Model: "y"})
	for _, tc := range []struct {
		err        error
		path       string
		status     int
		retryAfter string
		body       string
	}{
		{noReplica, "/v1/chat/completions", 503, "1", `{"error":{"message":"No replica is available for this request. Try again later.","type":"ServiceUnavailableError","param":null,"code":503}}`},
		{noReplica, "/v1/messages", 503, "1", `{"type":"error","error":{"type":"ServiceUnavailableError","message":"No replica is available for this request. Try again later."}}`},
		{warmroute.ErrClosed, "/", 503, "1", ""},
		{unknownModel, "/v1/chat/completions", 404, "", `{"error":{"message":"Unknown model \"y\".","type":"NotFoundError","param":"model","code":404}}`},
		{warmroute.ErrClientRank, "/", 400, "", ""},
		{t.Context().Err(), "/", 502, "", ""},
		{io.ErrUnexpectedEOF, "/", 502, "", `{"error":{"message":"The replica could not be reached or broke off before it answered.","type":"BadGatewayError","param":null,"code":502}}`},
	} {
		w := httptest.NewRecorder()
		err := tc.err
		if err == nil {
			err = errors.New("dial tcp secret-host:80")
		}
		warmroute.ErrorHandler(w, httptest.NewRequest(http.MethodPost, tc.path, nil), err)
		assert.Equal(t, tc.status, w.Code)
		assert.Equal(t, tc.retryAfter, w.Header().Get("Retry-After"))
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
		assert.True(t, json.Valid(w.Body.Bytes()))
		if tc.body != "" {
			assert.JSONEq(t, tc.body, w.Body.String())
		}
		assert.NotContains(t, w.Body.String(), "secret-host")
	}
	w := httptest.NewRecorder()
	warmroute.ErrorHandler(w, httptest.NewRequest(http.MethodPost, "/v1/messages", nil), fmt.Errorf("read: %w", &http.MaxBytesError{Limit: 1}))
	assert.Equal(t, 413, w.Code)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("a cause of its own"))
	w = httptest.NewRecorder()
	warmroute.ErrorHandler(w, httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx), context.Cause(ctx))
	assert.Equal(t, warmroute.StatusClientClosedRequest, w.Code)
}

func TestWriteMetricsReportsItsWriter(t *testing.T) {
	router := newRouter(t, four())
	var b bytes.Buffer
	require.NoError(t, router.WriteMetrics(&b))
	broken := errors.New("full")
	require.ErrorIs(t, router.WriteMetrics(writerFunc(func([]byte) (int, error) { return 0, broken })), broken)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
