package extproc_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/integrations/extproc"
	"github.com/warmroute/warmroute/internal/gatewaytest"
)

// envoyBinary adds a real Envoy to what is tested, with the modes of envoy.yaml.
var envoyBinary = flag.String("envoy", "", "`path` of an Envoy, 1.40 or later, to be tested as well")

// envoyModes is what the real Envoy is run with instead of FULL_DUPLEX_STREAMED.
var envoyModes = []string{"FULL_DUPLEX_STREAMED", "BUFFERED", "STREAMED", "NONE"}

// realEnvoy serves the processor over a socket and runs Envoy before it.
func realEnvoy(t *testing.T, requestMode string, timeout time.Duration, router *warmroute.Router) (url string) {
	t.Helper()
	processor, err := extproc.New(router, extproc.Config{MessageTimeout: timeout, MaxMessageTimeout: 300 * time.Second})
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	processor.Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	gateway := free.Addr().(*net.TCPAddr)
	require.NoError(t, free.Close())
	sample, err := os.ReadFile("envoy.yaml")
	require.NoError(t, err)
	config := strings.NewReplacer(
		"port_value: 9000", fmt.Sprint("port_value: ", gateway.Port),
		"port_value: 9002", fmt.Sprint("port_value: ", listener.Addr().(*net.TCPAddr).Port),
		" message_timeout: 5s", fmt.Sprintf(" message_timeout: %gs", timeout.Seconds()),
		"request_body_mode: FULL_DUPLEX_STREAMED", "request_body_mode: "+requestMode,
	).Replace(string(sample))
	path := filepath.Join(t.TempDir(), "envoy.yaml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))

	ctx, cancel := context.WithCancel(context.Background())
	run := exec.CommandContext(ctx, *envoyBinary, "-c", path, "--concurrency", "1", "--use-dynamic-base-id", "-l", "error")
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	run.Stdout, run.Stderr = log, log
	require.NoError(t, run.Start())
	t.Cleanup(func() {
		cancel()
		require.Error(t, run.Wait(), "killed")
		server.Stop()
		assert.NoError(t, <-served)
		assert.NoError(t, log.Close())
		if t.Failed() {
			said, err := os.ReadFile(log.Name())
			t.Logf("envoy said: %s %v", said, err)
		}
	})
	gatewaytest.Eventually(t, "Envoy listens", func() bool {
		conn, err := net.Dial("tcp", gateway.String())
		return err == nil && conn.Close() == nil
	})
	return "http://" + gateway.String()
}

// TestRealEnvoy runs with -envoy only: Envoy is not a Go program.
func TestRealEnvoy(t *testing.T) {
	if *envoyBinary == "" {
		return
	}
	except := map[string]string{
		"request passes unchanged": "Envoy sends a body that it streams in chunks, and passes headers that Connection names",
		"body too large":           "the processor has no part in it: Envoy has a filter for that",
	}
	for _, requestMode := range envoyModes {
		t.Run(requestMode, func(t *testing.T) {
			gatewaytest.Run(t, gatewaytest.Gateway{
				BodyUnseen: requestMode == "STREAMED" || requestMode == "NONE", BreaksUnseen: true, Except: except,
				Serve: func(t *testing.T, router *warmroute.Router, _ int64) string {
					return realEnvoy(t, requestMode, 5*time.Second, router)
				},
			})
		})
	}
}

// TestRealEnvoyWaits has Envoy be as patient as the processor asks it to be.
func TestRealEnvoyWaits(t *testing.T) {
	if *envoyBinary == "" {
		return
	}
	for _, requestMode := range envoyModes {
		t.Run(requestMode, func(t *testing.T) {
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"usage":{"prompt_tokens":900,"completion_tokens":2}}`)
			}))
			defer engine.Close()
			router, err := warmroute.New([]warmroute.Endpoint{{URL: engine.URL, Ranks: 3}}, warmroute.WithResidency(1000))
			require.NoError(t, err)
			defer router.Close()
			free := crowd(t, router)
			url := realEnvoy(t, requestMode, extproc.DefaultMessageTimeout, router)
			answered := make(chan string, 1)
			go func() {
				resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"`+strings.Repeat("word ", 720)+`"}`))
				if err != nil {
					answered <- err.Error()
					return
				}
				answered <- resp.Status
				_ = resp.Body.Close()
			}()
			gatewaytest.Eventually(t, "it waits", func() bool { return router.Stats().Pools[0].Queue.Waiting == 1 })
			select {
			case status := <-answered:
				t.Errorf("it did not wait: %s", status)
			case <-time.After(5 * extproc.DefaultMessageTimeout):
				free()
				assert.Equal(t, "200 OK", <-answered)
			}
			gatewaytest.Eventually(t, "nothing is in flight", func() bool { return router.Stats().Pools[0].InFlight == 0 })
		})
	}
}
