package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func TestGatewayWithAConfigFile(t *testing.T) {
	engine := simulate(t, fakevllm.Config{Ranks: 2})
	dir := t.TempDir()
	path := filepath.Join(dir, "gateway.json")
	writeConfig(t, path, `{
		"listen": "127.0.0.1:1", // -listen goes first
		"discovery": [{"file": {"path": "endpoints.json", "interval": "100ms"}}],
		"defaults": {"spill": 12, "picker": "round-robin"},
		"sessions": {"headers": ["X-Chat"], "file": "sessions"},
		"debug_headers": true
	}`)
	writeConfig(t, filepath.Join(dir, "endpoints.json"), `{"endpoints": []}`)
	url, stop := start(t, "-config", path)
	status, header, body := ask(t, url+"/v1/chat/completions", nil, fmt.Sprintf(chat, "x"))
	assert.Equal(t, 503, status, body)
	assert.Equal(t, "1", header.Get("Retry-After"))
	writeConfig(t, filepath.Join(dir, "endpoints.json"), fmt.Sprintf(`{"endpoints": [{"url": %q}]}`, engine))
	await(t, "the endpoint is found", func() bool { return len(stats(t, url).Pools) == 1 && len(stats(t, url).Pools[0].Replicas) == 2 })
	for i, want := range []string{"placed", "sticky"} {
		status, header, body := ask(t, url+"/v1/chat/completions", http.Header{"X-Chat": {"demo"}}, fmt.Sprintf(chat, "hello"))
		assert.Equal(t, 200, status, body)
		assert.Equal(t, want, header.Get(warmroute.OutcomeHeader), i)
	}
	assert.Equal(t, 12, stats(t, url).Pools[0].Spill.Value)
	writeConfig(t, filepath.Join(dir, "endpoints.json"), `{"endpoints": [`)
	await(t, "that is said", func() bool { return stats(t, url).Discovery.Problem != "" })
	status, _, body = ask(t, url+"/v1/chat/completions", nil, fmt.Sprintf(chat, "x"))
	assert.Equal(t, 200, status, body)
	require.NoError(t, stop())
	_, err := os.Stat(filepath.Join(dir, "sessions"))
	require.NoError(t, err, "beside the configuration")
}

func TestCheckConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.json")
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), args, &out, io.Discard)
		return out.String(), err
	}
	writeConfig(t, path, configText(t, 5, "", "http://127.0.0.1:1"))
	out, err := run("-check-config", "-config", path)
	require.NoError(t, err)
	assert.Equal(t, path+": no mistakes\n", out)
	writeConfig(t, path, configText(t, 0, "", "http://127.0.0.1:1"))
	_, err = run("-check-config", "-config", path)
	require.ErrorContains(t, err, path+`:4:28: pools.sim.spill: "0" refused; allowed: auto, or a number`)
	_, err = run("-config", path)
	require.ErrorContains(t, err, `pools.sim.spill`)
	_, err = run("-check-config")
	require.ErrorContains(t, err, "needs a -config")
	_, err = run("-config", path, "-spill", "4")
	require.ErrorContains(t, err, "-spill does not go with -config")
	_, err = run("-config", filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
