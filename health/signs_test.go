package health_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmroute/warmroute/health"
	"github.com/warmroute/warmroute/replica"
)

// What a counter stood at when it was first seen is old; what it grows by is new.
func TestDoubleBitECC(t *testing.T) {
	for _, series := range []string{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"} {
		t.Run(series, func(t *testing.T) {
			watch(t, dcgm(), two(), func(w *watched) {
				errors := func(n int) { w.page(fmt.Sprintf(`%s{gpu="1"} %d`, series, n)) }
				errors(7)
				time.Sleep(time.Minute)
				w.is(a, replica.Up, "")
				errors(8)
				time.Sleep(11 * time.Second)
				w.is(a, replica.Draining, "dcgm: double-bit ECC error on GPU 1")
				time.Sleep(4 * time.Minute)
				errors(0) // the driver was loaded anew
				time.Sleep(2 * time.Minute)
				w.is(a, replica.Up, "")
				errors(1)
				time.Sleep(11 * time.Second)
				w.is(a, replica.Draining, "dcgm: double-bit ECC error on GPU 1")
			})
		})
	}
}

// A counter that begins anew counts from where it then is.
func TestDoubleBitECCAfterTheDriverWasLoadedAnew(t *testing.T) {
	watch(t, dcgm(), two(), func(w *watched) {
		errors := func(n int) { w.page(fmt.Sprintf(`DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="1"} %d`, n)) }
		for _, n := range []int{7, 0} {
			errors(n)
			time.Sleep(30 * time.Second)
			w.is(a, replica.Up, "")
		}
		errors(1)
		time.Sleep(11 * time.Second)
		w.is(a, replica.Draining, "dcgm: double-bit ECC error on GPU 1")
	})
}

func TestDoubleBitECCThreshold(t *testing.T) {
	cfg := dcgm()
	cfg.DCGM.Rules.DoubleBitErrors, cfg.DCGM.Rules.DoubleBitECC = 3, health.Suspect
	watch(t, cfg, two(), func(w *watched) {
		errors := func(n int) { w.page(fmt.Sprintf(`DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="1"} %d`, n)) }
		for n := range 6 { // less than three in five minutes
			errors(n)
			time.Sleep(4 * time.Minute)
			w.is(a, replica.Up, "")
		}
		errors(8)
		time.Sleep(11 * time.Second)
		w.is(a, replica.Suspect, "dcgm: double-bit ECC error on GPU 1")
	})
}

func TestRowRemapFailure(t *testing.T) {
	watch(t, dcgm(), two(), func(w *watched) {
		w.page(`DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="1"} 1`)
		time.Sleep(12 * time.Minute)
		w.is(a, replica.Draining, "dcgm: row remap failure on GPU 1")
		w.page(`DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="1"} 0`)
		time.Sleep(4 * time.Minute)
		w.is(a, replica.Draining, "dcgm: row remap failure on GPU 1")
		time.Sleep(2 * time.Minute)
		w.is(a, replica.Up, "")
	})
}

func TestRemappedRows(t *testing.T) {
	watch(t, dcgm(), two(), func(w *watched) {
		w.page(`DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{gpu="1"} 2`, `DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS{gpu="1"} 0`)
		time.Sleep(time.Minute)
		w.page(`DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{gpu="1"} 2`, `DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS{gpu="1"} 9`)
		time.Sleep(time.Minute)
		w.is(a, replica.Up, "")
		w.page(`DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{gpu="1"} 3`)
		time.Sleep(11 * time.Second)
		w.is(a, replica.Suspect, "dcgm: rows remapped for uncorrectable errors on GPU 1")
		time.Sleep(6 * time.Minute)
		w.is(a, replica.Up, "")
	})
}

