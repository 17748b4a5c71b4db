package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// start runs the program until the test ends or stop is called, which returns
// its error.
func start(t *testing.T, args ...string) (url string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, append([]string{"-listen", "127.0.0.1:0"}, args...), writer, io.Discard)
		_ = writer.CloseWithError(io.EOF)
		ended <- err
	}()
	lines := bufio.NewScanner(reader)
	for url == "" && lines.Scan() {
		url = strings.TrimPrefix(lines.Text(), "listening on ")
		if url == lines.Text() {
			url = ""
		}
	}
	go func() {
		for lines.Scan() { // so that the program never blocks on its output
		}
	}()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() {
			cancel()
			err = <-ended
		})
		return err
	}
	t.Cleanup(func() {
		if ctx.Err() == nil { // a test that stopped it has looked at the error
			assert.NoError(t, stop())
		}
	})
	require.NotEmpty(t, url)
	return url, stop
}

// simulate serves a simulated engine that is quick.
func simulate(t *testing.T, cfg fakevllm.Config) string {
	t.Helper()
	cfg.StepTime, cfg.PrefillRate = time.Millisecond, 1e6
	engine, err := fakevllm.New(cfg)
	require.NoError(t, err)
	server := httptest.NewServer(engine)
	t.Cleanup(func() {
		server.Close()
		assert.NoError(t, engine.Close())
	})
	return server.URL
}

func ask(t *testing.T, url string, header http.Header, body string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header, string(got)
}

func stats(t *testing.T, url string) warmroute.Stats {
	t.Helper()
	resp, err := http.Get(url + "/debug/warmroute/stats")
	require.NoError(t, err)
	defer resp.Body.Close()
	var s warmroute.Stats
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&s))
	return s
}

const chat = `{"model":"sim","max_tokens":4,"messages":[{"role":"user","content":"%s"}]}`

func TestGatewayWithItsOwnSimulation(t *testing.T) {
	url, stop := start(t, "-debug-headers", "-spill", "8", "-session-header", "X-Chat")
	for i := range 3 {
		status, header, body := ask(t, url+"/v1/chat/completions", http.Header{"X-Chat": {"demo"}}, fmt.Sprintf(chat, "hello"))
		assert.Equal(t, 200, status, body)
		assert.Regexp(t, `^127\.0\.0\.1:\d+@[0-3]$`, header.Get("X-Warmroute-Replica"))
		assert.Equal(t, []string{"placed", "sticky", "sticky"}[i], header.Get("X-Warmroute-Outcome"))
	}
	s := stats(t, url)
	require.Len(t, s.Pools, 1)
	assert.Len(t, s.Pools[0].Replicas, 4)
	assert.Equal(t, uint64(2), s.Pools[0].Requests.Sticky)
	assert.Equal(t, warmroute.Threshold{Value: 8, Source: "fixed"}, s.Pools[0].Spill)
	assert.Equal(t, uint64(12), s.Pools[0].Tokens.Completion)
	assert.Zero(t, s.Pools[0].Tokens.UnmeasuredRequests)
	status, _, body := ask(t, url+"/v1/chat/completions", nil, strings.Replace(fmt.Sprintf(chat, "x"), "sim", "other", 1))
	assert.Equal(t, 404, status, "the engine's own word: %s", body)
	for path, want := range map[string]string{"/debug/warmroute/": "@3", "/debug/warmroute/metrics": "warmroute_requests_total", "/debug/warmroute": "@0"} {
		resp, err := http.Get(url + path)
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Contains(t, string(got), want)
	}
	require.NoError(t, stop())
	_, err := http.Get(url)
	require.Error(t, err)
}

func TestGatewayModels(t *testing.T) {
	a, b := simulate(t, fakevllm.Config{Model: "a", Ranks: 2}), simulate(t, fakevllm.Config{Model: "b", Ranks: 1})
	url, _ := start(t, "-endpoint", a+",model=a", "-endpoint", b+",model=b,ranks=1", "-affinity", "off")
	for _, model := range []string{"a", "b"} {
		status, header, body := ask(t, url+"/v1/chat/completions", nil, strings.Replace(fmt.Sprintf(chat, "x"), "sim", model, 1))
		assert.Equal(t, 200, status, body)
		assert.Empty(t, header.Get("X-Warmroute-Replica"), "only when asked for")
	}
	status, header, body := ask(t, url+"/v1/chat/completions", nil, fmt.Sprintf(chat, "x"))
	assert.Equal(t, 404, status)
	assert.Equal(t, "application/json", header.Get("Content-Type"))
	assert.JSONEq(t, `{"error":{"message":"Unknown model \"sim\".","type":"NotFoundError","param":"model","code":404}}`, body)
	s := stats(t, url)
	require.Len(t, s.Pools, 2)
	assert.False(t, s.Pools[0].Affinity)
	assert.Len(t, s.Pools[0].Replicas, 2, "discovered")
	assert.Len(t, s.Pools[1].Replicas, 1)
}

func TestGatewayWithoutAnyReplicaAlive(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	url, _ := start(t, "-endpoint", gone.URL)
	for range 2 {
		status, header, body := ask(t, url+"/v1/chat/completions", nil, fmt.Sprintf(chat, "x"))
		assert.Equal(t, 503, status)
		assert.Equal(t, "1", header.Get("Retry-After"))
		assert.Contains(t, body, `"type":"ServiceUnavailableError"`)
	}
}

