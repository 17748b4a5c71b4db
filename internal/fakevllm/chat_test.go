package fakevllm_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// forty is the text of 40 tokens. As a user's message it makes a prompt of
// 3 + 40 + 2 + 4 = 49 tokens: three full blocks of 16 and a last token.
const forty = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" +
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" +
	"0123456789abcdef0123456789abcdef"

const fortyMessages = `"messages":[{"role":"user","content":"` + forty + `"}]`

func TestChat(t *testing.T) {
	cfg := fast()
	cfg.Ranks = 2
	s := start(t, cfg)
	body := `{"model":"sim",` + fortyMessages + `,"max_tokens":2}`
	const want = `{"id":"chatcmpl-ID","object":"chat.completion","created":0,"model":"sim","choices":[{"index":0,"message":{"role":"assistant","content":"words","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"routed_experts":null}],"service_tier":null,"system_fingerprint":"vllm-0.26.0-dp2-HASH","usage":{"prompt_tokens":49,"total_tokens":51,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":`
	const wantEnd = `,"created_cache_tokens":0,"multimodal_tokens":null}},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}`

	status, got := post(t, s, ask{rank: "0", body: body})
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, want+"0"+wantEnd, masked(got))
	_, got = post(t, s, ask{rank: "0", body: body})
	assert.Equal(t, want+"48"+wantEnd, masked(got))
}

func TestChatStream(t *testing.T) {
	const head = `data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":0,"model":"sim","choices":[`
	tests := map[string]struct {
		options string
		details bool
		want    string
	}{
		"plain": {
			want: lines(
				head+`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}`, "",
				head+`{"index":0,"delta":{"content":"words"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`, "",
				head+`{"index":0,"delta":{"content":"words"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}],"system_fingerprint":"vllm-0.26.0-HASH"}`, "",
				`data: [DONE]`, "",
			),
		},
		"usage": {
			options: `,"stream_options":{"include_usage":true}`,
			details: true,
			want: lines(
				head+`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}`, "",
				head+`{"index":0,"delta":{"content":"words"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`, "",
				head+`{"index":0,"delta":{"content":"words"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]}`, "",
				head+`],"usage":{"prompt_tokens":49,"total_tokens":51,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":0}},"system_fingerprint":"vllm-0.26.0-HASH"}`, "",
				`data: [DONE]`, "",
			),
		},
		"usage in every chunk, no details": {
			options: `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`,
			want: lines(
				head+`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":49,"total_tokens":49,"completion_tokens":0},"prompt_token_ids":null,"prompt_text":null}`, "",
				head+`{"index":0,"delta":{"content":"words"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":49,"total_tokens":50,"completion_tokens":1}}`, "",
				head+`{"index":0,"delta":{"content":"words"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}],"usage":{"prompt_tokens":49,"total_tokens":51,"completion_tokens":2}}`, "",
				head+`],"usage":{"prompt_tokens":49,"total_tokens":51,"completion_tokens":2},"system_fingerprint":"vllm-0.26.0-HASH"}`, "",
				`data: [DONE]`, "",
			),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := fast()
			cfg.Ranks, cfg.NoUsageDetails = 1, !test.details
			s := start(t, cfg)
			resp, err := s.RoundTrip(ask{body: `{"stream":true,` + fortyMessages + `,"max_completion_tokens":2,"max_tokens":9` + test.options + `}`}.request(t))
			assert.NoError(t, err)
			assert.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
			assert.Equal(t, test.want, masked(readAll(t, resp)))
		})
	}
}

func TestChatWithoutDetails(t *testing.T) {
	cfg := fast()
	cfg.NoUsageDetails = true
	s := start(t, cfg)
	_, body := post(t, s, ask{body: `{` + fortyMessages + `,"max_tokens":1}`})
	assert.Contains(t, body, `"usage":{"prompt_tokens":49,"total_tokens":50,"completion_tokens":1,"prompt_tokens_details":null}`)
}

func TestAnswerLength(t *testing.T) {
	tests := map[string]struct {
		byItself int
		limit    string
		tokens   string
		reason   string
	}{
		"no limit":               {0, "", `"completion_tokens":64,`, `"finish_reason":"stop"`},
		"a limit":                {0, `,"max_tokens":70`, `"completion_tokens":70,`, `"finish_reason":"length"`},
		"null":                   {0, `,"max_tokens":null`, `"completion_tokens":64,`, `"finish_reason":"stop"`},
		"whole float":            {0, `,"max_tokens":5.0`, `"completion_tokens":5,`, `"finish_reason":"length"`},
		"digits":                 {0, `,"max_tokens":"6"`, `"completion_tokens":6,`, `"finish_reason":"length"`},
		"ends before the limit":  {20, `,"max_tokens":70`, `"completion_tokens":20,`, `"finish_reason":"stop"`},
		"ends without a limit":   {20, ``, `"completion_tokens":20,`, `"finish_reason":"stop"`},
		"the limit comes before": {20, `,"max_tokens":20`, `"completion_tokens":20,`, `"finish_reason":"length"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := fast()
			cfg.AnswerTokens = test.byItself
			_, body := post(t, start(t, cfg), ask{body: `{` + fortyMessages + test.limit + `}`})
			assert.Contains(t, body, test.tokens)
			assert.Contains(t, body, test.reason)
		})
	}

	t.Run("no limit and little room", func(t *testing.T) {
		cfg := fast()
		cfg.MaxModelLen = 59
		_, body := post(t, start(t, cfg), ask{body: `{` + fortyMessages + `}`})
		assert.Contains(t, body, `"completion_tokens":10,`)
		assert.Contains(t, body, `"finish_reason":"length"`)
	})
}

func TestContentForms(t *testing.T) {
	// The same conversation, told in other words of the API, is the same prompt.
	cfg := fast()
	cfg.Ranks = 1
	cfg.BlockSize, cfg.Blocks = 1, 1000
	tests := map[string][2]string{
		"string and part": {
			`[{"role":"user","content":"hello there"}]`,
			`[{"role":"user","content":[{"type":"text","text":"hello there"}]}]`,
		},
		"cache_control does not count": {
			`[{"role":"user","content":[{"type":"text","text":"hello","cache_control":{"type":"ephemeral"}}]}]`,
			`[{"role":"user","content":[{"type":"text","text":"hello"}]}]`,
		},
		"null content": {
			`[{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":"ok"}]`,
			`[{"role":"assistant","tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":["ok"]}]`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := start(t, cfg)
			post(t, s, ask{body: `{"messages":` + test[0] + `,"max_tokens":1}`})
			before := s.Rank(0)
			post(t, s, ask{body: `{"messages":` + test[1] + `,"max_tokens":1}`})
			after := s.Rank(0)
			assert.Equal(t, 2*before.PromptTokens, after.PromptTokens)
			assert.Equal(t, before.PromptTokens-1, after.CachedTokens, "all but the last token")
		})
	}
}

func TestSaltSeparatesCaches(t *testing.T) {
	cfg := fast()
	cfg.Ranks = 1
	s := start(t, cfg)
	for _, test := range []struct{ salt, cached string }{
		{`"a"`, `"cached_tokens":0`}, {`"b"`, `"cached_tokens":0`}, {`null`, `"cached_tokens":0`},
		{`"a"`, `"cached_tokens":48`}, {`null`, `"cached_tokens":48`},
	} {
		_, body := post(t, s, ask{body: `{` + fortyMessages + `,"max_tokens":1,"cache_salt":` + test.salt + `}`})
		assert.Contains(t, body, test.cached)
	}
}
