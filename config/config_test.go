package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/config"
)

// whole has every field that there is.
const whole = `// A gateway.
{
  "listen": "127.0.0.1:9000", /* not
     to the world */
  "endpoints": [
    {"url": "http://10.0.0.1:8000", "model": "qwen", "ranks": 4, "engine": "vllm", "host": "a.example", "api_key": {"file": "key"}, "draining": true},
    {"url": "http://10.0.0.2:8000//", "api_key": {"env": "KEY"}} // the slashes in a string are no comment
  ],
  "discovery": [
    {"dns": {"endpoint": {"url": "https://llm.example:8443", "model": "qwen"}, "network": "ip4", "interval": "5s", "timeout": "1s"}},
    {"srv": {"name": "_http._tcp.llm.example", "endpoint": {"url": "http://srv"}, "interval": "5s", "timeout": "1s"}},
    {"file": {"path": "endpoints.json", "interval": "2s", "api_key": {"env": "KEY"}}}
  ],
  "defaults": {"affinity": true, "spill": "auto", "residency": "off"},
  "pools": {
    "qwen": {"affinity": false, "spill": 64, "max_num_seqs": 256, "picker": "least-loaded", "adapters": ["sql"],
             "residency": 100000, "turnover": 0.25, "max_wait": "1m", "max_queue": 100, "shared_prefix": true},
    "": {"picker": {"name": "bounded-load", "factor": 1.5}}
  },
  "sessions": {"headers": ["X-Chat"], "ttl": "30m", "max": 1000, "response_chains": 5000, "fingerprint": true, "scope_header": "X-Tenant", "file": "sessions"},
  "clients": {"untrusted": true, "rank": "refuse", "tenant_header": "Authorization", "priority": true},
  "timeouts": {"response_header": "30s", "idle": "2m"},
  "failover": true,
  "retry": {"max_attempts": 3, "retry_sent": true, "budget": 0.2, "backoff": "50ms"},
  "breaker": {"off": false, "consecutive": 3, "failure_share": 0.4, "min_requests": 10, "window": "20s", "open_for": "2s", "max_open_for": "1m", "probes": 2},
  "health": {
    "probe": {"path": "/ready", "interval": "3s", "timeout": "1s", "fall": 2, "rise": 1},
    "dcgm": {"gpus": [{"exporter": "http://10.0.0.1:9400", "replica": "http://10.0.0.1:8000", "ranks": [0, 1], "gpu": ["0", "GPU-a8394b51"]}],
             "interval": "15s", "timeout": "4s", "stale_after": "1m", "hold": "10m"}
  },
  "slow_start": "10s", "peek_limit": 1048576, "stream_usage": true, "debug_headers": true, "scrape_interval": "2s"
}
`

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("gateway.json", []byte(text))
	require.NoError(t, err)
	return c
}

func TestWhole(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), []byte("from a file\n"), 0o600))
	c, err := config.Parse(filepath.Join(dir, "gateway.json"), []byte(whole))
	require.NoError(t, err)
	env := func(name string) (string, bool) { return "from-" + name, name == "KEY" }
	_, err = c.Build(config.Sources{ReadFile: os.ReadFile, LookupEnv: env})
	require.ErrorContains(t, err, `gateway.json:6:`)
	require.ErrorContains(t, err, `endpoints[0].api_key: the API key has other characters`)
	assert.NotContains(t, err.Error(), "from a file", "no key is shown")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), []byte("from-a-file\n"), 0o600))
	s, err := c.Build(config.Sources{ReadFile: os.ReadFile, LookupEnv: env})
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1:9000", s.Listen)
	assert.Equal(t, filepath.Join(dir, "sessions"), s.SessionsFile)
	assert.Equal(t, []warmroute.Target{
		{Endpoint: warmroute.Endpoint{URL: "http://10.0.0.1:8000", Model: "qwen", Ranks: 4, Engine: "vllm", Host: "a.example", APIKey: "from-a-file"}, Draining: true},
		{Endpoint: warmroute.Endpoint{URL: "http://10.0.0.2:8000//", APIKey: "from-KEY"}},
	}, s.Targets)
	assert.NotNil(t, s.Discoverer)
	router, err := warmroute.New(s.Endpoints(), s.RouterOptions()...)
	require.NoError(t, err)
	defer router.Close()
	for _, p := range router.Stats().Pools {
		want := warmroute.Threshold{Value: 64, Source: warmroute.SpillDefault}
		if p.Model == "qwen" {
			want.Source = warmroute.SpillFixed
		}
		assert.Equal(t, want, p.Spill, p.Model)
		assert.Equal(t, p.Model == "", p.Affinity)
	}
	require.NoError(t, router.SetPools(s.All, s.ByModel))
	require.NoError(t, router.SetEndpoints(s.Targets))
	assert.True(t, router.Replicas()[0].Draining())
}

