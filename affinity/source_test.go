package affinity_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/affinity"
)

var update = flag.Bool("update", false, "write README.md anew")

// sourcesTable is README.md, made from the sources.
func sourcesTable() string {
	var b strings.Builder
	b.WriteString(`# How a conversation is recognized

What ` + "`affinity.Default()`" + ` looks at, first found wins. All headers come before the body, so that a body is not read where a header
names the conversation. A value that is empty or longer than ` + fmt.Sprint(affinity.MaxKeyLen) + ` bytes counts as absent.

| | client | since | where | parent | note | seen in |
|---|---|---|---|---|---|---|
`)
	for i, s := range affinity.Sources() {
		kind := "header"
		if s.Body {
			kind = "body"
		}
		where := "`" + strings.NewReplacer(", ", "`, `", " with ", "` with `").Replace(s.Where) + "`"
		fmt.Fprintf(&b, "| %d | %s | %s | %s %s | %s | %s | %s |\n", i+1, s.Client, s.Since, kind, where, s.Parent, s.Note, s.Evidence)
	}
	b.WriteString(`
Never a key, since it is one per user, device, request or trace: ` + "`user`, `safety_identifier`, the rest of `metadata.user_id`, `metadata.promptId`, " +
		"`X-User-Id`, `X-Tenant-Id`, `X-OpenWebUI-User-*`, `X-OpenWebUI-Message-Id`, `ChatGPT-Account-Id`, `x-codex-installation-id`, `Authorization`, " +
		"`X-Request-Id`, `X-Client-Request-Id`, `X-Correlation-Id`, `X-Trace-Id`, `traceparent`, `x-opencode-request`, `x-opencode-project`" + `.
` + "`X-Litellm-Trace-Id`" + ` is one per session from Cline, and one per request from LiteLLM: name it yourself where you know which it is,
` + "`affinity.First(affinity.Default(), affinity.Header(\"X-Litellm-Trace-Id\"))`" + `: Cline's provider for vLLM sends nothing else.
LiteLLM also takes ` + "`session.id`" + ` of the W3C ` + "`baggage`" + ` header, which pages that are traced send for a visit: ` + "`affinity.Baggage(\"session.id\")`" + `.

` + "`X-Session-Id`" + ` is a backend's address where AIBrix issued it, and so is llm-d's ` + "`x-session-token`" + `: have such a gateway in front take the first out.
Of Continue and Aider no key is known, Gemini CLI has its own in requests to Google only, and Qwen Code outside of DashScope sends none:
` + "`affinity.Fingerprint`" + ` is for those.

nginx drops headers with an underscore unless ` + "`underscores_in_headers on`" + ` is set. LiteLLM passes on headers that begin with ` + "`x-`" + ` only, and only
with ` + "`forward_client_headers_to_llm_api: true`" + `.

This table is made from ` + "`Sources()`" + ` by ` + "`go test ./affinity -run TestREADME -update`" + `.
`)
	return b.String()
}

func TestREADMEIsMadeFromTheSources(t *testing.T) {
	want := sourcesTable()
	if *update {
		require.NoError(t, os.WriteFile("README.md", []byte(want), 0o644))
	}
	got, err := os.ReadFile("README.md")
	require.NoError(t, err)
	assert.Equal(t, want, string(got), "run: go test ./affinity -run TestREADME -update")
}

// Each source finds what it says, alone, and nothing before it takes it away.
func TestEverySourceFindsItsKey(t *testing.T) {
	all := affinity.Default()
	for _, s := range affinity.Sources() {
		names, _, _ := strings.Cut(s.Where, " with ")
		for name := range strings.SplitSeq(names, ", ") {
			value := "an-id"
			if name == "metadata.user_id" {
				value = `{"session_id":"an-id"}`
			}
			r := affinity.NewRequest(header(name, value), nil)
			if s.Body {
				r = affinity.NewRequest(nil, body{name: value}.field)
			}
			if s.Key == nil {
				assert.Zero(t, all(r), "%s is the router's", name)
				continue
			}
			kind := "header "
			if s.Body {
				kind = "body "
			}
			want := affinity.Key{Session: "an-id", Source: kind + name}
			assert.Equal(t, want, s.Key(r))
			assert.Equal(t, want, all(r))
			assert.False(t, !s.Body && name != http.CanonicalHeaderKey(name), "%s is not canonical", name)
		}
	}
}