func TestGatewayBodiesPassThrough(t *testing.T) {
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return // somebody who looks for metrics
		}
		assert.Equal(t, "//odd/path?q=%20", r.RequestURI, "as the client wrote it")
		assert.Equal(t, "model.example", r.Header.Get("X-Forwarded-Host"))
		_, _ = io.Copy(w, r.Body)
	}))
	defer echo.Close()
	url, _ := start(t, "-endpoint", echo.URL)
	for _, body := range []string{"", "not json", `{"model":`, strings.Repeat("x", 9<<20), `{"p":"` + strings.Repeat("y", 9<<20) + `"}`} {
		req, err := http.NewRequest(http.MethodPost, url+"//odd/path?q=%20", strings.NewReader(body))
		require.NoError(t, err)
		req.Host = "model.example"
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 200, resp.StatusCode)
		assert.True(t, string(got) == body, "%d bytes", len(body))
	}
}

// A shutdown lets a stream finish, and takes no new request.
func TestGatewayShutdown(t *testing.T) {
	next := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return // somebody who looks for metrics
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			_, _ = io.WriteString(w, "data: {}\n\n")
			w.(http.Flusher).Flush()
			<-next
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	defer slow.Close()
	url, stop := start(t, "-endpoint", slow.URL)
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	_, err = lines.ReadString('\n')
	require.NoError(t, err)
	stopped := make(chan error)
	go func() { stopped <- stop() }()
	require.Eventually(t, func() bool {
		_, err := http.Get(url + "/health")
		return err != nil
	}, 10*time.Second, time.Millisecond, "no new request")
	for range 3 {
		next <- struct{}{}
	}
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(string(rest), "data: [DONE]\n\n"))
	require.NoError(t, <-stopped)
}

func TestGatewayKeepsItsSessions(t *testing.T) {
	engine := simulate(t, fakevllm.Config{Ranks: 4})
	file := filepath.Join(t.TempDir(), "sessions")
	homes := map[string]string{}
	for round := range 3 {
		url, stop := start(t, "-endpoint", engine, "-sessions", file, "-debug-headers")
		for i := range 8 {
			id := fmt.Sprint("s", i)
			_, header, _ := ask(t, url+"/v1/chat/completions", http.Header{"X-Session-Id": {id}}, fmt.Sprintf(chat, "hello"))
			if round == 0 {
				homes[id] = header.Get(warmroute.ReplicaHeader)
				continue
			}
			assert.Equal(t, "sticky", header.Get(warmroute.OutcomeHeader))
			assert.Equal(t, homes[id], header.Get(warmroute.ReplicaHeader))
		}
		require.NoError(t, stop())
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	require.NoError(t, os.WriteFile(file, []byte("damaged"), 0o600))
	url, stop := start(t, "-endpoint", engine, "-sessions", file, "-debug-headers")
	_, header, _ := ask(t, url+"/v1/chat/completions", http.Header{"X-Session-Id": {"s0"}}, fmt.Sprintf(chat, "hello"))
	assert.Equal(t, "placed", header.Get(warmroute.OutcomeHeader), "a damaged file does not keep the gateway from starting")
	require.NoError(t, stop())
	kept, err := os.ReadFile(file + ".damaged")
	require.NoError(t, err)
	assert.Equal(t, "damaged", string(kept), "nor is it lost")

	url, stop = start(t, "-endpoint", engine, "-sessions", filepath.Join(t.TempDir(), "no", "such", "folder"))
	require.NotEmpty(t, url)
	require.ErrorContains(t, stop(), "sessions not saved")
}

func TestFlags(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"-endpoint a:8000", `URL: "a:8000" refused`},
		{"-endpoint http://u:secret@a:8000", `URL: "http://xxxxx@a:8000" refused`},
		{"-endpoint http://a,ranks=0", `ranks: "0" refused`},
		{"-endpoint http://a -endpoint http://a", "configured already"},
		{"-spill 0", `spill: "0" refused`},
		{"-spill -4", `spill: "-4" refused`},
		{"-spill some", `spill: "some" refused`},
		{"-affinity maybe", `"maybe" is neither on nor off`},
		{"-session-ttl 0s", `session-ttl: "0s" refused`},
		{"-session-ttl soon", "invalid value"},
		{"-max-num-seqs 0", `max-num-seqs: "0" refused`},
		{"-session-header a:b", `session-header: "a:b" refused`},
		{"-nonsense", "not defined"},
		{"extra", `unexpected argument "extra"`},
		{"-listen 127.0.0.1:99999", "invalid port"},
	} {
		var out bytes.Buffer
		args := append([]string{"-endpoint", "http://127.0.0.1:1"}, strings.Fields(tc.args)...)
		err := run(t.Context(), args, io.Discard, &out)
		require.Error(t, err, tc.args)
		assert.ErrorContains(t, err, tc.want)
		assert.NotContains(t, err.Error()+out.String(), "secret")
	}
	require.ErrorContains(t, run(t.Context(), []string{"-h"}, io.Discard, io.Discard), "help requested")
}