func TestLeast(t *testing.T) {
	s, err := parse(t, `{"endpoints": [{"url": "http://a"}]}`).Build(config.Sources{})
	require.NoError(t, err)
	assert.Empty(t, s.Listen)
	assert.Nil(t, s.Discoverer)
	assert.Empty(t, s.All)
	router, err := warmroute.New(s.Endpoints(), s.RouterOptions()...)
	require.NoError(t, err)
	require.NoError(t, router.Close())
}

// insert puts a field into a configuration that is fine, in line 2.
func insert(field string) string {
	return "{\"endpoints\": [{\"url\": \"http://a\"}],\n " + field + "}"
}

// dcgm puts a field of it into line 3, gpus a second one of them.
func dcgm(field string) string {
	return insert("\"health\": {\"dcgm\": {\"gpus\": [{\"exporter\": \"http://a\"}],\n  " + field + "}}")
}

func gpus(second string) string {
	return insert("\"health\": {\"dcgm\": {\"gpus\": [{\"exporter\": \"http://a\"},\n  " + second + "]}}")
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		``:                        `gateway.json:1:1: the text ends too early`,
		"{\n  \"listen\": \":1\"": `gateway.json:2:17: the text ends too early`,
		"{\n \"a\": }":            `gateway.json:2:7: a: invalid character '}'`,
		`{} {}`:                   `gateway.json:1:4: more text behind the configuration`,
		"{} // fine\n/* and":      `gateway.json:2:1: comment does not end`,
		`[]`:                      `gateway.json:1:1: an object is wanted, not a list`,
		`{}`:                      `gateway.json:1:1: neither endpoints nor discovery`,
		"{\"listen\": \":1\",\n\"listen\": \":2\"}": `gateway.json:2:1: listen: field is there twice`,
		strings.Repeat("[", 100):                    `values lie more than 32 deep`,

		insert(`"lisen": 7`):                                                `gateway.json:2:2: lisen: unknown field; known are listen, endpoints, `,
		insert(`"pools": {"a.b": {"spil": 7}}`):                             `gateway.json:2:20: pools."a.b".spil: unknown field; known are affinity, spill`,
		insert(`"listen": 9000`):                                            `gateway.json:2:12: listen: a string is wanted, not a number`,
		insert(`"listen": "9000"`):                                          `gateway.json:2:12: listen: "9000" refused; allowed: host:port`,
		insert(`"listen": null`):                                            `gateway.json:2:12: listen: null is no value`,
		insert(`"debug_headers": "yes"`):                                    `debug_headers: a boolean is wanted, not a string`,
		insert(`"peek_limit": 1.5`):                                         `peek_limit: 1.5 is no whole number`,
		insert(`"peek_limit": 0`):                                           `gateway.json:2:16: peek_limit: "0" refused; allowed: more than 0`,
		insert(`"slow_start": "-1s"`):                                       `slow_start: "-1s" refused`,
		insert(`"slow_start": 30`):                                          `slow_start: "30" refused; allowed: a duration with its unit`,
		insert(`"sessions": {"ttl": "0s"}`):                                 `sessions.ttl: "0s" refused`,
		insert(`"sessions": {"max": 0}`):                                    `sessions.max: "0" refused`,
		insert("\"sessions\": {\"headers\": [\"a\",\n\"b:\"]}"):             `gateway.json:3:1: sessions.headers[1]: "b:" refused`,
		insert(`"clients": {"rank": "keep"}`):                               `clients.rank: "keep" refused; allowed: honour, drop or refuse`,
		insert(`"clients": {"tenant_header": "a b"}`):                       `clients.tenant_header: "a b" refused`,
		insert(`"timeouts": {"idle": "-1s"}`):                               `timeouts.idle: "-1s" refused`,
		insert(`"timeouts": {"response_header": "-1s"}`):                    `timeouts.response_header: "-1s" refused`,
		insert(`"scrape_interval": "0s"`):                                   `scrape_interval: "0s" refused`,
		insert(`"retry": {"budget": 2}`):                                    `retry.budget: "2" refused`,
		insert(`"retry": {"max_attempts": -1}`):                             `retry.max_attempts: "-1" refused`,
		insert(`"retry": {"backoff": "-1s"}`):                               `retry.backoff: "-1s" refused`,
		insert(`"breaker": {"min_requests": -2}`):                           `gateway.json:2:30: breaker.min_requests: "-2" refused`,
		insert(`"breaker": {"open_for": "1m", "max_open_for": "1s"}`):       `breaker.max_open_for: "1s" refused`,
		insert(`"sessions": {"response_chains": -1}`):                       `gateway.json:2:34: sessions.response_chains: "-1" refused; allowed: 0 or more`,
		insert(`"sessions": {"fingerprint": "on"}`):                         `sessions.fingerprint: a boolean is wanted, not a string`,
		insert(`"sessions": {"scope_header": "a b"}`):                       `gateway.json:2:31: sessions.scope_header: "a b" refused; allowed: a header's name`,
		insert(`"sessions": {"scope_header": "a", "headers": ["b", "c:"]}`): `gateway.json:2:53: sessions.headers[1]: "c:" refused; allowed: a header's name`,
		insert(`"pools": {"m": {"shared_prefix": "on"}}`):                   `pools.m.shared_prefix: a boolean is wanted`,

		insert(`"health": {}`):                             `gateway.json:2:12: health: neither probe nor dcgm`,
		insert(`"health": {"prob": {}}`):                   `health.prob: unknown field; known are probe, dcgm`,
		insert(`"health": {"probe": {"path": "ready"}}`):   `gateway.json:2:31: health.probe.path: "ready" refused`,
		insert(`"health": {"probe": {"path": "/a?b"}}`):    `health.probe.path: "/a?b" refused`,
		insert(`"health": {"probe": {"interval": "0s"}}`):  `gateway.json:2:35: health.probe.interval: "0s" refused; allowed: more than 0`,
		insert(`"health": {"probe": {"interval": "-1s"}}`): `health.probe.interval: "-1s" refused`,
		insert(`"health": {"probe": {"timeout": 0}}`):      `health.probe.timeout: "0s" refused`,
		insert(`"health": {"probe": {"timeout": "-1s"}}`):  `health.probe.timeout: "-1s" refused`,
		insert(`"health": {"probe": {"fall": 0}}`):         `health.probe.fall: "0" refused; allowed: more than 0`,
		insert(`"health": {"probe": {"fall": -1}}`):        `health.probe.fall: "-1" refused; allowed: at least 1`,
		insert(`"health": {"probe": {"rise": 0}}`):         `health.probe.rise: "0" refused`,
		insert(`"health": {"probe": {"rise": -1}}`):        `gateway.json:2:31: health.probe.rise: "-1" refused`,
		insert(`"health": {"dcgm": {}}`):                   `gateway.json:2:21: health.dcgm.gpus: "none" refused; allowed: at least one exporter`,
		dcgm(`"interval": "0s"`):                           `health.dcgm.interval: "0s" refused`,
		dcgm(`"interval": "-1s"`):                          `gateway.json:3:15: health.dcgm.interval: "-1s" refused`,
		dcgm(`"timeout": "0s"`):                            `health.dcgm.timeout: "0s" refused`,
		dcgm(`"timeout": "-1s"`):                           `health.dcgm.timeout: "-1s" refused`,
		dcgm(`"hold": "0s"`):                               `health.dcgm.hold: "0s" refused`,
		dcgm(`"hold": "-1s"`):                              `health.dcgm.hold: "-1s" refused`,
		dcgm(`"stale_after": "0s"`):                        `health.dcgm.stale_after: "0s" refused`,
		dcgm(`"interval": "1m", "stale_after": "1s"`):      `gateway.json:3:36: health.dcgm.stale_after: "1s" refused; allowed: at least the interval, 1m0s`,
		gpus(`{}`):                                      `gateway.json:3:3: health.dcgm.gpus[1].exporter: "" refused`,
		gpus(`{"exporter": "b:9400"}`):                  `gateway.json:3:16: health.dcgm.gpus[1].exporter: "b:9400" refused; allowed: http(s)://host`,
		gpus(`{"exporter": "http://u:pw@b"}`):           `health.dcgm.gpus[1].exporter: "http://b with user info`,
		gpus(`{"exporter": "http://b", "ranks": [-1]}`): `gateway.json:3:37: health.dcgm.gpus[1].ranks: "-1" refused`,
		gpus(`{"exporter": "http://b", "gpu": [""]}`):   `health.dcgm.gpus[1].gpu: "" refused; allowed: an index`,
		gpus(`{"exporter": "http://b", "gpu": [0]}`):    `gateway.json:3:36: health.dcgm.gpus[1].gpu[0]: a string is wanted, not a number`,

		insert(`"defaults": {"spill": 0}`):                                           `defaults.spill: "0" refused; allowed: auto, or`,
		insert(`"defaults": {"spill": true}`):                                        `defaults.spill: a string or a number is wanted, not a boolean`,
		insert(`"pools": {"m": {"turnover": 7}}`):                                    `pools.m.turnover: "7" refused`,
		insert(`"pools": {"m": {"residency": -1}}`):                                  `pools.m.residency: "-1" refused`,
		insert(`"pools": {"m": {"max_wait": "0s"}}`):                                 `pools.m.max_wait: "0s" refused`,
		insert(`"pools": {"m": {"max_queue": 0}}`):                                   `pools.m.max_queue: "0" refused`,
		insert(`"pools": {"m": {"max_num_seqs": 0}}`):                                `pools.m.max_num_seqs: "0" refused`,
		insert(`"pools": {"m": {"adapters": [""]}}`):                                 `pools.m.adapters[0]: "" refused`,
		insert(`"pools": {"m": {"picker": "best"}}`):                                 `pools.m.picker.name: "best" refused; allowed: default, least-loaded`,
		insert(`"pools": {"m": {"picker": {"name": "bounded-load", "factor": 1}}}`):  `gateway.json:2:63: pools.m.picker.factor: "1" refused`,
		insert(`"pools": {"m": {"picker": {"name": "soft-affinity", "margin": 1}}}`): `pools.m.picker.margin: "1" refused`,
		insert(`"pools": {"m": {"picker": {"name": "random", "margin": 0.1}}}`):      `pools.m.picker.margin: is of soft-affinity, not of random`,
		insert(`"pools": {"m": {"picker": "engine-lb"}}`):                            `pools.m.picker.version: `,

		`{"endpoints": [{"url": "a:1"}]}`:                                            `gateway.json:1:24: endpoints[0].url: "a:1" refused`,
		`{"endpoints": [{"url": "http://u:pw@a"}]}`:                                  `endpoints[0].url: "http://xxxxx@a" refused`,
		`{"endpoints": [{}]}`:                                                        `gateway.json:1:16: endpoints[0].url: "" refused`,
		`{"endpoints": [{"url": "http://a", "ranks": 0}]}`:                           `endpoints[0].ranks: "0" refused`,
		`{"endpoints": [{"url": "http://a", "ranks": 2000}]}`:                        `endpoints[0].ranks: "2000" refused`,
		`{"endpoints": [{"url": "http://a", "host": "/"}]}`:                          `endpoints[0].host: "/" refused`,
		`{"endpoints": [{"url": "http://a", "engine": "steam"}]}`:                    `endpoints[0].engine: "steam" refused; allowed: vllm`,
		`{"endpoints": [{"url": "http://a", "api_key": "secret"}]}`:                  `endpoints[0].api_key: an object is wanted`,
		`{"endpoints": [{"url": "http://a", "api_key": {}}]}`:                        `endpoints[0].api_key: neither file nor env`,
		`{"endpoints": [{"url": "http://a", "api_key": {"file": "f", "env": "e"}}]}`: `endpoints[0].api_key: both file and env`,
		"{\"endpoints\": [{\"url\": \"http://a\"},\n{\"url\": \"http://A:80/\"}]}":   `gateway.json:2:9: endpoints[1].url: endpoint is configured already: endpoints[0] is the same`,

		`{"discovery": [{}]}`:                                                                        `discovery[0]: exactly one of dns, srv and file`,
		`{"discovery": [{"dns": {}, "file": {}}]}`:                                                   `discovery[0]: exactly one of dns, srv and file`,
		`{"discovery": [{"dns": {}}]}`:                                                               `discovery[0].dns.endpoint.url: "" refused`,
		`{"discovery": [{"dns": {"endpoint": {"url": "http://10.0.0.1"}}}]}`:                         `discovery[0].dns.endpoint.url: "http://10.0.0.1" refused; allowed: one with a name`,
		`{"discovery": [{"dns": {"endpoint": {"url": "http://a"}, "network": "tcp"}}]}`:              `discovery[0].dns.network: "tcp" refused`,
		`{"discovery": [{"dns": {"endpoint": {"url": "http://a"}, "interval": "1ms"}}]}`:             `discovery[0].dns.interval: "1ms" refused`,
		`{"discovery": [{"dns": {"endpoint": {"url": "http://a"}, "interval": "0s"}}]}`:              `discovery[0].dns.interval: "0s" refused`,
		`{"discovery": [{"srv": {"endpoint": {"url": "http://a"}}}]}`:                                `discovery[0].srv.name: "" refused`,
		`{"discovery": [{"srv": {"name": "a", "endpoint": {"url": "http://a"}, "timeout": "-1s"}}]}`: `discovery[0].srv.timeout: "-1s" refused`,
		`{"discovery": [{"file": {}}]}`:                                                              `discovery[0].file.path: "" refused`,
		`{"discovery": [{"file": {"path": "x", "api_key": {}}}]}`:                                    `discovery[0].file.api_key: neither file nor env`,
	} {
		c, err := config.Parse("gateway.json", []byte(text))
		assert.Nil(t, c)
		require.Error(t, err, text)
		assert.Contains(t, err.Error(), want, text)
		var mistake *config.Error
		require.ErrorAs(t, err, &mistake, text)
		assert.Equal(t, "gateway.json", mistake.File)
		assert.NotContains(t, err.Error(), "pw", text)
	}
}

