package health_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/health"
	"github.com/warmroute/warmroute/metrics"
)

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return page
}

func num(v float64) metrics.Number { return metrics.Number{Value: v, OK: true} }

func TestParseDefaultCounters(t *testing.T) {
	all, err := health.ParsePage(fixture(t, "default-counters-4gpus.txt"))
	require.NoError(t, err)
	require.Len(t, all, 4)
	assert.Equal(t, health.Reading{
		GPU: health.GPU{
			Index: "3", UUID: "GPU-000000d4-1111-2222-3333-0000000000d4", Device: "nvidia3",
			PCIBusID: "00000000:61:00.0", Hostname: "gpu-node-1",
		},
		XIDs: []int{79}, XIDKnown: true, RowRemapFailure: num(0), RemappedRows: num(0), Temperature: num(39),
	}, all[3], "what is not among the default counters is missing")
	assert.Equal(t, []int{31}, all[1].XIDs)
	assert.Empty(t, all[0].XIDs)
	assert.True(t, all[0].XIDKnown)
	assert.Equal(t, num(2), all[2].RemappedRows)
}

func TestParseCustomCounters(t *testing.T) {
	all, err := health.ParsePage(fixture(t, "custom-counters-4gpus.txt"))
	require.NoError(t, err)
	require.Len(t, all, 4)
	g := all[2]
	assert.Equal(t, num(float64(health.HWThermal|health.SWThermal|health.HWSlowdown)), g.ThrottleReasons)
	assert.Equal(t, num(98123456789), g.ThermalViolation)
	assert.Equal(t, num(4412345678), g.PowerViolation)
	assert.Equal(t, num(1), g.DoubleBitVolatile)
	assert.Equal(t, num(3), g.DoubleBitAggregate)
	assert.Empty(t, g.RecentXIDs)
	assert.Equal(t, []int{31}, all[1].RecentXIDs)
	assert.Equal(t, []int{79}, all[3].RecentXIDs)
	assert.Equal(t, metrics.Number{}, all[3].DoubleBitVolatile, "not supported")
}

func TestParsePage(t *testing.T) {
	for name, tc := range map[string]struct {
		page string
		want []health.Reading
		err  string
	}{
		"empty":        {},
		"other series": {page: `vllm:num_requests_running{engine="0"} 1`},
		"MIG instances": {page: "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"3\"} 0\nDCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"4\"} 94\nDCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"5\"} 31\nDCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"6\"} 94", want: []health.Reading{
			{GPU: health.GPU{Index: "0", UUID: "GPU-a"}, XIDs: []int{31, 94}, XIDKnown: true}}},
		"one index on two hosts": {page: "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",Hostname=\"x\"} 1\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\",hostname=\"y\"} 2", want: []health.Reading{
			{GPU: health.GPU{Index: "0", Hostname: "x"}, Temperature: num(1)}, {GPU: health.GPU{Index: "0", Hostname: "y"}, Temperature: num(2)}}},
		"lower case uuid": {page: `DCGM_FI_DEV_GPU_TEMP{uuid="GPU-a"} 1`, want: []health.Reading{{GPU: health.GPU{UUID: "GPU-a"}, Temperature: num(1)}}},
		"blanks": {page: "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\"} 2147483632\nDCGM_FI_DEV_ROW_REMAP_FAILURE{gpu=\"0\"} 9223372036854775794\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} NaN\n" +
			"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{gpu=\"0\"} -1\nDCGM_FI_DEV_POWER_VIOLATION{gpu=\"0\"} +Inf", want: []health.Reading{{GPU: health.GPU{Index: "0"}}}},
		"no such XID": {page: `DCGM_FI_DEV_XID_ERRORS{gpu="0"} 100000`, want: []health.Reading{{GPU: health.GPU{Index: "0"}, XIDKnown: true}}},
		"both masks": {page: "DCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu=\"0\"} 64\nDCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu=\"0\"} 128", want: []health.Reading{
			{GPU: health.GPU{Index: "0"}, ThrottleReasons: num(192)}}},
		"odd counts":       {page: "DCGM_EXP_XID_ERRORS_COUNT{gpu=\"0\",xid=\"x\"} 1\nDCGM_EXP_XID_ERRORS_COUNT{gpu=\"0\"} 1\nDCGM_EXP_XID_ERRORS_COUNT{gpu=\"0\",xid=\"-79\"} 1", want: []health.Reading{{GPU: health.GPU{Index: "0"}}}},
		"nameless":         {page: `DCGM_FI_DEV_XID_ERRORS{Hostname="x"} 79`, err: "1 samples name no GPU"},
		"long name":        {page: `DCGM_FI_DEV_XID_ERRORS{gpu="` + strings.Repeat("1", 129) + `"} 79`, err: "1 samples name no GPU"},
		"control sequence": {page: "DCGM_FI_DEV_XID_ERRORS{gpu=\"\x1b[2J\"} 79", err: "1 samples name no GPU"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := health.ParsePage([]byte(tc.page))
			assert.Equal(t, tc.want, got)
			if tc.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.err)
			}
		})
	}
}

