package fakevllm_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

func TestRefusals(t *testing.T) {
	s := start(t, fakevllm.Config{Ranks: 1, MaxModelLen: 100})
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	long := strings.Repeat("word", 91)
	tests := map[string]struct {
		path, body string
		status     int
		want       string
	}{
		"unknown model":         {"", `{"model":"x",` + hi + `}`, 404, `{"error":{"message":"The model ` + "`x`" + ` does not exist.","type":"NotFoundError","param":"model","code":404}}`},
		"unknown model, stream": {"", `{"model":"x",` + hi + `,"stream":true}`, 404, `{"error":{"message":"The model ` + "`x`" + ` does not exist.","type":"NotFoundError","param":"model","code":404}}`},
		"unknown model, messages": {"/v1/messages", `{"model":"x","max_tokens":1,` + hi + `}`, 404,
			`{"type":"error","error":{"type":"NotFoundError","message":"The model ` + "`x`" + ` does not exist."}}`},
		"no model, messages":      {"/v1/messages", `{"max_tokens":1,` + hi + `}`, 400, `Model is required`},
		"no limit, messages":      {"/v1/messages", `{"model":"sim",` + hi + `}`, 400, `"param":"body.max_tokens","code":400}`},
		"zero, messages":          {"/v1/messages", `{"model":"sim","max_tokens":0,` + hi + `}`, 400, `max_tokens must be positive`},
		"bad JSON":                {"", `{"model":`, 400, `{"error":{"message":"1 validation error:\n  JSON decode error`},
		"bad JSON, messages":      {"/v1/messages", `{"model":`, 400, `{"error":{"message":"1 validation error:\n  JSON decode error`},
		"two values":              {"", `{"model":"sim",` + hi + `}{}`, 400, `JSON decode error`},
		"no body":                 {"", ``, 400, `"type":"Bad Request","param":"body","code":400}`},
		"a list":                  {"", `[]`, 400, `"param":"body","code":400}`},
		"null":                    {"", `null`, 400, `"param":"body.messages","code":400}`},
		"model of a wrong type":   {"", `{"model":5,` + hi + `}`, 400, `"param":"body.model","code":400}`},
		"stream of a wrong type":  {"", `{"stream":5,` + hi + `}`, 400, `"param":"body.stream","code":400}`},
		"no messages":             {"", `{"model":"sim"}`, 400, `"param":"body.messages","code":400}`},
		"empty conversation":      {"", `{"messages":[]}`, 400, `Cannot apply chat template to an empty conversation`},
		"no role":                 {"", `{"messages":[{"content":"hi"}]}`, 400, `"param":"body.messages.0.role","code":400}`},
		"content of a wrong type": {"", `{"messages":[{"role":"user","content":5}]}`, 400, `"type":"Bad Request"`},
		"fraction":                {"", `{` + hi + `,"max_tokens":1.5}`, 400, `"type":"Bad Request"`},
		"words for a number":      {"", `{` + hi + `,"max_tokens":"many"}`, 400, `"type":"Bad Request"`},
		"no answer wanted":        {"", `{` + hi + `,"max_tokens":0}`, 400, `{"error":{"message":"max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)","type":"BadRequestError","param":"max_tokens","code":400}}`},
		"limit beyond the model":  {"", `{` + hi + `,"max_tokens":101}`, 400, `"message":"max_tokens=101 cannot be greater than max_model_len=max_total_tokens=100.`},
		"prompt and limit beyond": {"", `{"messages":[{"role":"user","content":"` + long + `"}],"max_tokens":1}`, 400,
			`"message":"This model's maximum context length is 100 tokens. However, you requested 1 output tokens and your prompt contains at least 100 input tokens, for a total of at least 101 tokens.`},
		"prompt beyond": {"", `{"messages":[{"role":"user","content":"` + long + `"}]}`, 400, `"type":"BadRequestError","param":"input_tokens","code":400}`},
		"prompt beyond, messages": {"/v1/messages", `{"model":"sim","messages":[{"role":"user","content":"` + long + `"}],"max_tokens":1}`, 500,
			`{"type":"error","error":{"type":"internal_error","message":"This model's maximum context length is 100 tokens.`},
		"prompt beyond, responses": {"/v1/responses", `{"input":"` + long + `","max_output_tokens":1,"stream":true}`, 400, `"param":"input_tokens","code":400}`},
		"options without a stream": {"", `{` + hi + `,"stream_options":{"include_usage":true}}`, 400, `"type":"Bad Request","param":"stream_options","code":400}`},
		"empty salt":               {"", `{` + hi + `,"cache_salt":""}`, 400, `"type":"Bad Request","param":"cache_salt","code":400}`},
		"several answers":          {"", `{` + hi + `,"n":2}`, 400, `n=2 is not simulated.`},
		"no prompt":                {"/v1/completions", `{}`, 400, `"type":"Bad Request","param":"prompt","code":400}`},
		"empty prompt":             {"/v1/completions", `{"prompt":""}`, 400, `"type":"Bad Request","param":"prompt","code":400}`},
		"several prompts":          {"/v1/completions", `{"prompt":["a","b"]}`, 400, `A list of 2 prompts is not simulated.`},
		"no input":                 {"/v1/responses", `{}`, 400, `"param":"body.input","code":400}`},
		"empty input":              {"/v1/responses", `{"input":[]}`, 400, `Cannot apply chat template`},
		"stored response": {"/v1/responses", `{"input":"a","previous_response_id":"resp_1"}`, 404,
			`{"error":{"message":"Response with id 'resp_1' not found.","type":"invalid_request_error","param":"response_id","code":404}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status, body := post(t, s, ask{path: test.path, body: test.body})
			assert.Equal(t, test.status, status)
			assert.Contains(t, body, test.want)
		})
	}
	assert.Zero(t, s.Rank(0).Requests)
	assert.Zero(t, s.Rank(1), "there is no such rank")
}

func TestRouting(t *testing.T) {
	s := start(t, fakevllm.Config{})
	do := func(method, path, contentType string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://sim"+path, strings.NewReader(bodyFor("")))
		require.NoError(t, err)
		r.Header.Set("Content-Type", contentType)
		resp, err := s.RoundTrip(r)
		require.NoError(t, err)
		return resp, readAll(t, resp)
	}
	resp, body := do(http.MethodGet, "/v1/nothing", "")
	assert.Equal(t, http.StatusNotFound, resp.StatusCode)
	assert.Equal(t, `{"detail":"Not Found"}`, body)

	resp, body = do(http.MethodGet, "/v1/chat/completions", "")
	assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	assert.Equal(t, http.MethodPost, resp.Header.Get("Allow"))
	assert.Equal(t, `{"detail":"Method Not Allowed"}`, body)
	resp, _ = do(http.MethodPost, "/metrics", "")
	assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	resp, _ = do(http.MethodPost, "/ping", "")
	assert.Equal(t, http.StatusOK, resp.StatusCode)

	resp, _ = do(http.MethodGet, "/health/", "")
	assert.Equal(t, http.StatusTemporaryRedirect, resp.StatusCode)
	assert.Equal(t, "/health", resp.Header.Get("Location"))

	resp, body = do(http.MethodPost, "/v1/chat/completions", "text/plain")
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	assert.Contains(t, body, "Only 'application/json' is allowed")
	resp, _ = do(http.MethodPost, "/v1/chat/completions", "Application/JSON; charset=utf-8")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestClosedServerAnswersLikeADeadEngine(t *testing.T) {
	s, err := fakevllm.New(fakevllm.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for path, want := range map[string]int{
		"/health": http.StatusServiceUnavailable, "/version": http.StatusOK, "/metrics": http.StatusOK,
	} {
		assert.Equal(t, want, serve(s, http.MethodGet, path, ""), path)
	}
	assert.Equal(t, http.StatusInternalServerError, serve(s, http.MethodPost, "/v1/messages", bodyFor("/v1/messages")))
}
