package config_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/config"
)

// TestHealthWatches runs routers that configurations make. The second engine is the
// one to be found.
func TestHealthWatches(t *testing.T) {
	engine := func(status int) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/ready" { // and not at /health
				w.WriteHeader(status)
			}
		}))
		t.Cleanup(s.Close)
		return s
	}
	first, second := engine(http.StatusOK), engine(http.StatusServiceUnavailable)
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page" {
			_, _ = w.Write([]byte("DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu=\"0\"} 0\nDCGM_FI_DEV_ROW_REMAP_FAILURE{gpu=\"1\"} 1\n"))
		}
	}))
	t.Cleanup(exporter.Close)
	addresses := strings.NewReplacer("FIRST", first.URL, "SECOND", second.URL, "EXPORTER", exporter.URL)
	for source, text := range map[string]string{
		"probe": `{"probe": {"path": "/ready", "interval": "20ms", "timeout": "10s", "fall": 1, "rise": 1}}`,
		"dcgm": `{"dcgm": {"gpus": [{"exporter": "EXPORTER/page", "replica": "FIRST", "gpu": ["0"]},
			{"exporter": "EXPORTER/page", "replica": "SECOND", "ranks": [], "gpu": ["1"]}], "interval": "20ms", "timeout": "10s"}}`,
	} {
		t.Run(source, func(t *testing.T) {
			text := `{"endpoints": [{"url": "FIRST", "ranks": 1}, {"url": "SECOND", "ranks": 1}], "health": ` + text + `}`
			s, err := parse(t, addresses.Replace(text)).Build(config.Sources{})
			require.NoError(t, err)
			router, err := warmroute.New(s.Endpoints(), s.RouterOptions()...)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- router.Run(ctx) }()
			found := func(i int) *warmroute.FindingStats { return router.Stats().Pools[0].Replicas[i].Finding }
			assert.Eventually(t, func() bool { return found(1) != nil }, 20*time.Second, 10*time.Millisecond)
			if f := found(1); assert.NotNil(t, f) {
				assert.Equal(t, source, f.Source)
			}
			assert.Nil(t, found(0))
			cancel()
			require.NoError(t, <-done)
			require.NoError(t, router.Close())
		})
	}
}

func TestHealthMistakesAreToldTogether(t *testing.T) {
	_, err := config.Parse("g", []byte(insert(`"health": {"probe": {"path": "x", "fall": 0},
		"dcgm": {"gpus": [{"exporter": "a"}, {"exporter": "http://b", "ranks": [-1]}], "hold": "0s"}}`)))
	for _, field := range []string{"probe.path", "probe.fall", "dcgm.gpus[0].exporter", "dcgm.gpus[1].ranks", "dcgm.hold"} {
		assert.ErrorContains(t, err, ": health."+field+": ")
	}
	assert.Len(t, strings.Split(err.Error(), "\n"), 5)
}