func TestParsePageIsBounded(t *testing.T) {
	var page strings.Builder
	for i := range 300 {
		fmt.Fprintf(&page, "DCGM_FI_DEV_XID_ERRORS{gpu=\"%d\"} 79\n", i)
	}
	all, err := health.ParsePage([]byte(page.String()))
	require.ErrorIs(t, err, health.ErrTooManyGPUs)
	assert.Len(t, all, 256)
}

func TestGPUNames(t *testing.T) {
	g := health.GPU{Index: "3", UUID: "GPU-ab", Device: "nvidia3", PCIBusID: "00000000:1B:00.0", Hostname: "h"}
	for _, name := range []string{"3", "gpu-AB", "nvidia3", "00000000:1b:00.0"} {
		assert.True(t, g.Is(name), name)
	}
	for _, name := range []string{"", "h", "33", "GPU 3"} {
		assert.False(t, g.Is(name), name)
	}
	assert.False(t, health.GPU{}.Is(""))
	assert.Equal(t, "GPU 3", g.String())
	assert.Equal(t, "GPU GPU-ab", health.GPU{UUID: "GPU-ab"}.String())
}

func FuzzParsePage(f *testing.F) {
	for _, name := range []string{"default-counters-4gpus.txt", "custom-counters-4gpus.txt"} {
		page := fixture(f, name)
		f.Add(page)
		f.Add(page[len(page)/2:])
	}
	f.Add([]byte("DCGM_FI_DEV_XID_ERRORS{gpu=\"0\"} 1e300\nDCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu=\"0\"} 9.3e18\nDCGM_EXP_XID_ERRORS_COUNT{xid=\"99999999999999999999\",UUID=\"\"} 1"))
	f.Fuzz(func(t *testing.T, page []byte) {
		all, err := health.ParsePage(page)
		again, againErr := health.ParsePage(page)
		require.Equal(t, all, again)
		require.Equal(t, fmt.Sprint(err), fmt.Sprint(againErr))
		require.LessOrEqual(t, len(all), 256)
		for _, r := range all {
			require.NotEqual(t, "GPU ", r.GPU.String(), "each has a name")
			require.LessOrEqual(t, len(r.GPU.Hostname), 128)
			for _, n := range []metrics.Number{
				r.DoubleBitVolatile, r.DoubleBitAggregate, r.RowRemapFailure, r.RemappedRows, r.ThrottleReasons,
				r.ThermalViolation, r.PowerViolation, r.Temperature,
			} {
				require.False(t, math.IsNaN(n.Value) || math.IsInf(n.Value, 0) || n.Value < 0 || !n.OK && n.Value != 0, "%v", n)
			}
			for _, codes := range [][]int{r.XIDs, r.RecentXIDs} {
				last := 0
				for _, code := range codes {
					require.Greater(t, code, last)
					last = code
				}
				require.LessOrEqual(t, last, 9999)
			}
		}
	})
}
