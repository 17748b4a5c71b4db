package main

import (
	"context"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench/internal/minengine"
)

// TestMain has the test's program be this program's own processes as well.
func TestMain(m *testing.M) {
	for _, arg := range os.Args[1:] {
		if arg == "-role" {
			main()
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

func TestPlay(t *testing.T) {
	engine := httptest.NewServer(&minengine.Engine{Chunks: 3, Interval: 5 * time.Millisecond})
	defer engine.Close()
	full := 0
	got := load{streams: 20, chunks: 3, ramp: 20 * time.Millisecond}.play(t.Context(), engine.URL, func() { full++ })
	require.NoError(t, got.failure)
	assert.Equal(t, 1, full)
	assert.Len(t, got.first, 20)
	assert.Len(t, got.delays, 60)
	assert.IsIncreasing(t, []time.Duration{0, quantile(got.delays, 0.99)})
	assert.LessOrEqual(t, quantile(got.delays, 0.5), quantile(got.delays, 0.99))
	assert.Zero(t, quantile(nil, 0.5))

	got = load{streams: 2, chunks: 4}.play(t.Context(), engine.URL, func() {})
	assert.Equal(t, 2, got.failures)
	require.ErrorContains(t, got.failure, "not complete")
}

func TestComparison(t *testing.T) {
	gateway := filepath.Join(t.TempDir(), "gateway")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", gateway, "../../examples/gateway")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var table, complaints strings.Builder
	err = run(t.Context(), []string{"-gateway", gateway, "-haproxy", "/nowhere", "-streams", "5", "-chunks", "3", "-interval", "50ms", "-ramp", "10ms"}, &table, &complaints)
	require.NoError(t, err, complaints.String())
	assert.Contains(t, complaints.String(), "HAProxy is left out")
	lines := strings.Split(strings.TrimSpace(table.String()), "\n")
	require.Len(t, lines, 2+2+3, table.String())
	for i, name := range []string{"direct", "warmroute", "reverseproxy"} {
		assert.True(t, strings.HasPrefix(lines[4+i], "| "+name+" |"), lines[4+i])
	}
	assert.Contains(t, lines[5], "KiB")
	assert.True(t, strings.HasSuffix(lines[5], "| 0 |"), lines[5])
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{{"-streams", "0"}, {"-chunks", "1"}, {"-interval", "0"}, {"-role", "odd"}, {"more"}, {"-odd"}} {
		require.Error(t, run(t.Context(), args, io.Discard, io.Discard), args)
	}
}

func TestAServerThatDoesNotListen(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := start(ctx, io.Discard, "127.0.0.1:1", "true")
	require.ErrorContains(t, err, "has ended")
	_, err = start(ctx, io.Discard, "127.0.0.1:1", "/nowhere")
	require.Error(t, err)
}

func TestHAProxyConfig(t *testing.T) {
	cfg := haproxyConfig("127.0.0.1:9", "127.0.0.1:8", 2000)
	assert.Contains(t, cfg, "maxconn 4100")
	assert.Contains(t, cfg, "bind 127.0.0.1:9")
	assert.Contains(t, cfg, "server one 127.0.0.1:8")
}
