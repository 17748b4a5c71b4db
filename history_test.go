package warmroute_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// startRun runs the router until the returned function is called, or the test
// ends. Its engines answer nothing.
func startRun(t *testing.T, r *warmroute.Router) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = func() {
		if ctx.Err() == nil {
			cancel()
			assert.NoError(t, <-ended)
		}
	}
	t.Cleanup(stop)
	return stop
}

// silent is for routers that are run without engines.
func silent() warmroute.Option {
	return warmroute.WithScrapeClient(metricsClient(func(string) string { return "" }))
}

// used is a request that ends at once with the given tokens.
func used(t *testing.T, r *warmroute.Router, model string, prompt, cached, completion int64, firstByte time.Duration) {
	t.Helper()
	route(t, r, warmroute.Request{Model: model}).Done(warmroute.Result{
		FirstByte: firstByte,
		Usage:     warmroute.Usage{Prompt: prompt, Cached: cached, Completion: completion, Known: true, Measured: true},
	})
}

func TestHistoryCountsByStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now().UTC() // a multiple of five seconds, in a bubble
		router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Model: "x"}, {URL: "http://b", Model: "y"}}, silent())
		used(t, router, "x", 7777, 7777, 7, time.Second) // nobody looked yet
		startRun(t, router)
		time.Sleep(1500 * time.Millisecond)
		used(t, router, "x", 1000, 900, 50, 300*time.Millisecond)
		used(t, router, "x", 100, 0, 5, 0)
		time.Sleep(4 * time.Second)
		used(t, router, "x", 500, 500, 1, 3*time.Second)
		time.Sleep(5 * time.Second)

		h := router.History()
		assert.InDelta(t, 5, h.Step, 0)
		require.Len(t, h.Pools, 2)
		assert.Equal(t, []string{"x", "y"}, []string{h.Pools[0].Model, h.Pools[1].Model})
		require.Len(t, h.Pools[0].Points, 2)
		first, second := h.Pools[0].Points[0], h.Pools[0].Points[1]
		assert.Equal(t, begun.Add(5*time.Second), first.End)
		assert.Equal(t, begun.Add(10*time.Second), second.End)
		assert.InDelta(t, 4, first.Seconds, 1e-6, "from Run's first second on")
		assert.InDelta(t, 5, second.Seconds, 1e-6)
		assert.Equal(t, []uint64{900, 200, 55}, []uint64{first.PromptCached, first.PromptComputed, first.Completion})
		assert.Equal(t, []uint64{500, 0, 1}, []uint64{second.PromptCached, second.PromptComputed, second.Completion})
		assert.InDelta(t, .375, *first.FirstByteP50, 1e-9, "half of the bucket from 0.25 to 0.5 s")
		assert.InDelta(t, .5, *second.FirstByteP50, 1e-9, "of the last minute: one of two")
		assert.InDelta(t, 2.5+.9*2.5, *second.FirstByteP95, 1e-9)
		for _, p := range h.Pools[1].Points {
			assert.Zero(t, p.PromptCached+p.PromptComputed+p.Completion)
			assert.Nil(t, p.FirstByteP50, "unknown, not zero")
		}
		time.Sleep(time.Minute)
		points := router.History().Pools[0].Points
		assert.Nil(t, points[len(points)-1].FirstByteP50, "it was more than a minute ago")
	})
}

func TestHistoryIsBoundedByAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a"), silent())
		startRun(t, router)
		time.Sleep(500 * time.Millisecond) // between two of Run's seconds, as all that follows
		for range 80 {
			used(t, router, "", 10, 4, 1, 0)
			time.Sleep(time.Minute)
		}
		points := router.History().Pools[0].Points
		require.Len(t, points, 720)
		sum := uint64(0)
		for i, p := range points {
			sum += p.PromptCached
			if i > 0 {
				assert.Equal(t, 5*time.Second, p.End.Sub(points[i-1].End))
			}
		}
		assert.Equal(t, uint64(240), sum, "sixty requests")
		assert.LessOrEqual(t, time.Since(points[0].End), time.Hour)
		assert.Less(t, time.Since(points[719].End), 5*time.Second)
	})
}

func TestHistoryHasAGapWhereTheRouterIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a"), silent())
		assert.Empty(t, router.History().Pools[0].Points)
		stop := startRun(t, router)
		time.Sleep(20500 * time.Millisecond)
		stop()
		used(t, router, "", 5000, 0, 1, 0)
		time.Sleep(10 * time.Minute)
		startRun(t, router)
		time.Sleep(20200 * time.Millisecond)
		points := router.History().Pools[0].Points
		require.Len(t, points, 8)
		assert.Equal(t, 10*time.Minute+5*time.Second, points[4].End.Sub(points[3].End))
		for _, p := range points {
			assert.Zero(t, p.PromptComputed, "what nobody saw happen is no rate of %v", p.End)
		}
		used(t, router, "", 40, 0, 1, 0)
		time.Sleep(5 * time.Second)
		points = router.History().Pools[0].Points
		assert.Equal(t, uint64(40), points[len(points)-1].PromptComputed)
		time.Sleep(2 * time.Hour)
		assert.Len(t, router.History().Pools[0].Points, 720, "the gap has passed by")
	})
}

func TestShortPauseLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a"), silent())
		stop := startRun(t, router)
		time.Sleep(6500 * time.Millisecond)
		stop()
		used(t, router, "", 80, 0, 1, 0)
		time.Sleep(5 * time.Second)
		startRun(t, router)
		time.Sleep(2 * time.Second)
		points := router.History().Pools[0].Points
		last := points[len(points)-1]
		assert.Equal(t, uint64(80), last.PromptComputed)
		assert.InDelta(t, 7.5, last.Seconds, 1e-6, "the rate is over all of the time")
	})
}

func TestHistoryOutlivesReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a", "http://b"), silent())
		startRun(t, router)
		time.Sleep(1500 * time.Millisecond)
		for range 10 {
			used(t, router, "", 100, 50, 10, 200*time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		require.NoError(t, router.Remove("http://a"))
		used(t, router, "", 100, 50, 10, 200*time.Millisecond)
		time.Sleep(5 * time.Second)
		require.NoError(t, router.Add(warmroute.Endpoint{URL: "http://a"}))
		require.NoError(t, router.Add(warmroute.Endpoint{URL: "http://c", Model: "late"}))
		time.Sleep(time.Second)
		used(t, router, "late", 60, 0, 1, 0)
		time.Sleep(10 * time.Second)
		h := router.History()
		sum := uint64(0)
		for _, p := range h.Pools[0].Points {
			assert.Less(t, p.PromptCached, uint64(1000), "counts do not go back")
			if p.FirstByteP50 != nil {
				assert.InDelta(t, .175, *p.FirstByteP50, 1e-6)
			}
			sum += p.PromptCached
		}
		assert.Equal(t, uint64(550), sum)
		require.Len(t, h.Pools, 2)
		assert.Equal(t, uint64(60), h.Pools[1].Points[0].PromptComputed, "a pool that comes later has one as well")
	})
}

func TestHistoryJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a"), silent())
		w := get(t, router.Handler(), "/history")
		assert.Equal(t, http.StatusOK, w.Code)
		assert.JSONEq(t, `{"step_s":5,"pools":[{"model":"","points":[]}]}`, w.Body.String())
		startRun(t, router)
		time.Sleep(1500 * time.Millisecond)
		used(t, router, "", 100, 60, 9, 300*time.Millisecond)
		time.Sleep(4 * time.Second)
		w = get(t, router.Handler(), "/history")
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		assert.JSONEq(t, `{"step_s":5,"pools":[{"model":"","points":[{"end":"2000-01-01T00:00:05Z","seconds":4,
			"prompt_cached":60,"prompt_computed":40,"completion":9,"first_byte_p50_s":0.375,"first_byte_p95_s":0.4875}]}]}`, w.Body.String())
		var h warmroute.History
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &h))
		assert.Equal(t, router.History(), h)
	})
}
