package warmroute

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/affinity"
)

// inspected is what routing is told of a request, whose body must come through
// as it was.
func inspected(t *testing.T, path, encoding string, header http.Header, body string, opts ...Option) Request {
	t.Helper()
	r, err := New([]Endpoint{{URL: "http://a"}}, opts...)
	require.NoError(t, err)
	defer r.Close()
	raw := body
	if encoding == "gzip" {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := io.WriteString(z, body)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		raw = packed.String()
	}
	req, err := http.NewRequest(http.MethodPost, "http://a"+path, struct{ io.Reader }{strings.NewReader(raw)})
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for name, v := range header {
		req.Header[name] = v
	}
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	route, out, err := r.inspect(req, false)
	require.NoError(t, err)
	sent, err := io.ReadAll(out)
	require.NoError(t, err)
	require.True(t, raw == string(sent), "byte for byte")
	return route
}

func TestMaxTokensOfTheBody(t *testing.T) {
	const chat, completions, messages = "/v1/chat/completions", "/v1/completions", "/v1/messages"
	for name, tc := range map[string]struct {
		path, body string
		want       int
	}{
		"chat":                 {chat, `{"max_completion_tokens":7}`, 7},
		"chat, old name":       {chat, `{"max_tokens":7}`, 7},
		"chat, both":           {chat, `{"max_tokens":5,"max_completion_tokens":7}`, 7},
		"chat, null and old":   {chat, `{"max_completion_tokens":null,"max_tokens":5}`, 5},
		"chat, last counts":    {chat, `{"max_tokens":5,"max_tokens":6}`, 6},
		"completions":          {completions, `{"max_tokens":7,"max_completion_tokens":9}`, 7},
		"messages":             {messages, `{"messages":[{"max_tokens":1}],"max_tokens":7}`, 7},
		"responses":            {responsesAPI, `{"max_output_tokens":7,"max_tokens":9}`, 7},
		"below another prefix": {"/team" + chat, `{"max_tokens":7}`, 7},
		"none":                 {chat, `{}`, 0},
		"a string":             {chat, `{"max_tokens":"7"}`, 0},
		"a fraction":           {chat, `{"max_tokens":7.5}`, 0},
		"negative":             {chat, `{"max_tokens":-7}`, 0},
		"too large":            {chat, `{"max_tokens":99999999999999999999}`, 0},
		"inside something":     {chat, `{"metadata":{"max_tokens":7}}`, 0},
		"another API":          {"/v1/embeddings", `{"max_tokens":7}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, inspected(t, tc.path, "", nil, tc.body).MaxTokens)
		})
	}
	header := http.Header{"X-Session-Id": {"s"}}
	assert.Zero(t, inspected(t, chat, "", header, `{"max_tokens":7}`).MaxTokens, "a body is not read for it")
}

func TestBodiesThatAreCompressed(t *testing.T) {
	const path = "/v1/chat/completions"
	body := `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 100_000) + `"}],"max_tokens":7,"session_id":"s"}`
	for _, encoding := range []string{"gzip", "identity", ""} {
		got := inspected(t, path, encoding, nil, body)
		assert.Equal(t, "s", got.Session, encoding)
		assert.Equal(t, 7, got.MaxTokens, encoding)
	}
	for _, encoding := range []string{"zstd", "br", "gzip, zstd", "deflate"} {
		assert.Empty(t, inspected(t, path, encoding, nil, body).Session, "%s passes unread", encoding)
	}
	// What conversations share is found in the text, whatever the key is in.
	got := inspected(t, path, "gzip", http.Header{"X-Session-Id": {"s"}}, body, WithSharedPrefix(true))
	assert.Equal(t, body, string(got.Body))
	assert.Empty(t, inspected(t, path, "zstd", nil, body, WithSharedPrefix(true)).Body)

	// Usage is asked for in bodies that are plain only, and the fingerprint is of
	// the text.
	opts := []Option{WithStreamUsage(true), WithKey(affinity.Fingerprint)}
	chat := `{"messages":[{"role":"user","content":"hello"}],"stream":true}`
	key := inspected(t, path, "gzip", nil, chat, opts...).Session
	assert.NotEmpty(t, key)
	assert.Equal(t, inspected(t, path, "", nil, chat, WithKey(affinity.Fingerprint)).Session, key)

	// What unpacks to more than the limit is routed by what came before it.
	bomb := `{"session_id":"s","a":"` + strings.Repeat("x", 1<<20) + `","session_id":"t"}`
	assert.Equal(t, "s", inspected(t, path, "gzip", nil, bomb, WithPeekLimit(10_000)).Session)
}

// Of two attempts at one body the second finds what the first did.
func TestCompressedBodyWithTheModelFirst(t *testing.T) {
	key := func(r *affinity.Request) affinity.Key {
		if r.Field("model") != "m" {
			return affinity.Key{}
		}
		return affinity.Key{Session: r.Field("user_session")}
	}
	body := `{"model":"m","messages":["` + strings.Repeat("x", 100_000) + `"],"user_session":"s"}`
	assert.Equal(t, "s", inspected(t, "/v1/chat/completions", "gzip", nil, body, WithKey(key)).Session)
}
