package warmroutecaddy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
	"github.com/warmroute/warmroute/internal/gatewaytest"
)

// engine serves a simulated engine of that many ranks, which takes stepTime for
// a token.
func engine(t *testing.T, ranks int, stepTime time.Duration) (*fakevllm.Server, string) {
	t.Helper()
	engine, err := fakevllm.New(fakevllm.Config{
		Ranks: ranks, Version: "0.33.0", LogSize: 1000, StepTime: stepTime, ContextCost: 1, PrefillRate: 1e9,
	})
	require.NoError(t, err)
	server := httptest.NewServer(engine)
	t.Cleanup(func() {
		server.Close()
		assert.NoError(t, engine.Close())
	})
	return engine, server.URL
}

// ask sends a turn of a Claude Code session; the answer's body is the caller's.
func (s *server) ask(ctx context.Context, t *testing.T, session string, stream bool, tokens int) *http.Response {
	t.Helper()
	body := fmt.Sprintf(`{"model":"sim","stream":%v,"max_tokens":%d,"messages":[{"role":"user","content":"%s"}]}`,
		stream, tokens, strings.Repeat(session+" ", 20))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url()+"/v1/messages", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Claude-Code-Session-Id", session)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	return resp
}

// turn has a turn answered, and returns the replica and the outcome.
func (s *server) turn(t *testing.T, session string) (replica, outcome string) {
	t.Helper()
	resp := s.ask(t.Context(), t, session, false, 2)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", answer)
	return resp.Header.Get(warmroute.ReplicaHeader), resp.Header.Get(warmroute.OutcomeHeader)
}

// stats reads a page of the router's.
func (s *server) stats(t *testing.T) (stats warmroute.Stats) {
	t.Helper()
	resp, err := http.Get(s.url() + "/debug/warmroute/stats")
	require.NoError(t, err)
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", page)
	require.NoError(t, json.Unmarshal(page, &stats))
	return stats
}

// site proxies to the replicas, with the settings.
func site(replicas, settings string) string {
	return fmt.Sprintf(`
	handle_path /debug/warmroute/* {
		warmroute_stats
	}
	reverse_proxy engines {
		transport warmroute {
			%s
			debug_headers on
			%s
		}
	}`, replicas, settings)
}

func replicaLine(url string, ranks int) string {
	return fmt.Sprintf("replica %s ranks %d\n", url, ranks)
}

const sessions = 12

// homes has a turn of every session answered.
func (s *server) homes(t *testing.T, outcome string) map[string]string {
	t.Helper()
	homes := map[string]string{}
	for i := range sessions {
		session := fmt.Sprint("session-", i)
		home, got := s.turn(t, session)
		assert.Equal(t, outcome, got, session)
		homes[session] = home
	}
	return homes
}

func TestReload(t *testing.T) {
	_, first := engine(t, 4, time.Microsecond)
	_, second := engine(t, 2, time.Microsecond)
	four := replicaLine(first, 4)
	for name, test := range map[string]struct {
		before, after string // sites
		same          bool   // the router
	}{
		"nothing changed":        {site(four, ""), site(four, ""), true},
		"something else changed": {site(four, ""), site(four, "") + "\nheader X-New yes", true},
		"a setting changed":      {site(four, ""), site(four, "spill 7\nresidency off\nmax_wait 3s"), false},
		"a replica added":        {site(four, ""), site(four+replicaLine(second, 2), ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, test.before)
			homes := s.homes(t, "placed")
			since := s.stats(t).Since
			require.NoError(t, s.load(test.after))
			assert.Equal(t, homes, s.homes(t, "sticky"), "the session table is kept")
			after := s.stats(t)
			assert.Equal(t, test.same, after.Since.Equal(since), "the router")
			assert.Equal(t, sessions, after.Pools[0].Sessions)
		})
	}
}

// TestReloadRefused has the configuration in force go on.
func TestReloadRefused(t *testing.T) {
	_, url := engine(t, 2, time.Microsecond)
	s := start(t, site(replicaLine(url, 2), ""))
	homes := s.homes(t, "placed")
	since := s.stats(t).Since
	for _, refused := range []string{"session_header \"not a name\"", "errors shout", "max_queue 0"} {
		require.Error(t, s.load(site(replicaLine(url, 2), refused)))
	}
	assert.Equal(t, homes, s.homes(t, "sticky"))
	assert.True(t, s.stats(t).Since.Equal(since))
}

// TestReloadInStream has a stream go on to its end over two reloads, one that
// keeps the router and one that replaces it.
func TestReloadInStream(t *testing.T) {
	engine, url := engine(t, 2, 5*time.Millisecond)
	s := start(t, site(replicaLine(url, 2), ""))
	const tokens = 100
	resp := s.ask(t.Context(), t, "long", true, tokens)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	require.True(t, lines.Scan())
	assert.Equal(t, 1, s.stats(t).Pools[0].InFlight)

	require.NoError(t, s.load(site(replicaLine(url, 2), "")))
	assert.Equal(t, 1, s.stats(t).Pools[0].InFlight, "the router and what is in flight are kept")
	require.NoError(t, s.load(site(replicaLine(url, 2), "spill 3")))
	assert.Zero(t, s.stats(t).Pools[0].InFlight, "a router of its own")
	home, outcome := s.turn(t, "long")
	assert.Equal(t, "sticky", outcome)
	assert.Equal(t, resp.Header.Get(warmroute.ReplicaHeader), home)

	deltas, stopped := 0, false
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"text_delta"`) {
			deltas++
		}
		stopped = stopped || strings.Contains(lines.Text(), `"message_stop"`)
	}
	require.NoError(t, lines.Err())
	assert.Equal(t, tokens, deltas)
	assert.True(t, stopped)
	gatewaytest.Eventually(t, "the engine's runs have ended", func() bool {
		return engine.Rank(0).Running+engine.Rank(1).Running == 0
	})
	assert.Zero(t, engine.Rank(0).Aborted+engine.Rank(1).Aborted)
}

// TestClosesAtTheEnd has the router end with the last configuration that has it.
func TestClosesAtTheEnd(t *testing.T) {
	scraped := make(chan struct{}, 100)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case scraped <- struct{}{}:
		default:
		}
		w.WriteHeader(http.StatusOK)
	}))
	defer engine.Close()
	s := start(t, site("replica "+engine.URL, "scrape_interval 10ms"))
	<-scraped
	<-scraped // it is run
	require.NoError(t, s.load("respond ok"))
	resp, err := http.Get(s.url())
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, caddy.Stop())
	for len(scraped) > 0 {
		<-scraped
	}
	deadline := time.After(100 * time.Millisecond) // ten intervals
	select {
	case <-scraped:
		t.Error("the router was not closed")
	case <-deadline:
	}
}
