package warmroute_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
)

// A sub-agent is a conversation of its own that begins where its parent is, as
// each client names the two.
func TestSubAgentsBeginAtHomeWithTheirParents(t *testing.T) {
	for client, tc := range map[string]struct{ main, child []string }{
		"Claude Code": {
			[]string{"X-Claude-Code-Session-Id", "m"},
			[]string{"X-Claude-Code-Session-Id", "m", "X-Claude-Code-Agent-Id", "c"},
		},
		"Claude Code, second level": {
			[]string{"X-Claude-Code-Session-Id", "m", "X-Claude-Code-Agent-Id", "a"},
			[]string{"X-Claude-Code-Session-Id", "m", "X-Claude-Code-Agent-Id", "c", "X-Claude-Code-Parent-Agent-Id", "a"},
		},
		"Codex":               {[]string{"Thread-Id", "m", "Session-Id", "m"}, []string{"Thread-Id", "c", "Session-Id", "m", "X-Openai-Subagent", "review"}},
		"Codex 0.130":         {[]string{"Thread_id", "m", "Session_id", "m"}, []string{"Thread_id", "c", "Session_id", "m"}},
		"Codex, named":        {[]string{"Thread-Id", "m", "Session-Id", "t"}, []string{"Thread-Id", "c", "Session-Id", "t", "X-Codex-Parent-Thread-Id", "m"}},
		"Codex by LiteLLM":    {[]string{"X-Codex-Window-Id", "m:0"}, []string{"X-Codex-Window-Id", "c:0", "X-Codex-Parent-Thread-Id", "m"}},
		"OpenCode":            {[]string{"X-Session-Affinity", "m"}, []string{"X-Session-Affinity", "c", "X-Parent-Session-Id", "m"}},
		"OpenCode, X-Session": {[]string{"X-Session-Id", "m"}, []string{"X-Session-Id", "c", "X-Parent-Session-Id", "m"}},
		"Dynamo":              {[]string{"X-Dynamo-Session-Id", "m"}, []string{"X-Dynamo-Session-Id", "c", "X-Dynamo-Parent-Session-Id", "m"}},
	} {
		for how, opts := range map[string][]warmroute.Option{
			"plain":  nil,
			"scoped": {warmroute.WithKey(affinity.Scoped(affinity.Default(), affinity.Header("Authorization")))},
		} {
			t.Run(client+"/"+how, func(t *testing.T) {
				router, base := newRouter(t, four(), opts...), &sink{t: t}
				send := func(pairs ...string) string {
					req := post(t, strings.NewReader(`{}`))
					req.Header.Set("Authorization", "Bearer u")
					for i := 0; i < len(pairs); i += 2 {
						req.Header[http.CanonicalHeaderKey(pairs[i])] = []string{pairs[i+1]}
					}
					_, err := router.Transport(base).RoundTrip(req)
					require.NoError(t, err)
					return base.sentTo()
				}
				for i := range 7 { // another replica is the next to be placed on
					send("X-Session-Id", fmt.Sprint("other", i))
				}
				home := send(tc.main...)
				for range 3 {
					assert.Equal(t, home, send(tc.child...))
				}
				s := router.Stats().Pools[0]
				assert.Equal(t, 9, s.Sessions)
				assert.Equal(t, warmroute.RequestStats{Placed: 9, Sticky: 2}, s.Requests)
			})
		}
	}
}

func TestUsersWithOneSessionIDAreTwoConversations(t *testing.T) {
	router, base := newRouter(t, four(), warmroute.WithKey(affinity.Scoped(affinity.Default(), affinity.Header("Authorization")))), &sink{t: t}
	homes := map[string]string{}
	for _, user := range []string{"alice", "bob", "alice", "bob"} {
		req := post(t, strings.NewReader(`{}`))
		req.Header.Set("Authorization", "Bearer "+user)
		req.Header.Set("X-Session-Id", "1")
		_, err := router.Transport(base).RoundTrip(req)
		require.NoError(t, err)
		if home := homes[user]; home != "" {
			assert.Equal(t, home, base.sentTo())
		}
		homes[user] = base.sentTo()
	}
	assert.NotEqual(t, homes["alice"], homes["bob"])
	var saved strings.Builder
	require.NoError(t, router.Save(&saved))
	assert.NotContains(t, saved.String(), "alice")
}

// A client that sends no key stays by what its conversation began with.
func TestFingerprintKeepsAConversation(t *testing.T) {
	router, base := newRouter(t, four(), warmroute.WithKey(affinity.First(affinity.Default(), affinity.Fingerprint))), &sink{t: t}
	for chat := range 6 {
		body, home := fmt.Sprintf(`{"role":"user","content":"question %d"}`, chat), ""
		for turn := range 4 {
			_, err := router.Transport(base).RoundTrip(post(t, strings.NewReader(`{"model":"m","messages":[`+body+`]}`)))
			require.NoError(t, err)
			if turn > 0 {
				assert.Equal(t, home, base.sentTo())
			}
			home = base.sentTo()
			body += `,{"role":"assistant","content":"answer"},{"role":"user","content":"more"}`
		}
	}
	assert.Equal(t, warmroute.RequestStats{Placed: 6, Sticky: 18}, router.Stats().Pools[0].Requests)
}