func TestMistakesAreToldTogether(t *testing.T) {
	_, err := config.Parse("g", []byte(`{"listen": 1, "nonsense": 2, "pools": {"m": {"spill": 0}}}`))
	require.Error(t, err)
	assert.Len(t, strings.Split(err.Error(), "\n"), 3)
	var refused *warmroute.ConfigError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "spill", refused.Field)
	_, err = config.Parse("g", []byte(`{`+strings.Repeat(`"x": 1, "y": 2, `, 1)+`"z": [`+strings.Repeat("1,", 99)+`1]}`))
	assert.Len(t, strings.Split(err.Error(), "\n"), 3)
}

func TestSecretsThatAreNotThere(t *testing.T) {
	c := parse(t, `{"endpoints": [{"url": "http://a", "api_key": {"file": "/no/such"}},
		{"url": "http://b", "api_key": {"env": "NOT_SET"}}], "discovery": [{"file": {"path": "f", "api_key": {"env": "NOR_THIS"}}}]}`)
	for name, from := range map[string]config.Sources{
		"none": {}, "empty": {
			ReadFile:  func(string) ([]byte, error) { return []byte("\n"), nil },
			LookupEnv: func(string) (string, bool) { return "", true }},
		"failing": {
			ReadFile:  func(string) ([]byte, error) { return nil, errors.New("no such file") },
			LookupEnv: func(string) (string, bool) { return "", false }},
	} {
		_, err := c.Build(from)
		require.ErrorContains(t, err, "endpoints[0].api_key", name)
		require.ErrorContains(t, err, "gateway.json:2:", name)
		require.ErrorContains(t, err, "NOT_SET", name)
		require.ErrorContains(t, err, "NOR_THIS", name)
	}
}

