package health_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/health"
	"github.com/warmroute/warmroute/replica"
)

const (
	a = "a:8000"
	b = "b:8000"
)

// A fatal code drains its replica, on the page after it at the latest, and until
// the exporter has shown for five minutes that there was a reset.
func TestFatalXID(t *testing.T) {
	watch(t, dcgm(), two(), func(w *watched) {
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="2"} 0`, `DCGM_FI_DEV_XID_ERRORS{gpu="3"} 0`)
		time.Sleep(time.Minute)
		w.is(a, replica.Up, "")

		const reason = "dcgm: XID 79 on GPU 3"
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="2"} 0`, `DCGM_FI_DEV_XID_ERRORS{gpu="3"} 79`)
		time.Sleep(10 * time.Second)
		w.is(a, replica.Draining, reason)
		w.is(b, replica.Up, "")

		// The application that was ended is what came of it, and no reset.
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="3"} 45`)
		time.Sleep(12 * time.Minute)
		w.is(a, replica.Draining, reason)
		// A GPU that is not on the page may have fallen off the bus.
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="2"} 0`)
		time.Sleep(12 * time.Minute)
		w.is(a, replica.Draining, reason)
		// Neither is an exporter that is gone a sign of health.
		w.answer("http://a:9400/metrics", 0, "")
		time.Sleep(12 * time.Minute)
		w.is(a, replica.Draining, reason)

		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="2"} 0`, `DCGM_FI_DEV_XID_ERRORS{gpu="3"} 0`)
		time.Sleep(4 * time.Minute)
		w.is(a, replica.Draining, reason)
		time.Sleep(2 * time.Minute)
		w.is(a, replica.Up, "")
		require.Len(t, w.seen(), 2, "no change but these")
		assert.Equal(t, a, w.seen()[0].name)
	})
}

// The time to hold begins anew with what is no reset.
func TestAResetMustLast(t *testing.T) {
	watch(t, dcgm(), two(), func(w *watched) {
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="3"} 79`)
		time.Sleep(time.Minute)
		sign := w.monitor.Status().Exporters[0].GPUs[0].Signs[0]
		assert.WithinDuration(t, time.Now(), sign.Last, 11*time.Second, "it was seen again")
		for _, code := range []string{"0", "45", "0", "79", "0"} {
			w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="3"} ` + code)
			time.Sleep(4 * time.Minute)
			w.is(a, replica.Draining, "dcgm: XID 79 on GPU 3")
		}
		time.Sleep(2 * time.Minute)
		w.is(a, replica.Up, "")
	})
}

// The exporter has a series for a GPU from its first code on: without it again it
// was started anew.
func TestFatalXIDUntilTheExporterBeginsAnew(t *testing.T) {
	watch(t, dcgm(), two(), func(w *watched) {
		w.page(`DCGM_FI_DEV_GPU_TEMP{gpu="3"} 50`, `DCGM_FI_DEV_XID_ERRORS{gpu="3"} 95`)
		time.Sleep(time.Second)
		w.is(a, replica.Draining, "dcgm: XID 95 on GPU 3")
		w.page(`DCGM_FI_DEV_GPU_TEMP{gpu="3"} 50`)
		time.Sleep(4 * time.Minute)
		w.page(`DCGM_FI_DEV_GPU_TEMP{gpu="3"} 50`, `DCGM_FI_DEV_XID_ERRORS{gpu="3"} 95`)
		time.Sleep(4 * time.Minute)
		w.is(a, replica.Draining, "dcgm: XID 95 on GPU 3")
		w.page(`DCGM_FI_DEV_GPU_TEMP{gpu="3"} 50`, "DCGM_FI_DEV_XID_ERRORS{ unreadable")
		time.Sleep(12 * time.Minute)
		w.is(a, replica.Draining, "dcgm: XID 95 on GPU 3")
		w.page(`DCGM_FI_DEV_GPU_TEMP{gpu="3"} 50`)
		time.Sleep(6 * time.Minute)
		w.is(a, replica.Up, "")
	})
}

// The last code stays on the page for ever: an application's fault counts when it
// appears and is over after the time to hold.
func TestApplicationXID(t *testing.T) {
	cfg := dcgm()
	cfg.DCGM.Hold = 2 * time.Minute
	watch(t, cfg, two(), func(w *watched) {
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 31`)
		time.Sleep(time.Second)
		w.is(a, replica.Suspect, "dcgm: XID 31 on GPU 0")
		time.Sleep(2 * time.Minute)
		w.is(a, replica.Up, "")
		time.Sleep(12 * time.Minute)
		require.Len(t, w.seen(), 2)

		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 43`)
		time.Sleep(time.Minute)
		w.is(a, replica.Up, "")
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 31`)
		time.Sleep(11 * time.Second)
		w.is(a, replica.Suspect, "dcgm: XID 31 on GPU 0")
		time.Sleep(5 * time.Minute)
		w.is(a, replica.Up, "")

		// Only the exporter's own count tells of the same code again.
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 31`, `DCGM_EXP_XID_ERRORS_COUNT{gpu="0",xid="31",window_size_in_ms="300000"} 1`)
		time.Sleep(10 * time.Minute)
		w.is(a, replica.Suspect, "dcgm: XID 31 on GPU 0")
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 31`, `DCGM_EXP_XID_ERRORS_COUNT{gpu="0",xid="31",window_size_in_ms="300000"} 0`)
		time.Sleep(3 * time.Minute)
		w.is(a, replica.Up, "")
	})
}

