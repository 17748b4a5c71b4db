package warmroutecaddy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	warmroutecaddy "github.com/warmroute/warmroute/integrations/caddy"
)

// unmarshal reads a block of the Caddyfile.
func unmarshal(block string) (*warmroutecaddy.Transport, error) {
	t := new(warmroutecaddy.Transport)
	return t, t.UnmarshalCaddyfile(caddyfile.NewTestDispenser(block))
}

// TestCaddyfile has every setting read, and written as JSON that is read as the same.
func TestCaddyfile(t *testing.T) {
	got, err := unmarshal(`warmroute coders {
		replica http://10.0.0.1:8000
		replica http://10.0.0.2:8000 ranks 4 model m engine vllm
		affinity off
		spill 7
		max_num_seqs 64
		residency 20000
		turnover 0.25
		max_wait 90s
		max_queue 12
		request_priority on
		tenant_header Authorization
		session_header X-Chat
		session_header X-Thread
		session_ttl 2d
		max_sessions 1000
		client_rank drop
		failover off
		peek_limit 4096
		stream_usage on
		scrape_interval 2s
		debug_headers on
		errors handle
	}`)
	require.NoError(t, err)
	spill, residency := warmroute.Spill(7), warmroute.Residency(20000)
	want := &warmroutecaddy.Transport{
		Name: "coders",
		Config: warmroutecaddy.Config{
			Replicas: []warmroute.Endpoint{
				{URL: "http://10.0.0.1:8000"}, {URL: "http://10.0.0.2:8000", Ranks: 4, Model: "m", Engine: "vllm"},
			},
			Affinity: new(false), Spill: &spill, MaxNumSeqs: new(64), Residency: &residency, Turnover: new(0.25),
			MaxWait: new(caddy.Duration(90 * time.Second)), MaxQueue: new(12), RequestPriority: true, TenantHeader: "Authorization",
			SessionHeaders: []string{"X-Chat", "X-Thread"}, SessionTTL: new(caddy.Duration(48 * time.Hour)), MaxSessions: new(1000),
			ClientRank: "drop", Failover: new(false), PeekLimit: new(int64(4096)), StreamUsage: true,
			ScrapeInterval: new(caddy.Duration(2 * time.Second)), DebugHeaders: true,
		},
		Errors: warmroutecaddy.HandleErrors,
	}
	assert.Equal(t, want, got)

	spelled, err := json.Marshal(got)
	require.NoError(t, err)
	assert.Contains(t, string(spelled), `"spill":"7"`)
	read := new(warmroutecaddy.Transport)
	require.NoError(t, caddy.StrictUnmarshalJSON(spelled, read))
	assert.Equal(t, want, read)
}

func TestCaddyfileRefused(t *testing.T) {
	for block, want := range map[string]string{
		"warmroute a b":                                "wrong argument count",
		"warmroute {\n replica\n}":                     "wrong argument count",
		"warmroute {\n replica http://h ranks\n}":      "wrong argument count",
		"warmroute {\n replica http://h ranks none\n}": "leave it out to have the ranks discovered",
		"warmroute {\n replica http://h weight 3\n}":   "allowed: ranks, model, engine",
		"warmroute {\n spill\n}":                       "wrong argument count",
		"warmroute {\n spill 1 2\n}":                   "wrong argument count",
		"warmroute {\n spill 1\n spill 2\n}":           "given twice",
		"warmroute {\n spill none\n}":                  "auto, or a number of requests",
		"warmroute {\n residency 0\n}":                 "auto, off, or a number",
		"warmroute {\n affinity yes\n}":                "on or off",
		"warmroute {\n max_wait soon\n}":               "max_wait: ",
		"warmroute {\n max_queue many\n}":              "max_queue: ",
		"warmroute {\n turnover half\n}":               "turnover: ",
		"warmroute {\n sticky on\n}":                   "unknown setting of transport warmroute: sticky",
	} {
		_, err := unmarshal(block)
		assert.ErrorContains(t, err, want, block)
	}
	for _, block := range []string{"warmroute_stats a b", "warmroute_stats {\n x\n}"} {
		require.Error(t, new(warmroutecaddy.Stats).UnmarshalCaddyfile(caddyfile.NewTestDispenser(block)), block)
	}
	for _, block := range []string{"warmroute_errors a", "warmroute_errors {\n x\n}"} {
		require.Error(t, new(warmroutecaddy.Errors).UnmarshalCaddyfile(caddyfile.NewTestDispenser(block)), block)
	}
}

