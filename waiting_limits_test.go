package warmroute_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// capacity is the page of an engine of that many KV cache tokens.
func capacity(tokens string) string {
	return pageOf(map[int]engine{0: {running: "0", waiting: "0", kv: "0", capacity: tokens}})
}

func TestCapacityComesLate(t *testing.T) {
	pages := newPages(map[string]string{"a": ""})
	scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
		var before []warmroute.Lease
		for i := range 20 {
			lease, err := r.TryRoute(large(fmt.Sprint(i)))
			require.NoError(t, err, "nothing is known")
			before = append(before, lease)
		}
		assert.False(t, queue(r).Active)
		assert.Nil(t, replicaStats(t, r, "a:80").Residents)
		pages.set("a", capacity("1000"))
		time.Sleep(20 * time.Second)
		require.True(t, queue(r).Active)
		for i, lease := range before {
			serve(lease, 0)
			assert.Zero(t, *replicaStats(t, r, "a:80").Residents, "%d came before", i)
		}
		learn(t, r)
		for i := range 20 {
			lease, err := r.TryRoute(large(fmt.Sprint(i)))
			require.NoError(t, err, "one at a time")
			serve(lease, 0)
			time.Sleep(time.Second)
		}
		first := route(t, r, large("0"))
		w := begin(t.Context(), t, r, large("1"))
		require.True(t, w.waits())
		serve(first, 900)
		time.Sleep(time.Second)
		serve(w.went(), 900)
		idleAgain(t, r)
	})
}

func TestCapacityChangesWhileTurnsWait(t *testing.T) {
	pages := newPages(map[string]string{"a": capacity("1000")})
	scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
		learn(t, r)
		var all []*routing
		for i := range 6 {
			all = append(all, begin(t.Context(), t, r, large(fmt.Sprint(i))))
		}
		require.Equal(t, 5, queue(r).Waiting)
		pages.set("a", capacity("10000"))
		time.Sleep(1500 * time.Millisecond)
		for _, w := range all[:2] {
			w.went()
		}
		for _, w := range all {
			time.Sleep(300 * time.Millisecond)
			serve(w.went(), 0)
		}
		idleAgain(t, r)

		// What took up more than there is now goes, and nobody is stuck.
		two := []warmroute.Lease{route(t, r, large("0")), route(t, r, large("1"))}
		pages.set("a", capacity("1000"))
		time.Sleep(1500 * time.Millisecond)
		w := begin(t.Context(), t, r, large("2"))
		require.True(t, w.waits())
		serve(two[0], 900)
		time.Sleep(time.Second)
		require.True(t, w.waits(), "one is in flight yet")
		serve(two[1], 900)
		time.Sleep(time.Second)
		serve(w.went(), 0)
		assert.LessOrEqual(t, *replicaStats(t, r, "a:80").Residents, 1)
		idleAgain(t, r)
	})
}

func TestACapacityThatIsNotToldAnyMoreIsKept(t *testing.T) {
	for name, page := range map[string]string{"no page": "", "a page without it": idle(0), "zero": capacity("0"), "not a number": capacity("NaN"), "infinite": capacity("+Inf")} {
		pages := newPages(map[string]string{"a": capacity("1000")})
		scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
			learn(t, r)
			first := route(t, r, large("0"))
			w := begin(t.Context(), t, r, large("1"))
			pages.set("a", page)
			time.Sleep(20 * time.Second)
			if name != "infinite" {
				require.True(t, w.waits(), name)
			}
			serve(first, 0)
			time.Sleep(time.Second)
			serve(w.went(), 0)
			for i := range 10 {
				serve(route(t, r, large(fmt.Sprint(i%2))), 900)
				time.Sleep(time.Second)
			}
			idleAgain(t, r)
		})
	}
}

