package affinity_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/affinity"
)

// body is a request body's fields by path.
type body map[string]string

func (b body) field(path string) string { return b[path] }

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

const uuid = "0f3c9f6e-2a3b-4c5d-8e9f-001122334455"

func TestDefaultKey(t *testing.T) {
	for name, tc := range map[string]struct {
		header http.Header
		body   body
		want   affinity.Key
	}{
		"nothing":                    {},
		"Claude Code, main agent":    {header: header("x-claude-code-session-id", uuid), want: affinity.Key{Session: uuid}},
		"Claude Code, sub-agent":     {header: header("x-claude-code-session-id", uuid, "x-claude-code-agent-id", "a1"), want: affinity.Key{Session: uuid + "/a1", Parent: uuid}},
		"Claude Code, second level":  {header: header("x-claude-code-session-id", uuid, "x-claude-code-agent-id", "a2", "x-claude-code-parent-agent-id", "a1"), want: affinity.Key{Session: uuid + "/a2", Parent: uuid + "/a1"}},
		"agent without session":      {header: header("x-claude-code-agent-id", "a1")},
		"generic header":             {header: header("x-session-id", "s"), want: affinity.Key{Session: "s"}},
		"native before generic":      {header: header("x-session-id", "s", "x-claude-code-session-id", uuid), want: affinity.Key{Session: uuid}},
		"header before body":         {header: header("x-session-id", "s"), body: body{"metadata.user_id": `{"session_id":"b"}`}, want: affinity.Key{Session: "s"}},
		"too long is absent":         {header: header("x-session-id", strings.Repeat("x", affinity.MaxKeyLen+1)), body: body{"metadata.user_id": `{"session_id":"b"}`}, want: affinity.Key{Session: "b"}},
		"long enough":                {header: header("x-session-id", strings.Repeat("x", affinity.MaxKeyLen)), want: affinity.Key{Session: strings.Repeat("x", affinity.MaxKeyLen)}},
		"user_id as JSON":            {body: body{"metadata.user_id": `{"device_id":"d","account_uuid":"","session_id":"` + uuid + `"}`}, want: affinity.Key{Session: uuid}},
		"user_id as JSON, spaced":    {body: body{"metadata.user_id": ` {"session_id" : "` + uuid + `"}`}, want: affinity.Key{Session: uuid}},
		"user_id without session":    {body: body{"metadata.user_id": `{"device_id":"d","account_uuid":"a"}`}},
		"user_id as broken JSON":     {body: body{"metadata.user_id": `{"session_id":"x`}},
		"user_id, session a number":  {body: body{"metadata.user_id": `{"session_id":7}`}},
		"user_id, old form":          {body: body{"metadata.user_id": "user_" + strings.Repeat("ab", 32) + "_account__session_" + uuid}, want: affinity.Key{Session: uuid}},
		"user_id, old, no session":   {body: body{"metadata.user_id": "user_" + strings.Repeat("ab", 32) + "_account_" + uuid}},
		"user_id, old, not an id":    {body: body{"metadata.user_id": "user_x_account__session_not hex"}},
		"user_id, old, empty":        {body: body{"metadata.user_id": "user_x_account__session_"}},
		"a user is not a session":    {body: body{"user": "u", "safety_identifier": "u", "metadata.user_id": "u@example.org"}},
		"ids of users and requests":  {header: header("x-user-id", "u", "x-request-id", "r", "x-correlation-id", "c", "x-trace-id", "t", "traceparent", "00-1-2-03", "authorization", "Bearer k", "x-tenant-id", "t")},
		"Claude Code before Codex":   {header: header("thread-id", "t", "x-claude-code-session-id", uuid), want: affinity.Key{Session: uuid}},
		"Codex, main thread":         {header: header("thread-id", "t", "session-id", "t"), want: affinity.Key{Session: "t"}},
		"Codex, sub-agent":           {header: header("thread-id", "u", "session-id", "t", "x-openai-subagent", "review"), want: affinity.Key{Session: "u", Parent: "t"}},
		"Codex, second level":        {header: header("thread-id", "v", "session-id", "t", "x-codex-parent-thread-id", "u"), want: affinity.Key{Session: "v", Parent: "u"}},
		"Codex 0.130":                {header: header("thread_id", "u", "session_id", "t"), want: affinity.Key{Session: "u", Parent: "t"}},
		"Codex, session alone":       {header: header("session-id", "t"), want: affinity.Key{Session: "t"}},
		"Codex 0.130, session":       {header: header("session_id", "t"), want: affinity.Key{Session: "t"}},
		"Codex behind LiteLLM":       {header: header("x-codex-window-id", "t:7", "x-codex-parent-thread-id", "s", "x-client-request-id", "t"), want: affinity.Key{Session: "t", Parent: "s"}},
		"Codex window, no number":    {header: header("x-codex-window-id", "t"), want: affinity.Key{Session: "t"}},
		"Codex window, nothing":      {header: header("x-codex-window-id", ":1")},
		"Codex before its cache key": {header: header("thread-id", "u"), body: body{"prompt_cache_key": "t"}, want: affinity.Key{Session: "u"}},
		"Codex parent alone":         {header: header("x-codex-parent-thread-id", "u")},
		"OpenCode":                   {header: header("x-session-affinity", "ses_1", "x-session-id", "ses_1"), want: affinity.Key{Session: "ses_1"}},
		"OpenCode, child":            {header: header("x-session-affinity", "ses_2", "x-session-id", "ses_2", "x-parent-session-id", "ses_1"), want: affinity.Key{Session: "ses_2", Parent: "ses_1"}},
		"OpenCode, child, generic":   {header: header("x-session-id", "ses_2", "x-parent-session-id", "ses_1"), want: affinity.Key{Session: "ses_2", Parent: "ses_1"}},
		"OpenCode, own provider":     {header: header("x-opencode-session", "ses_1", "x-opencode-request", "r", "x-opencode-project", "p"), want: affinity.Key{Session: "ses_1"}},
		"Dynamo":                     {header: header("x-dynamo-session-id", "run:a", "x-dynamo-parent-session-id", "run", "x-session-id", "s"), want: affinity.Key{Session: "run:a", Parent: "run"}},
		"own parent":                 {header: header("x-session-id", "s", "x-parent-session-id", "s"), want: affinity.Key{Session: "s"}},
		"Cline":                      {header: header("x-task-id", "1"), want: affinity.Key{Session: "1"}},
		"Roo Code":                   {header: header("X-Roo-Task-ID", "1"), want: affinity.Key{Session: "1"}},
		"Kilo Code":                  {header: header("X-KiloCode-TaskId", "1"), want: affinity.Key{Session: "1"}},
		"Open WebUI":                 {header: header("X-OpenWebUI-Chat-Id", "1", "X-OpenWebUI-User-Id", "u", "X-OpenWebUI-Message-Id", "m"), want: affinity.Key{Session: "1"}},
		"LiteLLM":                    {header: header("x-litellm-session-id", "1", "x-litellm-trace-id", "t"), want: affinity.Key{Session: "1"}},
		"AIBrix":                     {header: header("x-aibrix-session-key", "1", "x-session-id", "10.0.0.1:8000"), want: affinity.Key{Session: "1"}},
		"SGLang":                     {header: header("X-SMG-Routing-Key", "1"), want: affinity.Key{Session: "1"}},
		"xAI":                        {header: header("x-grok-conv-id", "1"), want: affinity.Key{Session: "1"}},
		"LibreChat":                  {header: header("X-Conversation-Id", "1"), want: affinity.Key{Session: "1"}},
		"session_id":                 {body: body{"session_id": "1", "metadata.session_id": "2", "prompt_cache_key": "3"}, want: affinity.Key{Session: "1"}},
		"session_params":             {body: body{"session_params.session_id": "1"}, want: affinity.Key{Session: "1"}},
		"vllm_xargs":                 {body: body{"vllm_xargs.session_id": "1"}, want: affinity.Key{Session: "1"}},
		"litellm_session_id":         {body: body{"litellm_session_id": "cline-1"}, want: affinity.Key{Session: "cline-1"}},
		"metadata.session_id":        {body: body{"metadata.session_id": "1", "metadata.sessionId": "2"}, want: affinity.Key{Session: "1"}},
		"Qwen Code":                  {body: body{"metadata.sessionId": "1", "metadata.promptId": "p"}, want: affinity.Key{Session: "1"}},
		"Cursor":                     {body: body{"metadata.cursorConversationId": "1", "user": "u"}, want: affinity.Key{Session: "1"}},
		"conversation":               {body: body{"conversation": "conv_1", "prompt_cache_key": "k"}, want: affinity.Key{Session: "conv_1"}},
		"conversation as an object":  {body: body{"conversation.id": "conv_1"}, want: affinity.Key{Session: "conv_1"}},
		"prompt_cache_key":           {body: body{"prompt_cache_key": "k", "user": "u"}, want: affinity.Key{Session: "k"}},
		"never a session":            {header: header("ChatGPT-Account-Id", "a", "x-openwebui-user-id", "u", "x-litellm-trace-id", "t", "x-client-request-id", "r"), body: body{"metadata.promptId": "p", "client_metadata.x-codex-installation-id": "i", "previous_response_id": "resp_1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := affinity.Default()(affinity.NewRequest(tc.header, tc.body.field))
			assert.Equal(t, got.Session == "", got.Source == "", "who finds a key says where")
			got.Source = ""
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestHeaderKeysLeaveTheBodyAlone(t *testing.T) {
	r := affinity.NewRequest(header("x-session-id", "s"), func(path string) string {
		t.Errorf("body asked for %s", path)
		return ""
	})
	assert.Equal(t, affinity.Key{Session: "s", Source: "header X-Session-Id"}, affinity.Default()(r))
}

func TestKeyAllocations(t *testing.T) {
	key := affinity.Default()
	for _, name := range []string{"x-claude-code-session-id", "thread-id", "x-codex-window-id", "x-session-affinity", "x-session-id"} {
		r := affinity.NewRequest(header(name, uuid), nil)
		assert.Zero(t, testing.AllocsPerRun(100, func() { key(r) }), name)
	}
}

func TestFuncAndBody(t *testing.T) {
	key := affinity.Func("path", func(r *affinity.Request) string { return string(r.Body()) })
	r := affinity.NewRequest(nil, nil)
	assert.Zero(t, key(r), "no body, no key")
	assert.Equal(t, affinity.Key{Session: "x", Source: "path"}, key(r.WithBody(func() []byte { return []byte("x") })))
}

// The last header that is looked at, among those that a client sends.
func BenchmarkDefault(b *testing.B) {
	h := header("x-session-id", uuid, "content-type", "application/json", "accept", "*/*", "user-agent", "x", "authorization", "Bearer x",
		"x-stainless-lang", "go", "x-stainless-os", "linux", "x-stainless-arch", "x64", "accept-encoding", "gzip")
	key, r := affinity.Default(), affinity.NewRequest(h, nil)
	b.ReportAllocs()
	for b.Loop() {
		if key(r).Session != uuid {
			b.Fatal("not found")
		}
	}
}

func ExampleFirst() {
	key := affinity.First(
		affinity.Header("X-Chat-Id"),
		affinity.JSONPath("metadata.chat_id"),
		func(r *affinity.Request) affinity.Key {
			tenant, run := r.Header.Get("X-Tenant"), r.Header.Get("X-Run")
			if run == "" {
				return affinity.Key{}
			}
			return affinity.Key{Session: tenant + "/" + run}
		},
	)
	h := http.Header{}
	h.Set("X-Tenant", "blue")
	h.Set("X-Run", "42")
	fmt.Println(key(affinity.NewRequest(h, nil)).Session)
	// Output: blue/42
}