func TestFixed(t *testing.T) {
	old := parse(t, whole)
	require.NoError(t, old.Fixed(parse(t, whole), "qwen", ""))
	for _, tc := range []struct{ from, to, want string }{
		{`"listen": "127.0.0.1:9000"`, `"listen": ":9000"`, "gateway.json:3:13: listen"},
		{`"ttl": "30m"`, `"ttl": "31m"`, "sessions.ttl"},
		{`"headers": ["X-Chat"]`, `"headers": []`, "sessions.headers"},
		{`"failover": true,`, ``, "failover"},
		{`"probes": 2`, `"probes": 3`, "breaker.probes"},
		{`"debug_headers": true`, `"debug_headers": false`, "debug_headers"},
		{`"picker": "least-loaded"`, `"picker": "round-robin"`, "pools.qwen.picker"},
		{`"residency": 100000, `, ``, "defaults.residency"},
		{`"adapters": ["sql"]`, `"adapters": ["sql", "text"]`, "pools.qwen.adapters"},
		{`"max_queue": 100`, `"max_queue": 101`, "pools.qwen.max_queue"},
		{`"factor": 1.5`, `"factor": 1.6`, `pools."".picker`},
		{`"shared_prefix": true`, `"shared_prefix": false`, "pools.qwen.shared_prefix"},
		{`"response_chains": 5000`, `"response_chains": 0`, "sessions.response_chains"},
		{`"fingerprint": true`, `"fingerprint": false`, "sessions.fingerprint"},
		{`"X-Tenant"`, `"X-Team"`, "sessions.scope_header"},
		{`"fall": 2`, `"fall": 3`, "health.probe"},
		{`"hold": "10m"`, `"hold": "5m"`, "health.dcgm"},
		{`"spill": 64`, `"spill": 65`, ""},
		{`"affinity": false, `, ``, ""},
		{`"ranks": 4`, `"ranks": 8`, ""},
		{`"path": "endpoints.json"`, `"path": "others.json"`, ""},
		{`"pools": {`, `"pools": {"new": {"picker": "random", "max_queue": 7},`, ""},
	} {
		require.Contains(t, whole, tc.from)
		err := old.Fixed(parse(t, strings.Replace(whole, tc.from, tc.to, 1)), "qwen", "")
		if tc.want == "" {
			require.NoError(t, err, tc.to)
			continue
		}
		require.ErrorIs(t, err, config.ErrFixed, tc.to)
		assert.Contains(t, err.Error(), tc.want+": cannot be changed while the gateway runs")
		var one *config.Error
		require.ErrorAs(t, err, &one)
		assert.Contains(t, tc.want, one.Field)
	}
	require.NoError(t, old.Fixed(parse(t, strings.Replace(whole, `"max_queue": 100`, `"max_queue": 9`, 1)), ""), "its pool is not in use")
}

