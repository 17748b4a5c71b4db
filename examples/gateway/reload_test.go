package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/config"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// configText is a configuration file with endpoints and some of the rest.
func configText(t *testing.T, spill int, rest string, endpoints ...string) string {
	t.Helper()
	var list []map[string]any
	for _, e := range endpoints {
		url, draining := strings.CutSuffix(e, " draining")
		list = append(list, map[string]any{"url": url, "model": "sim", "draining": draining})
	}
	text, err := json.Marshal(list)
	require.NoError(t, err)
	return fmt.Sprintf("{\n// a test's\n\"endpoints\": %s,\n\"pools\": {\"sim\": {\"spill\": %d}}%s}\n", text, spill, rest)
}

func writeConfig(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

const streamed = `{"model":"sim","max_tokens":24,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"%s"}]}`

// load keeps streams running until stop is called, which returns how many there
// were; each must be whole.
func load(t *testing.T, url string) (done *atomic.Int64, stop func()) {
	done = new(atomic.Int64)
	var ends atomic.Bool
	var clients sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	for i := range 8 {
		clients.Go(func() {
			for turn := 0; !ends.Load(); turn++ {
				req, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(streamed, strings.Repeat("word ", 20*(1+turn%10)))))
				if !assert.NoError(t, err) {
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("X-Session-Id", fmt.Sprint("client ", i))
				resp, err := client.Do(req)
				if !assert.NoError(t, err) {
					return
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close() // it has been read
				if !assert.NoError(t, err) || !assert.Equal(t, 200, resp.StatusCode, string(body)) ||
					!assert.True(t, bytes.HasSuffix(body, []byte("data: [DONE]\n\n")), "whole: %s", body) ||
					!assert.Contains(t, string(body), `"completion_tokens":24`) {
					return
				}
				done.Add(1)
			}
		})
	}
	return done, func() {
		ends.Store(true)
		clients.Wait()
		client.CloseIdleConnections()
	}
}

// await waits until something holds, as the gateway's log or stats tell.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, 20*time.Second, 2*time.Millisecond, what)
}

// No request fails and no stream breaks over twenty reloads that add, remove and
// drain endpoints and change the spill threshold.
func TestReloadUnderLoad(t *testing.T) {
	var engines []string
	for range 4 {
		engines = append(engines, simulate(t, fakevllm.Config{Ranks: 2}))
	}
	path := filepath.Join(t.TempDir(), "gateway.json")
	writeConfig(t, path, configText(t, 100, "", engines[0], engines[1]))
	file, err := readConfig(path)
	require.NoError(t, err)
	src := newSource(file.discoverer())
	router, err := warmroute.New(file.settings.Endpoints(), append(file.settings.RouterOptions(), warmroute.WithDiscovery(src))...)
	require.NoError(t, err)
	ended := make(chan error)
	go func() { ended <- router.Run(t.Context()) }()
	logger := slog.New(slog.DiscardHandler)
	url := serve(t, newHandler(router, logger))
	done, stop := load(t, url)
	r := &reloader{file: file, router: router, source: src, logger: logger}
	for i := range 20 {
		endpoints := []string{engines[i%4], engines[(i+1)%4], engines[(i+2)%4]}
		if i%3 == 0 {
			endpoints[1] += " draining"
		}
		if i%5 == 0 {
			endpoints = endpoints[:1]
		}
		writeConfig(t, path, configText(t, 1+i, "", endpoints...))
		for n := done.Load() + 8; done.Load() < n && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, r.reload(t.Context()))
		pool := router.Stats().Pools[0]
		assert.Equal(t, warmroute.Threshold{Value: 1 + i, Source: warmroute.SpillFixed}, pool.Spill)
		servers := map[string]bool{}
		for _, m := range router.Replicas() {
			servers[m.Endpoint().URL] = m.Draining()
		}
		want := map[string]bool{}
		for _, e := range endpoints {
			e, draining := strings.CutSuffix(e, " draining")
			want[e] = draining
		}
		assert.Equal(t, want, servers)
	}
	stop()
	assert.Greater(t, done.Load(), int64(160))
	s := router.Stats()
	assert.Len(t, s.Pools, 1)
	assert.Zero(t, s.Pools[0].InFlight)
	assert.Empty(t, s.Discovery.Problem)
	require.NoError(t, router.Close())
	require.NoError(t, <-ended)
	t.Logf("%d streams over 20 reloads", done.Load())
}

