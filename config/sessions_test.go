package config_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/config"
)

// chatOf is a request with the headers, and with nothing else that has a key.
func chatOf(headers map[string]string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"messages": [{"role": "user", "content": "hello"}]}`))
	for name, v := range headers {
		r.Header.Set(name, v)
	}
	return r
}

// keys returns how a router finds the key of a request, and where.
func keys(t *testing.T, options ...warmroute.Option) func(map[string]string) (key, source string) {
	t.Helper()
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a"}}, options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, router.Close()) })
	return func(headers map[string]string) (string, string) {
		r, err := router.Inspect(chatOf(headers))
		require.NoError(t, err)
		return r.Session, r.KeySource
	}
}

func configured(t *testing.T, sessions string) func(map[string]string) (key, source string) {
	t.Helper()
	s, err := parse(t, insert(`"sessions": `+sessions)).Build(config.Sources{})
	require.NoError(t, err)
	return keys(t, s.RouterOptions()...)
}

func TestSessionKeys(t *testing.T) {
	chat, tenant := affinity.Header("X-Chat"), affinity.Header("X-Tenant")
	fingerprint := affinity.First(affinity.Default(), affinity.Fingerprint)
	for sessions, key := range map[string]affinity.KeyFunc{
		`{}`:                      affinity.Default(),
		`{"fingerprint": true}`:   fingerprint,
		`{"headers": ["X-Chat"]}`: affinity.First(chat, affinity.Default()),
		`{"headers": ["X-Chat"], "fingerprint": true}`:        affinity.First(chat, fingerprint),
		`{"scope_header": "X-Tenant"}`:                        affinity.Scoped(affinity.Default(), tenant),
		`{"headers": ["X-Chat"], "scope_header": "X-Tenant"}`: affinity.Scoped(affinity.First(chat, affinity.Default()), tenant),
		`{"headers": ["X-Chat"], "fingerprint": true, "scope_header": "X-Tenant"}`: affinity.Scoped(
			affinity.First(chat, fingerprint), tenant),
	} {
		want, got := keys(t, warmroute.WithKey(key)), configured(t, sessions)
		for _, headers := range []map[string]string{
			{}, {"X-Session-Id": "s"}, {"X-Session-Id": "s", "X-Chat": "c"},
			{"X-Tenant": "a"}, {"X-Tenant": "a", "X-Session-Id": "s"}, {"X-Tenant": "a", "X-Session-Id": "s", "X-Chat": "c"},
		} {
			wantKey, wantSource := want(headers)
			gotKey, gotSource := got(headers)
			assert.Equal(t, wantKey, gotKey, "%s: %v", sessions, headers)
			assert.Equal(t, wantSource, gotSource, "%s: %v", sessions, headers)
		}
	}
}

func TestScopeHoldsForEveryKey(t *testing.T) {
	key := configured(t, `{"headers": ["X-Chat"], "fingerprint": true, "scope_header": "X-Tenant"}`)
	sources := map[string]bool{}
	for _, name := range []string{"X-Chat", "X-Session-Id", "X-Other"} {
		a, source := key(map[string]string{name: "1", "X-Tenant": "a"})
		b, _ := key(map[string]string{name: "1", "X-Tenant": "b"})
		assert.NotEmpty(t, a, name)
		assert.NotEqual(t, a, b, "%s: the tenants' conversations are apart", name)
		sources[source] = true
	}
	assert.Len(t, sources, 3)
}
