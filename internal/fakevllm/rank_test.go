package fakevllm_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

// ranks returns how many requests each rank has accepted.
func ranks(s *fakevllm.Server, n int) []int {
	got := make([]int, n)
	for i := range got {
		got[i] = s.Rank(i).Requests
	}
	return got
}

func bodyFor(path string) string {
	switch path {
	case "/v1/completions":
		return `{"prompt":"hi","max_tokens":1}`
	case "/v1/responses":
		return `{"input":"hi","max_output_tokens":1}`
	default:
		return `{"model":"sim","messages":[{"role":"user","content":"hi"}],"max_tokens":1}`
	}
}

func TestRankHeader(t *testing.T) {
	const chat, completions, messages, responses = "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"
	tests := []struct {
		version, path, header string
		want                  []int // requests by rank
	}{
		{"0.26.0", chat, "2", []int{0, 0, 1}},
		{"0.26.0", completions, "2", []int{0, 0, 1}},
		{"0.26.0", messages, "2", []int{0, 0, 1}},
		{"0.26.0", responses, "2", []int{1, 0, 0}},
		{"0.33.0", responses, "2", []int{0, 0, 1}},
		{"1.0", responses, "2", []int{0, 0, 1}},
		{"0.13.0", chat, "2", []int{1, 0, 0}},
		{"0.14.0", chat, "2", []int{0, 0, 1}},
		{"0.26.0", chat, " +1 ", []int{0, 1, 0}},
		{"0.26.0", chat, "0_1", []int{0, 1, 0}},
		{"0.26.0", chat, "002", []int{0, 0, 1}},
		{"0.26.0", chat, "", []int{1, 0, 0}},
		{"0.26.0", chat, "two", []int{1, 0, 0}},
		{"0.26.0", chat, "2.0", []int{1, 0, 0}},
		{"0.26.0", chat, "2_", []int{1, 0, 0}},
		{"0.26.0", chat, "2__1", []int{1, 0, 0}},
		{"0.26.0", chat, "+-2", []int{1, 0, 0}},
		{"0.26.0", chat, "0x2", []int{1, 0, 0}},
	}
	for _, test := range tests {
		t.Run(test.version+test.path+" "+test.header, func(t *testing.T) {
			cfg := fast()
			cfg.Ranks, cfg.Version = 3, test.version
			s := start(t, cfg)
			r := ask{path: test.path, body: bodyFor(test.path)}.request(t)
			r.Header["X-Data-Parallel-Rank"] = []string{test.header, "0"}
			resp, err := s.RoundTrip(r)
			require.NoError(t, err)
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			readAll(t, resp)
			assert.Equal(t, test.want, ranks(s, 3))
		})
	}
}

func TestRankOutOfRange(t *testing.T) {
	const openai = `{"error":{"message":"data_parallel_rank 7 is out of range [0, 2).","type":"BadRequestError","param":null,"code":400}}`
	const anthropic = `{"type":"error","error":{"type":"internal_error","message":"data_parallel_rank 7 is out of range [0, 2)."}}`
	tests := []struct {
		path, body   string
		version      string
		status       int
		whole, event string
	}{
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]`, "0.26.0", 400, openai, "data: " + openai + "\n\ndata: [DONE]\n\n"},
		{"/v1/completions", `{"prompt":"hi"`, "0.26.0", 400, openai, "data: " + openai + "\n\ndata: [DONE]\n\n"},
		{"/v1/messages", `{"model":"sim","max_tokens":1,"messages":[{"role":"user","content":"hi"}]`, "0.26.0", 500, anthropic, "event: error\ndata: " + anthropic + "\n\n"},
		{"/v1/responses", `{"input":"hi"`, "0.33.0", 400, openai, `{"code":"BadRequestError","message":"data_parallel_rank 7 is out of range [0, 2).","param":null,"sequence_number":2,"type":"error"}` + "\n\n"},
	}
	for _, test := range tests {
		t.Run(test.path, func(t *testing.T) {
			s := start(t, fakevllm.Config{Ranks: 2, Version: test.version})
			status, body := post(t, s, ask{path: test.path, rank: "7", body: test.body + "}"})
			assert.Equal(t, test.status, status)
			assert.Equal(t, test.whole, body)
			status, body = post(t, s, ask{path: test.path, rank: "7", body: test.body + `,"stream":true}`})
			assert.Equal(t, http.StatusOK, status)
			assert.Contains(t, body, test.event)
			assert.Equal(t, []int{0, 0}, ranks(s, 2))
		})
	}

	s := start(t, fakevllm.Config{Ranks: 1})
	for _, rank := range []string{"1", "-1", "99999999999999999999"} {
		status, body := post(t, s, ask{rank: rank, body: bodyFor("")})
		assert.Equal(t, http.StatusBadRequest, status)
		assert.Contains(t, body, "data_parallel_rank "+rank+" is out of range [0, 1).")
	}
}

func TestServerBalances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, fakevllm.Config{Ranks: 3, MoE: true})
		// Ties rotate.
		for range 4 {
			post(t, s, ask{body: bodyFor("")})
		}
		assert.Equal(t, []int{2, 1, 1}, ranks(s, 3))
		// Requests under way count.
		for range 2 {
			stream(t, s, ask{rank: "1", body: `{"stream":true,"messages":[{"role":"user","content":"hi"}]}`})
			synctest.Wait()
		}
		for range 4 {
			stream(t, s, ask{body: `{"stream":true,"messages":[{"role":"user","content":"hi"}]}`})
			synctest.Wait()
		}
		assert.Equal(t, []int{4, 3, 3}, ranks(s, 3))
	})
}

// stream sends a request and leaves its body to the test's end.
func stream(t *testing.T, s *fakevllm.Server, a ask) *http.Response {
	t.Helper()
	resp, err := s.RoundTrip(a.request(t))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, resp.Body.Close()) })
	return resp
}