// TestConfigRefused names the setting when Caddy loads or validates it.
func TestConfigRefused(t *testing.T) {
	const one = "replica http://127.0.0.1:9\n"
	for settings, want := range map[string]string{
		"":                `endpoints: "none" refused`,
		"replica ftp://h": `URL: "ftp://h" refused`,
		one + one:         "endpoint is configured already",
		"replica {env.WARMROUTE_UNSET_FOR_TESTS}": "replica",
		one + "turnover 2":                        `turnover: "2" refused`,
		one + "max_sessions 0":                    `max-sessions: "0" refused`,
		one + "max_wait 0s":                       `max wait: "0s" refused`,
		one + "client_rank maybe":                 `client_rank: "maybe" refused`,
		one + "errors shout":                      `errors: "shout" refused`,
		one + "session_header \"a b\"":            `session-header: "a b" refused`,
		one + "router lent":                       `router: "lent" refused`,
		"router lent":                             `no router is provided as "lent"`,
	} {
		config, err := adapt(fmt.Sprintf("{\n admin off\n auto_https off\n storage file_system %s\n log {\n output discard\n}\n}\n"+
			"http://127.0.0.1:9 {\n reverse_proxy engines {\n transport warmroute {\n%s\n}\n}\n}", t.TempDir(), settings))
		require.NoError(t, err, settings)
		parsed := new(caddy.Config)
		require.NoError(t, json.Unmarshal(config, parsed))
		err = caddy.Validate(parsed)
		assert.ErrorContains(t, err, want, settings)
	}
}

func TestProvide(t *testing.T) {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://127.0.0.1:9"}})
	require.NoError(t, err)
	defer router.Close()
	_, err = warmroutecaddy.Provide("", router)
	require.Error(t, err)
	_, err = warmroutecaddy.Provide("lent", nil)
	require.Error(t, err)

	withdraw, err := warmroutecaddy.Provide("lent", router)
	require.NoError(t, err)
	_, err = warmroutecaddy.Provide("lent", router)
	require.ErrorContains(t, err, "already")
	s := start(t, `
		handle_path /debug/* {
			warmroute_stats lent
		}
		handle_path /none/* {
			warmroute_stats
		}
		reverse_proxy engines {
			transport warmroute {
				router lent
			}
		}`)
	withdraw()
	withdraw()
	resp, err := http.Get(s.url() + "/debug/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Contains(t, string(page), "warmroute_requests_total", "the transport has it yet")
	absent, err := http.Get(s.url() + "/none/")
	require.NoError(t, err)
	require.NoError(t, absent.Body.Close())
	assert.Equal(t, http.StatusNotFound, absent.StatusCode)

	require.NoError(t, caddy.Stop())
	again, err := warmroutecaddy.Provide("lent", router)
	require.NoError(t, err, "the name is free again")
	again()
}

// TestErrorsLeavesOthers has an error that is not of routing go on.
func TestErrorsLeavesOthers(t *testing.T) {
	s := start(t, `
		error /teapot "no coffee" 418
		error "the same status for another reason" 404
		handle_errors {
			warmroute_errors
			respond "{err.status_code} {err.message}"
		}`)
	for path, want := range map[string]string{"/teapot": "418 no coffee", "/": "404 the same status for another reason"} {
		resp, err := http.Get(s.url() + path)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, want, string(body))
	}
}

// TestHost has the engine see its own name, or the one that was asked for.
func TestHost(t *testing.T) {
	hosts := make(chan [2]string, 1)
	url := handler(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost { // not for its metrics
			hosts <- [2]string{r.Host, r.Header.Get("X-Forwarded-Host")}
		}
	})
	for settings, want := range map[string]string{"": strings.TrimPrefix(url, "http://"), "header_up Host own.example": "own.example"} {
		for _, upstream := range []string{"engines", "engines:8000"} {
			s := start(t, fmt.Sprintf("reverse_proxy %s {\n%s\ntransport warmroute {\nreplica %s ranks 1\n}\n}", upstream, settings, url))
			resp, err := http.Post(s.url()+"/v1/completions", "application/json", strings.NewReader("{}"))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, [2]string{want, s.addr}, <-hosts)
			require.NoError(t, caddy.Stop())
		}
	}
}