// A memory error that is contained ends its engine, which is then as good as new.
func TestContainedXID(t *testing.T) {
	watch(t, dcgm(), two(), func(w *watched) {
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 94`)
		time.Sleep(time.Second)
		w.is(a, replica.Draining, "dcgm: XID 94 on GPU 0")
		time.Sleep(6 * time.Minute)
		w.is(a, replica.Up, "")
	})
}

func TestXIDTableIsSettable(t *testing.T) {
	cfg := dcgm()
	cfg.DCGM.Rules.XIDs = map[int]health.Action{79: health.Ignore, 31: health.Drain, 999: health.Suspect}
	watch(t, cfg, two(), func(w *watched) {
		for _, tc := range []struct {
			xid    string
			state  replica.State
			reason string
		}{
			{"79", replica.Up, ""},
			{"31", replica.Draining, "dcgm: XID 31 on GPU 0"},
			{"999", replica.Suspect, "dcgm: XID 999 on GPU 0"},
			{"1000", replica.Up, ""},
			{"119", replica.Draining, "dcgm: XID 119 on GPU 0"},
		} {
			w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} ` + tc.xid)
			time.Sleep(11 * time.Second)
			w.is(a, tc.state, tc.reason)
			w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 0`)
			time.Sleep(6 * time.Minute)
			w.is(a, replica.Up, "")
		}
	})
}

// Several signs are one finding, the gravest.
func TestSeveralSigns(t *testing.T) {
	watch(t, dcgm(), two(), func(w *watched) {
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="10"} 48`, `DCGM_FI_DEV_XID_ERRORS{gpu="2"} 13`)
		time.Sleep(time.Second)
		w.is(a, replica.Draining, "dcgm: XID 48 on GPU 10 (and 1 more)")
		time.Sleep(6 * time.Minute)
		w.is(a, replica.Draining, "dcgm: XID 48 on GPU 10")
		events := w.seen()
		require.Len(t, events, 2)
		assert.Equal(t, replica.Draining, events[1].state, "for another reason")
	})
}

func TestTruncatedPageShowsNoReset(t *testing.T) {
	cfg := dcgm()
	cfg.DCGM.Hold = time.Second
	watch(t, cfg, two(), func(w *watched) {
		w.page(`DCGM_FI_DEV_XID_ERRORS{gpu="0"} 79`)
		time.Sleep(time.Second)
		w.answer("http://a:9400/metrics", http.StatusOK, "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} 50\n"+string(make([]byte, 9<<20)))
		time.Sleep(30 * time.Second)
		w.is(a, replica.Draining, "dcgm: XID 79 on GPU 0")
	})
}
