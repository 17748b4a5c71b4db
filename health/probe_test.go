package health_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/health"
	"github.com/warmroute/warmroute/replica"
)

func probes() health.Config { return health.Config{Probe: &health.Probe{}} }

func TestProbesFallAndRise(t *testing.T) {
	for name, tc := range map[string]struct {
		bad    answer
		reason string
	}{
		"engine dead":   {answer{status: http.StatusServiceUnavailable}, "probe: /health answers 503 Service Unavailable"},
		"error":         {answer{status: http.StatusInternalServerError}, "probe: /health answers 500 Internal Server Error"},
		"hangs":         {answer{status: -1}, "probe: /health does not answer in time"},
		"no connection": {answer{}, "probe: /health cannot be asked"},
	} {
		t.Run(name, func(t *testing.T) {
			watch(t, probes(), two(), func(w *watched) {
				w.answer("http://a:8000/health", http.StatusOK, "")
				w.answer("http://b:8000/health", http.StatusOK, "")
				time.Sleep(time.Minute)
				w.is(a, replica.Up, "")

				w.answer("http://a:8000/health", tc.bad.status, "")
				for range 3 { // never three in a row
					time.Sleep(10 * time.Second)
					w.answer("http://a:8000/health", http.StatusOK, "")
					time.Sleep(10 * time.Second)
					w.is(a, replica.Up, "")
					w.answer("http://a:8000/health", tc.bad.status, "")
				}
				time.Sleep(30 * time.Second)
				w.is(a, replica.Down, tc.reason)
				w.is(b, replica.Up, "")

				w.answer("http://a:8000/health", http.StatusOK, "")
				time.Sleep(4 * time.Second) // one success
				w.answer("http://a:8000/health", tc.bad.status, "")
				time.Sleep(30 * time.Second)
				w.is(a, replica.Down, tc.reason)
				w.answer("http://a:8000/health", http.StatusOK, "")
				time.Sleep(20 * time.Second)
				w.is(a, replica.Up, "")
				assert.Len(t, w.seen(), 2, "%v", w.seen())
			})
		})
	}
}

// All ranks of an endpoint share its probe.
func TestProbeIsOfTheEndpoint(t *testing.T) {
	endpoints := []replica.Endpoint{{URL: "http://a:8000/prefix", Ranks: 2}, {URL: "http://b:8000"}}
	cfg := health.Config{Probe: &health.Probe{Path: "/ping", Interval: time.Second, Timeout: 100 * time.Millisecond, Fall: 1, Rise: 1}}
	watch(t, cfg, endpoints, func(w *watched) {
		w.answer("http://b:8000/ping", http.StatusNoContent, "")
		time.Sleep(900 * time.Millisecond)
		w.is("a:8000/prefix@0", replica.Down, "probe: /ping cannot be asked")
		w.is("a:8000/prefix@1", replica.Down, "probe: /ping cannot be asked")
		w.is(b, replica.Up, "")
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.Equal(t, []time.Duration{0}, w.asked["http://a:8000/prefix/ping"], "once an interval")
	})
}

// What is neither a success nor a failure of the server is no verdict, and said.
func TestProbeThatSaysNothing(t *testing.T) {
	watch(t, probes(), two(), func(w *watched) {
		w.answer("http://a:8000/health", http.StatusServiceUnavailable, "")
		w.answer("http://b:8000/health", http.StatusOK, strings.Repeat("x", 1<<20)) // a 200 all the same
		time.Sleep(20 * time.Second)
		w.is(a, replica.Down, "probe: /health answers 503 Service Unavailable")
		w.is(b, replica.Up, "")
		assert.Empty(t, w.monitor.Problems(""))

		for _, status := range []int{http.StatusNotFound, http.StatusUnauthorized, http.StatusMovedPermanently, http.StatusTooManyRequests} {
			w.answer("http://a:8000/health", status, "")
			time.Sleep(20 * time.Second)
			w.is(a, replica.Up, "")
			require.Len(t, w.monitor.Problems(""), 1)
			assert.Contains(t, w.monitor.Problems("")[0], http.StatusText(status))
			assert.Contains(t, w.monitor.Problems("")[0], "http://a:8000/health")
			assert.Empty(t, w.monitor.Problems("another"))
		}
		w.answer("http://a:8000/health", http.StatusOK, "")
		time.Sleep(20 * time.Second)
		assert.Empty(t, w.monitor.Problems(""))
		status := w.monitor.Status()
		assert.Equal(t, []health.EndpointStatus{{URL: "http://a:8000"}, {URL: "http://b:8000"}}, status.Endpoints)
	})
}

// Probes begin and end with their endpoints; one that left and came back is
// another, of which nothing is known.
func TestProbesFollowTheFleet(t *testing.T) {
	watch(t, probes(), two(), func(w *watched) {
		w.answer("http://b:8000/health", http.StatusOK, "")
		time.Sleep(20 * time.Second)
		w.is(a, replica.Down, "probe: /health cannot be asked")
		require.NoError(t, w.set.Remove("http://a:8000"))
		require.NoError(t, w.set.Add(replica.Endpoint{URL: "http://a:8000"}))
		w.is(a, replica.Up, "")
		time.Sleep(2 * time.Second)
		w.is(a, replica.Up, "")
		time.Sleep(20 * time.Second)
		w.is(a, replica.Down, "probe: /health cannot be asked")

		require.NoError(t, w.set.Remove("http://a:8000"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.mu.Lock()
		before := len(w.asked["http://a:8000/health"])
		w.mu.Unlock()
		time.Sleep(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		assert.Len(t, w.asked["http://a:8000/health"], before, "nobody asks for it any more")
	})
}

// A probe that succeeds takes nothing back but what probes have found.
func TestProbeDoesNotOverrideOtherSigns(t *testing.T) {
	cfg := dcgm()
	cfg.Probe = &health.Probe{}
	watch(t, cfg, two(), func(w *watched) {
		w.answer("http://a:8000/health", http.StatusOK, "")
		w.answer("http://b:8000/health", http.StatusOK, "")
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 79`)
		w.set.Replicas()[1].Unreachable(time.Now().Add(time.Hour))
		require.NoError(t, w.set.Drain(b))
		time.Sleep(time.Minute)
		w.is(b, replica.Draining, "") // the operator's
		assert.True(t, w.set.Replicas()[1].Draining())
		w.is(a, replica.Suspect, "dcgm: XID 79 on GPU 0; not drained, as no other replica of its pool takes requests")
		require.NoError(t, w.set.Resume(b))
		time.Sleep(2 * time.Second)
		w.is(a, replica.Draining, "dcgm: XID 79 on GPU 0")

		// What the probe finds is graver than what the GPU shows.
		w.answer("http://a:8000/health", http.StatusServiceUnavailable, "")
		time.Sleep(20 * time.Second)
		w.is(a, replica.Down, "probe: /health answers 503 Service Unavailable")
		w.answer("http://a:8000/health", http.StatusOK, "")
		time.Sleep(20 * time.Second)
		w.is(a, replica.Draining, "dcgm: XID 79 on GPU 0")
	})
}
