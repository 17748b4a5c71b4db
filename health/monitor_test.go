package health_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/health"
	"github.com/warmroute/warmroute/replica"
)

// The last usable replica of a pool is suspect and not drained; whether there is
// another is looked at again all the time.
func TestTheLastReplicaIsSpared(t *testing.T) {
	const spared = "; not drained, as no other replica of its pool takes requests"
	endpoints := []replica.Endpoint{{URL: "http://a:8000", Ranks: 2}, {URL: "http://b:8000"}, {URL: "http://c:8000", Model: "m"}}
	cfg := health.Config{DCGM: &health.DCGM{GPUs: []health.GPUs{
		{Exporter: "http://a:9400", Replica: "a:8000@0", GPU: []string{"0"}},
		{Exporter: "http://a:9400", Replica: "a:8000@1", GPU: []string{"1"}},
		{Exporter: "http://a:9400", Replica: "http://b:8000", GPU: []string{"2"}},
		{Exporter: "http://a:9400", Replica: "http://c:8000", GPU: []string{"0"}},
	}}}
	watch(t, cfg, endpoints, func(w *watched) {
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 79`, `DCGM_FI_DEV_XID_ERRORS{gpu="1"} 0`, `DCGM_FI_DEV_XID_ERRORS{gpu="2"} 13`)
		time.Sleep(time.Second)
		w.is("a:8000@0", replica.Draining, "dcgm: XID 79 on GPU 0")
		w.is("a:8000@1", replica.Up, "")
		w.is(b, replica.Suspect, "dcgm: XID 13 on GPU 2")
		w.is("c:8000", replica.Suspect, "dcgm: XID 79 on GPU 0"+spared)

		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 79`, `DCGM_FI_DEV_XID_ERRORS{gpu="1"} 95`, `DCGM_FI_DEV_XID_ERRORS{gpu="2"} 13`)
		time.Sleep(10 * time.Second)
		w.is("a:8000@1", replica.Draining, "dcgm: XID 95 on GPU 1")
		w.is("a:8000@0", replica.Draining, "dcgm: XID 79 on GPU 0")

		w.mu.Lock()
		w.unusable[b] = true
		w.mu.Unlock()
		time.Sleep(1100 * time.Millisecond)
		w.is("a:8000@0", replica.Suspect, "dcgm: XID 79 on GPU 0"+spared)
		w.is("a:8000@1", replica.Suspect, "dcgm: XID 95 on GPU 1"+spared)
		w.mu.Lock()
		w.unusable[b] = false
		w.mu.Unlock()
		time.Sleep(1100 * time.Millisecond)
		w.is("a:8000@0", replica.Draining, "dcgm: XID 79 on GPU 0")
	})
}

// An operator's drain is neither needed by a finding nor undone by one.
func TestOperatorsDrain(t *testing.T) {
	watch(t, dcgm(), two(), func(w *watched) {
		require.NoError(t, w.set.Drain(a))
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 94`)
		time.Sleep(time.Second)
		w.is(a, replica.Draining, "dcgm: XID 94 on GPU 0")
		time.Sleep(10 * time.Minute)
		w.is(a, replica.Draining, "")
		assert.True(t, w.set.Replicas()[0].Draining())
	})
}

// A page that cannot be read is no sign, good or bad, and a problem.
func TestMissingIsNeitherHealthyNorSick(t *testing.T) {
	watch(t, dcgm(), two(), func(w *watched) {
		problem := func(want string) {
			w.Helper()
			synctest.Wait()
			problems := w.monitor.Problems("")
			require.Len(w, problems, 1)
			assert.Contains(w, problems[0], want)
		}
		time.Sleep(30 * time.Second)
		assert.Empty(t, w.monitor.Problems(""), "it may be starting")
		time.Sleep(12 * time.Second)
		w.is(a, replica.Up, "")
		problem("connection refused")
		assert.True(t, w.monitor.Status().Exporters[0].Stale)

		w.page("# nothing")
		time.Sleep(11 * time.Second)
		problem("shows no GPU")
		w.page("<html>")
		time.Sleep(11 * time.Second)
		problem("shows no GPU")
		w.answer("http://a:9400/metrics", http.StatusInternalServerError, "")
		time.Sleep(11 * time.Second)
		problem("500 Internal Server Error")
		w.is(a, replica.Up, "")

		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 31`)
		time.Sleep(11 * time.Second)
		w.is(a, replica.Suspect, "dcgm: XID 31 on GPU 0")
		assert.Empty(t, w.monitor.Problems(""))
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 31`, `DCGM_FI_DEV_XID_ERRORS{gpu="0" 32`)
		time.Sleep(11 * time.Second)
		problem("unreadable lines")
		assert.False(t, w.monitor.Status().Exporters[0].Stale)
		w.answer("http://a:9400/metrics", 0, "")
		time.Sleep(2 * time.Minute)
		w.is(a, replica.Suspect, "dcgm: XID 31 on GPU 0")
		problem("nothing new is known of its GPUs")
		time.Sleep(4 * time.Minute)
		w.is(a, replica.Up, "")
	})
}

// What was to be on a page and is not is said to those it matters to.
func TestProblemsOfMappings(t *testing.T) {
	endpoints := []replica.Endpoint{{URL: "http://a:8000", Model: "m"}, {URL: "http://b:8000", Model: "n"}}
	cfg := health.Config{DCGM: &health.DCGM{GPUs: []health.GPUs{
		{Exporter: "http://a:9400", Replica: "http://a:8000", GPU: []string{"0", "nvidia7"}},
		{Exporter: "http://elsewhere:9400"},
	}}}
	watch(t, cfg, endpoints, func(w *watched) {
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 0`)
		w.answer("http://elsewhere:9400/metrics", http.StatusOK, `DCGM_FI_DEV_XID_ERRORS{gpu="0"} 0`)
		time.Sleep(time.Second)
		synctest.Wait()
		elsewhere := "http://elsewhere:9400/metrics is on the host of no endpoint, or for replicas that are not there: its GPUs are nobody's"
		assert.Equal(t, []string{"http://a:9400/metrics has no GPU nvidia7, of which it is to tell", elsewhere}, w.monitor.Problems("m"))
		assert.Equal(t, []string{elsewhere}, w.monitor.Problems("n"))
	})
}

func TestRunOnce(t *testing.T) {
	watch(t, probes(), two(), func(w *watched) {
		time.Sleep(time.Second)
		assert.ErrorIs(t, w.monitor.Run(t.Context(), w), health.ErrRunning)
	})
}

// Requests that hang do not outlast Run, which takes back what was found: that
// nothing is left is for synctest to see.
func TestRunEnds(t *testing.T) {
	cfg := dcgm()
	cfg.Probe = &health.Probe{Timeout: time.Hour, Interval: time.Hour}
	cfg.DCGM.Timeout = time.Hour
	watch(t, cfg, two(), func(w *watched) {
		w.answer("http://a:8000/health", -1, "")
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 79`)
		time.Sleep(5 * time.Second)
		w.is(a, replica.Draining, "dcgm: XID 79 on GPU 0")
		w.answer("http://a:9400/metrics", -1, "")
		time.Sleep(10 * time.Second)
	})
}