// A file that is refused changes nothing, and is told with its line.
func TestReloadIsAllOrNothing(t *testing.T) {
	engine := simulate(t, fakevllm.Config{Ranks: 1})
	path := filepath.Join(t.TempDir(), "gateway.json")
	writeConfig(t, path, configText(t, 7, "", engine))
	file, err := readConfig(path)
	require.NoError(t, err)
	src := newSource(file.discoverer())
	router, err := warmroute.New(file.settings.Endpoints(), append(file.settings.RouterOptions(), warmroute.WithDiscovery(src))...)
	require.NoError(t, err)
	ended := make(chan error)
	go func() { ended <- router.Run(t.Context()) }()
	r := &reloader{file: file, router: router, source: src, logger: slog.New(slog.DiscardHandler)}
	before := router.Replicas()
	for _, tc := range []struct{ text, want string }{
		{"", ":1:1: the text ends too early"},
		{configText(t, 8, "", engine, "nonsense"), `endpoints[1].url: "nonsense" refused`},
		{configText(t, 8, ",\n\"listen\": \":9\"", engine, "http://127.0.0.1:1"), `:5:11: listen: cannot be changed while the gateway runs`},
		{configText(t, 8, `, "defaults": {"residency": "off"}`, engine, "http://127.0.0.1:1"), `defaults.residency: cannot be changed`},
		{configText(t, 8, `, "discovery": [{"file": {"path": "/no/such/file"}}]`, engine, "http://127.0.0.1:1"), `no such file`},
		{strings.Replace(configText(t, 8, "", engine), `"model"`, `"api_key": {"env": "WARMROUTE_NOT_SET"}, "model"`, 1), `WARMROUTE_NOT_SET is not set`},
	} {
		writeConfig(t, path, tc.text)
		require.ErrorContains(t, r.reload(t.Context()), tc.want)
		assert.Equal(t, before, router.Replicas())
		assert.Equal(t, 7, router.Stats().Pools[0].Spill.Value)
	}
	require.NoError(t, os.Remove(path))
	require.ErrorIs(t, r.reload(t.Context()), os.ErrNotExist)
	writeConfig(t, path, configText(t, 9, `, "pools2": {}`, engine))
	var mistake *config.Error
	require.ErrorAs(t, r.reload(t.Context()), &mistake)
	assert.Equal(t, "pools2", mistake.Field)

	writeConfig(t, path, strings.Replace(configText(t, 9, "", engine), `"pools": {`, `"pools": {"new": {"spill": 3, "picker": "random"}, `, 1))
	require.NoError(t, r.reload(t.Context()), "and goes on from there")
	assert.Equal(t, before, router.Replicas(), "who stays is the same")
	assert.Equal(t, 9, router.Stats().Pools[0].Spill.Value)
	writeConfig(t, path, strings.Replace(strings.Replace(configText(t, 9, "", engine, "http://127.0.0.1:1"), `"model":"sim","url":"http://127.0.0.1:1"`, `"model":"new","url":"http://127.0.0.1:1"`, 1),
		`"pools": {`, `"pools": {"new": {"spill": 4, "picker": "round-robin"}, `, 1))
	require.NoError(t, r.reload(t.Context()), "a pool that is not in use may change in everything")
	assert.Equal(t, 4, router.Stats().Pools[1].Spill.Value, "and begins as the file says")
	require.NoError(t, router.Close())
	require.NoError(t, <-ended)
}

// The program itself, as its own process, by its signal.
func TestHangup(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "gateway")
	out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	a, b := simulate(t, fakevllm.Config{Ranks: 2}), simulate(t, fakevllm.Config{Ranks: 2})
	path := filepath.Join(dir, "gateway.json")
	writeConfig(t, path, configText(t, 5, `, "listen": "127.0.0.1:0"`, a))

	cmd := exec.Command(binary, "-config", path)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	logged := new(lockedBuffer)
	cmd.Stderr = logged
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill() // it has ended, unless the test has failed
		_ = cmd.Wait()
	}()
	lines := bufio.NewScanner(stdout)
	require.True(t, lines.Scan())
	url, found := strings.CutPrefix(lines.Text(), "listening on ")
	require.True(t, found, lines.Text())
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for lines.Scan() {
		}
	}()
	done, stop := load(t, url)
	reloads := 0
	reload := func(text, says string) {
		writeConfig(t, path, text)
		for n := done.Load() + 10; done.Load() < n && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		before := strings.Count(logged.String(), says)
		require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
		await(t, says, func() bool { return strings.Count(logged.String(), says) > before })
		reloads++
	}
	for i := range 6 {
		reload(configText(t, 6+i, `, "listen": "127.0.0.1:0"`, []string{a, b}[i%2]), "configuration reloaded")
		s := stats(t, url)
		assert.Equal(t, 6+i, s.Pools[0].Spill.Value)
		require.Len(t, s.Pools, 1)
	}
	reload(configText(t, 99, `, "listen": "127.0.0.1:1"`, a), "listen: cannot be changed while the gateway runs")
	assert.Equal(t, 11, stats(t, url).Pools[0].Spill.Value)
	stop()
	assert.Greater(t, done.Load(), int64(70))
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	<-drained
	require.NoError(t, cmd.Wait())
	t.Logf("%d streams over %d hangups", done.Load(), reloads)
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
