package realvllm_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// gateway is the example program, running as its users run it.
type gateway struct{ url string }

func startGateway(t *testing.T, engine string, flags ...string) gateway {
	t.Helper()
	program := filepath.Join(t.TempDir(), "gateway")
	build := exec.Command("go", "build", "-o", program, "github.com/warmroute/warmroute/examples/gateway")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	cmd := exec.Command(program, append([]string{"-listen", "127.0.0.1:0", "-endpoint", engine, "-debug-headers"}, flags...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	g := gateway{}
	for g.url == "" && lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			g.url = address
		}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for lines.Scan() { // so that the program never blocks on its output
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		<-drained
		assert.NoError(t, cmd.Wait(), "a clean shutdown")
	})
	require.NotEmpty(t, g.url, "the gateway did not start")
	return g
}

// stats is the gateway's only pool.
func (g gateway) stats(t *testing.T) warmroute.PoolStats {
	t.Helper()
	resp, err := http.Get(g.url + "/debug/warmroute/stats")
	require.NoError(t, err)
	defer resp.Body.Close()
	var s warmroute.Stats
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&s))
	require.Len(t, s.Pools, 1)
	return s.Pools[0]
}

func (g gateway) eventually(t *testing.T, why string, f func() bool) {
	t.Helper()
	assert.Eventually(t, f, 10*time.Second, 100*time.Millisecond, why)
}
