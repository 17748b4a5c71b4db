package fakevllm_test

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

// fast returns a server's configuration whose steps take no time to speak of.
func fast() fakevllm.Config {
	return fakevllm.Config{StepTime: 1, ContextCost: 1, PrefillRate: math.Inf(1)}
}

func start(t *testing.T, cfg fakevllm.Config) *fakevllm.Server {
	t.Helper()
	s, err := fakevllm.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// ask describes a request of a test.
type ask struct {
	path    string
	rank    string // header value, none if empty
	session string
	body    any // a string is sent as it is
	ctx     context.Context
}

func (a ask) request(t *testing.T) *http.Request {
	t.Helper()
	body, ok := a.body.(string)
	if !ok {
		b, err := json.Marshal(a.body)
		require.NoError(t, err)
		body = string(b)
	}
	ctx := a.ctx
	if ctx == nil {
		ctx = t.Context()
	}
	path := a.path
	if path == "" {
		path = "/v1/chat/completions"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sim"+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	if a.rank != "" {
		r.Header.Set("X-data-parallel-rank", a.rank)
	}
	if a.session != "" {
		r.Header.Set("X-Session-Id", a.session)
	}
	return r
}

// post sends a request and reads the whole answer.
func post(t *testing.T, s *fakevllm.Server, a ask) (status int, body string) {
	t.Helper()
	resp, err := s.RoundTrip(a.request(t))
	require.NoError(t, err)
	return resp.StatusCode, readAll(t, resp)
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(b)
}

func get(t *testing.T, s *fakevllm.Server, path string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://sim"+path, nil)
	require.NoError(t, err)
	resp, err := s.RoundTrip(r)
	require.NoError(t, err)
	return resp, readAll(t, resp)
}

// masked replaces what differs from run to run: ids, times and words.
func masked(body string) string {
	for _, m := range [][2]string{
		{`"(chatcmpl-|cmpl-|resp_|msg_|modelperm-|)[0-9a-f]{16}"`, `"${1}ID"`},
		{`"(created|created_at)":\d+`, `"$1":0`},
		{`"(content|text|delta)":"[a-z ]+"`, `"$1":"words"`},
		{`("vllm-[^"]*)-[0-9a-f]{8}"`, `$1-HASH"`},
	} {
		body = regexp.MustCompile(m[0]).ReplaceAllString(body, m[1])
	}
	return body
}

func lines(l ...string) string { return strings.Join(l, "\n") + "\n" }

func TestOtherEndpoints(t *testing.T) {
	s := start(t, fakevllm.Config{Version: "0.30.1", MaxModelLen: 5000})

	resp, body := get(t, s, "/health")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Empty(t, body)
	resp, body = get(t, s, "/ping")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Empty(t, body)
	resp, body = get(t, s, "/version")
	assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	assert.Equal(t, `{"version":"0.30.1"}`, body)
	_, body = get(t, s, "/v1/models")
	assert.Equal(t, `{"object":"list","data":[{"id":"sim","object":"model","created":0,"owned_by":"vllm","root":"sim","parent":null,"max_model_len":5000,`+
		`"permission":[{"id":"modelperm-ID","object":"model_permission","created":0,"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,`+
		`"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}]}]}`, masked(body))
}

func TestServerInfo(t *testing.T) {
	s := start(t, fakevllm.Config{})
	resp, _ := get(t, s, "/server_info?config_format=json")
	assert.Equal(t, http.StatusNotFound, resp.StatusCode)

	s = start(t, fakevllm.Config{DevMode: true, MaxNumSeqs: 9})
	_, body := get(t, s, "/server_info?config_format=json")
	var info struct {
		Config struct {
			Scheduler struct {
				MaxNumSeqs int `json:"max_num_seqs"`
			} `json:"scheduler_config"`
		} `json:"vllm_config"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &info))
	assert.Equal(t, 9, info.Config.Scheduler.MaxNumSeqs)

	_, body = get(t, s, "/server_info")
	assert.Contains(t, body, `{"vllm_config":"model='sim'`)
	resp, _ = get(t, s, "/server_info?config_format=yaml")
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
}

func TestCloseEndsRequestsAndGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := fakevllm.New(fakevllm.Config{})
		require.NoError(t, err)
		running, err := s.RoundTrip(ask{body: `{"messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":10000}`}.request(t))
		require.NoError(t, err)
		whole := make(chan string)
		go func() {
			resp, err := s.RoundTrip(ask{body: `{"messages":[{"role":"user","content":"ho"}],"max_tokens":10000}`}.request(t))
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusInternalServerError, resp.StatusCode)
				whole <- readAll(t, resp)
			}
		}()
		// One whose body never comes.
		pr, pw := io.Pipe()
		go func() {
			r := ask{body: ""}.request(t)
			r.Body = pr
			resp, err := s.RoundTrip(r)
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
			}
		}()
		time.Sleep(time.Second)
		require.NoError(t, s.Close())

		const dead = `{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}}`
		assert.Equal(t, dead, <-whole)
		assert.True(t, strings.HasSuffix(readAll(t, running), "data: "+dead+"\n\ndata: [DONE]\n\n"))
		_, err = pw.Write([]byte("x"))
		assert.ErrorIs(t, err, io.ErrClosedPipe)

		failed := 0
		for rank := range 4 {
			c := s.Rank(rank)
			failed += c.Failed
			assert.Equal(t, c.Blocks, c.FreeBlocks)
			assert.Zero(t, c.Running+c.Waiting)
		}
		assert.Equal(t, 2, failed)

		require.NoError(t, s.Close(), "Close is idempotent")
		_, err = s.RoundTrip(ask{body: "{}"}.request(t))
		assert.ErrorIs(t, err, http.ErrServerClosed)
		// A goroutine that was left would make the bubble's end panic.
	})
}