func TestDuration(t *testing.T) {
	var d config.Duration
	require.NoError(t, d.UnmarshalText([]byte("90s")))
	assert.Equal(t, config.Duration(90*time.Second), d)
	assert.Equal(t, "1m30s", d.String())
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(`{"endpoints": [{"url": "http://a"}], "pools": {"": {"picker": {"name": "random"}}}} // x`))
	f.Add([]byte(`{"a": /*`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Parse("f", text)
		if err != nil {
			var mistake *config.Error
			require.ErrorAs(t, err, &mistake)
			lines := strings.Count(string(text), "\n") + 1
			assert.True(t, mistake.Line >= 1 && mistake.Line <= lines, "%v", err)
			assert.GreaterOrEqual(t, mistake.Column, 1)
			return
		}
		require.NoError(t, c.Fixed(c, ""))
		secrets := config.Sources{ReadFile: func(string) ([]byte, error) { return []byte("k"), nil }, LookupEnv: func(string) (string, bool) { return "k", true }}
		s, err := c.Build(secrets)
		require.NoError(t, err, "what was checked can be built")
		options := s.RouterOptions()
		if s.Discoverer != nil {
			options = append(options, warmroute.WithDiscovery(s.Discoverer))
		}
		router, err := warmroute.New(s.Endpoints(), options...)
		require.NoError(t, err, "and used")
		require.NoError(t, router.Close())
	})
}