// Whatever callers say of their requests, the next ones are routed as ever.
func TestSenselessTurns(t *testing.T) {
	for _, n := range []int{math.MinInt, -1, 0, 1, 1 << 24, 1 << 40, math.MaxInt} {
		synctest.Test(t, func(t *testing.T) {
			r := tight(t, at("http://a", "http://b"), warmroute.WithMaxWait(time.Minute))
			for i, req := range []warmroute.Request{
				{Session: "a", PromptTokens: n}, {Session: "b", MaxTokens: n}, {Session: "c", PromptTokens: n, MaxTokens: n},
				{Session: "d", Priority: n, PromptTokens: 10}, {PromptTokens: n},
			} {
				w := begin(t.Context(), t, r, req)
				time.Sleep(2 * time.Minute)
				lease := w.went()
				lease.Answered()
				usage := warmroute.Usage{Prompt: int64(n), Cached: int64(n), Completion: int64(n), Known: i%2 == 0, Measured: true}
				if n > 1 {
					usage = warmroute.Usage{}
				}
				lease.Done(warmroute.Result{Usage: usage, FirstByte: time.Duration(n)})
				lease.Done(warmroute.Result{})
			}
			time.Sleep(2 * time.Minute)
			for i := range 4 {
				w := begin(t.Context(), t, r, large(fmt.Sprint(i)))
				time.Sleep(time.Second)
				serve(w.went(), 0)
			}
			idleAgain(t, r)
			for _, m := range r.Stats().Pools[0].Replicas {
				assert.GreaterOrEqual(t, *m.Residents, 0)
			}
		})
	}
}

func TestALeaseIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a"))
		old := route(t, r, large("0"))
		serve(old, 0)
		time.Sleep(time.Second)
		lease := route(t, r, large("1"))
		w := begin(t.Context(), t, r, large("2"))
		old.Done(warmroute.Result{})
		old.Done(warmroute.Result{Unreachable: true})
		require.True(t, w.waits(), "the ticket is another's")
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { serve(lease, 0) })
		}
		all.Wait()
		time.Sleep(time.Second)
		serve(w.went(), 0)
		idleAgain(t, r)
	})
}

// A turn that is done without an answer leaves no home and no claim.
func TestATurnThatFailsLeavesNoPlace(t *testing.T) {
	for name, result := range map[string]warmroute.Result{
		"failed":   {Err: io.ErrUnexpectedEOF},
		"refused":  {Err: io.ErrUnexpectedEOF, Unreachable: true},
		"no usage": {},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := tight(t, at("http://a"))
			for i := range 100 {
				lease := route(t, r, large(fmt.Sprint(i)))
				lease.Done(result)
				time.Sleep(5 * time.Second)
			}
			assert.Zero(t, r.Stats().Pools[0].Sessions, name)
			assert.LessOrEqual(t, *replicaStats(t, r, "a:80").Residents, 1, name)
			idleAgain(t, r)
		})
	}
}

func TestTriedReplicasAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a", "http://b"))
		byName := map[string]*warmroute.Replica{}
		for _, m := range r.Replicas() {
			byName[m.Name()] = m
		}
		req := large("s")
		req.Tried = []*warmroute.Replica{byName["a:80"], nil, byName["a:80"]}
		lease := route(t, r, req)
		assert.Equal(t, "b:80", lease.Replica().Name())
		other := large("other")
		other.Tried = req.Tried
		w := begin(t.Context(), t, r, other)
		require.True(t, w.waits(), "there is room on a alone")
		serve(lease, 0)
		time.Sleep(time.Second)
		assert.Equal(t, "b:80", w.went().Replica().Name())
		other.Tried = append(other.Tried, byName["b:80"])
		_, err := r.Route(t.Context(), other)
		require.ErrorIs(t, err, warmroute.ErrNoReplica)
	})
}

// panicking is a hook that panics when told to.
type panicking struct{ route, done bool }

func (p *panicking) OnRoute(context.Context, warmroute.RouteEvent) {
	if p.route {
		panic("route hook")
	}
}

func (p *panicking) OnDone(context.Context, warmroute.DoneEvent) {
	if p.done {
		panic("done hook")
	}
}

func TestAPanickingHookKeepsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &panicking{}
		r := tight(t, at("http://a"), warmroute.WithHooks(p))
		p.route = true
		assert.PanicsWithValue(t, "route hook", func() { _, _ = r.Route(t.Context(), large("1")) })
		p.route = false
		idleAgain(t, r)
		time.Sleep(time.Second)
		lease, err := r.TryRoute(large("2"))
		require.NoError(t, err)
		p.done = true
		assert.PanicsWithValue(t, "done hook", func() { lease.Done(warmroute.Result{}) })
		p.done = false
		idleAgain(t, r)
		time.Sleep(time.Second)
		lease, err = r.TryRoute(large("3"))
		require.NoError(t, err)
		serve(lease, 0)
	})
}

func TestThousandsOfConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 8}}, warmroute.WithResidency(20_000), warmroute.WithMaxSessions(500), warmroute.WithMaxWait(time.Hour))
		var all sync.WaitGroup
		for i := range 3000 {
			all.Go(func() {
				for range 2 {
					lease, err := r.Route(t.Context(), large(fmt.Sprint(i)))
					if assert.NoError(t, err) {
						time.Sleep(time.Second)
						serve(lease, 0)
					}
				}
			})
		}
		all.Wait()
		idleAgain(t, r)
		for _, m := range r.Stats().Pools[0].Replicas {
			assert.LessOrEqual(t, *m.Residents, 21, m.Name)
		}
		assert.Equal(t, uint64(6000), r.Stats().Pools[0].Requests.Placed+r.Stats().Pools[0].Requests.Sticky)
	})
}

func TestAnOverloadedGatewayAnswersAsTheEngineWould(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/chat/completions": `{"error":{"message":"Too many requests are waiting. Try again later.","type":"RateLimitError","param":null,"code":429}}`,
		"/v1/messages":         `{"type":"error","error":{"type":"RateLimitError","message":"Too many requests are waiting. Try again later."}}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := tight(t, at("http://a"), warmroute.WithMaxQueue(1))
			gateway := &httputil.ReverseProxy{
				Rewrite:      func(*httputil.ProxyRequest) {},
				Transport:    r.Transport(roundTripper(func(*http.Request) (*http.Response, error) { panic("it was sent") })),
				ErrorHandler: warmroute.ErrorHandler,
			}
			first := route(t, r, large("first"))
			waiting := begin(t.Context(), t, r, large("waiting"))
			w := httptest.NewRecorder()
			gateway.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"x":"`+strings.Repeat("x", 3600)+`"}`)))
			assert.Equal(t, http.StatusTooManyRequests, w.Code)
			assert.Equal(t, "1", w.Header().Get("Retry-After"))
			assert.JSONEq(t, want, w.Body.String())
			serve(first, 0)
			time.Sleep(time.Second)
			serve(waiting.went(), 0)
			idleAgain(t, r)
		})
	}
}

func TestTheQueueIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a"), warmroute.WithMaxQueue(2), warmroute.WithMaxWait(2*time.Minute))
		first := route(t, r, large("first"))
		_, err := r.TryRoute(large("refused"))
		require.ErrorIs(t, err, warmroute.ErrOverloaded)
		waited := begin(t.Context(), t, r, large("waited"))
		time.Sleep(3 * time.Second)
		serve(first, 0)
		time.Sleep(time.Second)
		lease := waited.went()
		waits := begin(t.Context(), t, r, large("waits"))
		time.Sleep(7 * time.Second)

		var s struct {
			Pools []struct {
				Queue    map[string]any
				Replicas []map[string]any
			}
		}
		require.NoError(t, json.Unmarshal(get(t, r.Handler(), "/stats").Body.Bytes(), &s))
		q := s.Pools[0].Queue
		assert.Equal(t, "1000", q["residency"])
		assert.Equal(t, true, q["active"])
		assert.InDelta(t, 1, q["waiting"], 0)
		assert.InDelta(t, 7, q["longest_wait_s"], 1e-9)
		assert.InDelta(t, 120, q["max_wait_s"], 0)
		assert.InDelta(t, 2, q["max_waiting"], 0)
		assert.InDelta(t, 1, q["overloaded"], 0)
		residents, ok := s.Pools[0].Replicas[0]["residents"].(float64)
		require.True(t, ok)
		assert.GreaterOrEqual(t, residents, 1.0)

		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(get(t, r.Handler(), "/metrics").Body)
		require.NoError(t, err)
		for name, want := range map[string]float64{
			"warmroute_queue_length": 1, "warmroute_queue_longest_wait_seconds": 7, "warmroute_queue_max_wait_seconds": 120,
			"warmroute_overloaded_requests_total": 1, "warmroute_residents": residents,
		} {
			require.Contains(t, families, name)
			m := families[name].GetMetric()
			require.Len(t, m, 1, name)
			assert.InDelta(t, want, m[0].GetGauge().GetValue()+m[0].GetCounter().GetValue(), 1e-9, name)
		}
		h := families["warmroute_wait_seconds"].GetMetric()[0].GetHistogram()
		assert.Equal(t, uint64(learned+2), h.GetSampleCount())
		assert.InDelta(t, 3.1, h.GetSampleSum(), 0.3)
		serve(lease, 0)
		time.Sleep(time.Second)
		serve(waits.went(), 0)
	})
}