func TestConfigIsChecked(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  fakevllm.Config
		want string
	}{
		"ranks":       {fakevllm.Config{Ranks: -1}, "Ranks is -1"},
		"blocks":      {fakevllm.Config{Blocks: 1}, "Blocks is 1"},
		"block size":  {fakevllm.Config{BlockSize: -16}, "BlockSize is -16"},
		"sequences":   {fakevllm.Config{MaxNumSeqs: -2}, "MaxNumSeqs is -2"},
		"budget":      {fakevllm.Config{MaxBatchedTokens: -3}, "MaxBatchedTokens is -3"},
		"rate":        {fakevllm.Config{PrefillRate: -1}, "PrefillRate is -1"},
		"no rate":     {fakevllm.Config{PrefillRate: math.NaN()}, "PrefillRate is NaN"},
		"step":        {fakevllm.Config{StepTime: -time.Second}, "StepTime is -1s"},
		"context":     {fakevllm.Config{ContextCost: -time.Second}, "ContextCost is -1s"},
		"answer":      {fakevllm.Config{AnswerTokens: -1}, "AnswerTokens is -1"},
		"log":         {fakevllm.Config{LogSize: -1}, "LogSize is -1"},
		"version":     {fakevllm.Config{Version: "latest"}, `Version is "latest"`},
		"length":      {fakevllm.Config{MaxModelLen: -1}, "MaxModelLen is -1"},
		"long":        {fakevllm.Config{Blocks: 10, BlockSize: 10, MaxModelLen: 91}, "MaxModelLen is 91, want 2 to 90"},
		"hardly room": {fakevllm.Config{Blocks: 2, BlockSize: 1}, "MaxModelLen is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fakevllm.New(test.cfg)
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func TestLogKeepsTheLastRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := fast()
		cfg.LogSize, cfg.Ranks = 2, 2
		s := start(t, cfg)
		for _, session := range []string{"a", "b", "c"} {
			post(t, s, ask{session: session, rank: "1", body: `{"messages":[{"role":"user","content":"0123456789abcdef0123456789abcdef0123456789abcdef"}],"max_tokens":3}`})
		}
		runs := s.Log()
		require.Len(t, runs, 2)
		assert.Equal(t, "b", runs[0].Session)
		last := runs[1]
		assert.Equal(t, "c", last.Session)
		assert.Equal(t, "/v1/chat/completions", last.Path)
		assert.Equal(t, 1, last.Rank)
		assert.Equal(t, 3+12+2+4, last.PromptTokens)
		assert.Equal(t, 16, last.CachedTokens)
		assert.Equal(t, 3, last.GenerationTokens)
		assert.Equal(t, "length", last.FinishReason)
		assert.True(t, last.Arrived.Before(last.FirstToken) && last.FirstToken.Before(last.Ended))

		assert.Empty(t, start(t, fast()).Log())
	})
}

// lineWith returns the line of a page that begins with a text, "" if there is
// none.
func lineWith(page, begin string) string {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, begin) {
			return line
		}
	}
	return ""
}
