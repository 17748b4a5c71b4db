package health

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// GPUs that fell off the bus are remembered, but not without end: a page may show
// others each time.
func TestGPUsAreBounded(t *testing.T) {
	cfg, err := Config{DCGM: &DCGM{GPUs: []GPUs{{Exporter: "http://a"}}}}.withDefaults()
	require.NoError(t, err)
	e := newExporter(&url.URL{Scheme: "http", Host: "a", Path: "/metrics"}, cfg.DCGM)
	at := time.Now()
	for n := range 20 {
		var page strings.Builder
		for i := range 2 * maxGPUs {
			fmt.Fprintf(&page, "DCGM_FI_DEV_XID_ERRORS{UUID=\"GPU-%d-%d\"} 79\n", n, i)
		}
		at = at.Add(time.Second)
		e.take([]byte(page.String()), nil, at)
		require.ErrorIs(t, e.err, ErrTooManyGPUs)
		assert.LessOrEqual(t, len(e.gpus), 3*maxGPUs)
		assert.Len(t, e.order, len(e.gpus))
	}
	e.take([]byte(`DCGM_FI_DEV_XID_ERRORS{UUID="GPU-0"} 0`), nil, at)
	assert.LessOrEqual(t, len(e.gpus), 2*maxGPUs+1)
}

func TestOrderOfGPUs(t *testing.T) {
	cfg, err := Config{DCGM: &DCGM{GPUs: []GPUs{{Exporter: "http://a"}}}}.withDefaults()
	require.NoError(t, err)
	e := newExporter(&url.URL{Scheme: "http", Host: "a", Path: "/metrics"}, cfg.DCGM)
	e.take([]byte("DCGM_FI_DEV_GPU_TEMP{gpu=\"10\"} 1\nDCGM_FI_DEV_GPU_TEMP{gpu=\"2\"} 1\nDCGM_FI_DEV_GPU_TEMP{gpu=\"1\"} 1\n"), nil, time.Now())
	var got []string
	for _, s := range e.order {
		got = append(got, s.reading.GPU.Index)
	}
	assert.Equal(t, []string{"1", "2", "10"}, got)
}

// The gravest finding of an Action that weighs as much as another is the first.
func TestActionsAreOrdered(t *testing.T) {
	s := signs{current: []sign{{what: "a", action: Suspect}, {what: "b", action: Drain}, {what: "c", action: DrainUntilReset}}}
	var got []string
	for _, n := range s.ordered() {
		got = append(got, n.what)
	}
	assert.Equal(t, []string{"b", "c", "a"}, got)
}