// A clock that is held down now and then is no sign; one that is for a minute is,
// under the old name of the series and the new one.
func TestThrottleReasons(t *testing.T) {
	for _, series := range []string{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"} {
		t.Run(series, func(t *testing.T) {
			watch(t, dcgm(), two(), func(w *watched) {
				reasons := func(mask uint64) { w.page(fmt.Sprintf(`%s{gpu="1"} %d`, series, mask)) }
				for range 5 {
					reasons(health.HWThermal)
					time.Sleep(50 * time.Second)
					reasons(health.SWPowerCap)
					time.Sleep(20 * time.Second)
					w.is(a, replica.Up, "")
				}
				reasons(health.HWThermal | health.HWSlowdown | health.SWPowerCap)
				time.Sleep(80 * time.Second)
				w.is(a, replica.Suspect, "dcgm: clocks held down: HW thermal slowdown on GPU 1")
				time.Sleep(12 * time.Minute)
				w.is(a, replica.Suspect, "dcgm: clocks held down: HW thermal slowdown on GPU 1")
				reasons(0)
				time.Sleep(4 * time.Minute)
				w.is(a, replica.Suspect, "dcgm: clocks held down: HW thermal slowdown on GPU 1")
				time.Sleep(2 * time.Minute)
				w.is(a, replica.Up, "")
			})
		})
	}
}

func TestThrottleReasonsThatCount(t *testing.T) {
	for mask, name := range map[uint64]string{
		health.SWThermal: "SW thermal slowdown", health.HWPowerBrake: "HW power brake", health.SWPowerCap: "SW power cap",
		health.HWSlowdown: "HW slowdown", 1 << 9: "clocks event reason bit 9",
	} {
		t.Run(name, func(t *testing.T) {
			cfg := dcgm()
			cfg.DCGM.Rules.ThrottleReasons = mask
			cfg.DCGM.Rules.ThrottledFor = 30 * time.Second
			cfg.DCGM.Rules.Throttled = health.Drain
			watch(t, cfg, two(), func(w *watched) {
				w.page(fmt.Sprintf(`DCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu="1"} %d`, ^mask&0xffff))
				time.Sleep(5 * time.Minute)
				w.is(a, replica.Up, "")
				w.page(fmt.Sprintf(`DCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu="1"} %d`, mask))
				time.Sleep(45 * time.Second)
				w.is(a, replica.Draining, "dcgm: clocks held down: "+name+" on GPU 1")
			})
		})
	}
}

// A page that was away for long does not show that a clock was held down
// meanwhile.
func TestThrottlingIsNotInferredOverAGap(t *testing.T) {
	watch(t, dcgm(), two(), func(w *watched) {
		throttled := fmt.Sprintf(`DCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu="1"} %d`, health.HWThermal)
		for range 5 {
			w.page(throttled)
			time.Sleep(30 * time.Second)
			w.answer("http://a:9400/metrics", 0, "")
			time.Sleep(time.Minute)
			w.is(a, replica.Up, "")
		}
	})
}

// Violations are nanoseconds, and a share of the time.
func TestViolations(t *testing.T) {
	for _, tc := range []struct {
		name           string
		share          time.Duration // of a second that the clock is held down
		thermal, power float64       // thresholds
		want           string
	}{
		{name: "thermal", share: 600 * time.Millisecond, want: "thermal"},
		{name: "thermal", share: 400 * time.Millisecond},
		{name: "thermal", share: 400 * time.Millisecond, thermal: 0.3, want: "thermal"},
		{name: "power", share: 950 * time.Millisecond},
		{name: "power", share: 950 * time.Millisecond, power: 0.9, want: "power"},
	} {
		t.Run(fmt.Sprint(tc.name, " ", tc.share, " ", tc.thermal+tc.power), func(t *testing.T) {
			cfg := dcgm()
			cfg.DCGM.Rules.ThermalViolation, cfg.DCGM.Rules.PowerViolation = tc.thermal, tc.power
			watch(t, cfg, two(), func(w *watched) {
				series := map[string]string{"thermal": "DCGM_FI_DEV_THERMAL_VIOLATION", "power": "DCGM_FI_DEV_POWER_VIOLATION"}[tc.name]
				total := int64(3 * time.Hour)
				for range 150 {
					w.page(fmt.Sprintf(`%s{gpu="1"} %d`, series, total))
					time.Sleep(time.Second)
					total += int64(tc.share)
				}
				if tc.want == "" {
					w.is(a, replica.Up, "")
					return
				}
				w.is(a, replica.Suspect, "dcgm: clocks held down: "+tc.want+" violation on GPU 1")
			})
		})
	}
}
