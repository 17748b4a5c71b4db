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
		"nothing":                   {},
		"Claude Code, main agent":   {header: header("x-claude-code-session-id", uuid), want: affinity.Key{Session: uuid}},
		"Claude Code, sub-agent":    {header: header("x-claude-code-session-id", uuid, "x-claude-code-agent-id", "a1"), want: affinity.Key{Session: uuid + "/a1", Parent: uuid}},
		"Claude Code, second level": {header: header("x-claude-code-session-id", uuid, "x-claude-code-agent-id", "a2", "x-claude-code-parent-agent-id", "a1"), want: affinity.Key{Session: uuid + "/a2", Parent: uuid + "/a1"}},
		"agent without session":     {header: header("x-claude-code-agent-id", "a1")},
		"generic header":            {header: header("x-session-id", "s"), want: affinity.Key{Session: "s"}},
		"native before generic":     {header: header("x-session-id", "s", "x-claude-code-session-id", uuid), want: affinity.Key{Session: uuid}},
		"header before body":        {header: header("x-session-id", "s"), body: body{"metadata.user_id": `{"session_id":"b"}`}, want: affinity.Key{Session: "s"}},
		"too long is absent":        {header: header("x-session-id", strings.Repeat("x", affinity.MaxKeyLen+1)), body: body{"metadata.user_id": `{"session_id":"b"}`}, want: affinity.Key{Session: "b"}},
		"long enough":               {header: header("x-session-id", strings.Repeat("x", affinity.MaxKeyLen)), want: affinity.Key{Session: strings.Repeat("x", affinity.MaxKeyLen)}},
		"user_id as JSON":           {body: body{"metadata.user_id": `{"device_id":"d","account_uuid":"","session_id":"` + uuid + `"}`}, want: affinity.Key{Session: uuid}},
		"user_id as JSON, spaced":   {body: body{"metadata.user_id": ` {"session_id" : "` + uuid + `"}`}, want: affinity.Key{Session: uuid}},
		"user_id without session":   {body: body{"metadata.user_id": `{"device_id":"d","account_uuid":"a"}`}},
		"user_id as broken JSON":    {body: body{"metadata.user_id": `{"session_id":"x`}},
		"user_id, session a number": {body: body{"metadata.user_id": `{"session_id":7}`}},
		"user_id, old form":         {body: body{"metadata.user_id": "user_" + strings.Repeat("ab", 32) + "_account__session_" + uuid}, want: affinity.Key{Session: uuid}},
		"user_id, old, no session":  {body: body{"metadata.user_id": "user_" + strings.Repeat("ab", 32) + "_account_" + uuid}},
		"user_id, old, not an id":   {body: body{"metadata.user_id": "user_x_account__session_not hex"}},
		"user_id, old, empty":       {body: body{"metadata.user_id": "user_x_account__session_"}},
		"a user is not a session":   {body: body{"user": "u", "safety_identifier": "u", "metadata.user_id": "u@example.org"}},
		"ids of users and requests": {header: header("x-user-id", "u", "x-request-id", "r", "x-correlation-id", "c", "x-trace-id", "t", "traceparent", "00-1-2-03", "authorization", "Bearer k", "x-tenant-id", "t")},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, affinity.Default()(affinity.NewRequest(tc.header, tc.body.field)))
		})
	}
}

func TestHeaderKeysLeaveTheBodyAlone(t *testing.T) {
	r := affinity.NewRequest(header("x-session-id", "s"), func(path string) string {
		t.Errorf("body asked for %s", path)
		return ""
	})
	assert.Equal(t, affinity.Key{Session: "s"}, affinity.Default()(r))
}

func TestKeyAllocations(t *testing.T) {
	key := affinity.Default()
	r := affinity.NewRequest(header("x-claude-code-session-id", uuid), nil)
	assert.Zero(t, testing.AllocsPerRun(100, func() { key(r) }))
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
