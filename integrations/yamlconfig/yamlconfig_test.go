package yamlconfig_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/config"
	"github.com/warmroute/warmroute/integrations/yamlconfig"
)

const whole = `# A gateway.
listen: 127.0.0.1:9000
endpoints:
  - url: http://10.0.0.1:8000
    model: qwen
    ranks: 4
    api_key: {env: KEY}
    draining: True
  - {url: "http://10.0.0.2:8000"}
discovery:
  - dns: {endpoint: {url: http://llm.example:8000}, interval: 5s}
pools:
  qwen:
    spill: 64
    affinity: false
    turnover: 0.25
    picker: {name: bounded-load, factor: 1.5}
  "":
    spill: auto
sessions:
  headers: [X-Chat]
  ttl: 30m
`

func TestParse(t *testing.T) {
	c, err := yamlconfig.Parse("gateway.yaml", []byte(whole))
	require.NoError(t, err)
	text, err := yamlconfig.JSON("gateway.yaml", []byte(whole))
	require.NoError(t, err)
	same, err := config.Parse("gateway.json", text)
	require.NoError(t, err, string(text))
	require.NoError(t, c.Fixed(same, "", "qwen"), "JSON says the same")
	for _, c := range []*config.Config{c, same} {
		s, err := c.Build(config.Sources{LookupEnv: func(name string) (string, bool) { return "k", name == "KEY" }})
		require.NoError(t, err)
		assert.Equal(t, []warmroute.Target{
			{Endpoint: warmroute.Endpoint{URL: "http://10.0.0.1:8000", Model: "qwen", Ranks: 4, APIKey: "k"}, Draining: true},
			{Endpoint: warmroute.Endpoint{URL: "http://10.0.0.2:8000"}}}, s.Targets)
		router, err := warmroute.New(s.Endpoints(), s.RouterOptions()...)
		require.NoError(t, err)
		assert.Equal(t, 64, router.Stats().Pools[0].Spill.Value)
		require.NoError(t, router.Close())
	}
}

func TestMistakes(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for text, want := range map[string]string{
		"":                       "g.yaml:1:1: the text ends too early",
		"a: b: c":                "g.yaml:1:1: mapping values are not allowed",
		"listen: :1\n\tx: 1":     "g.yaml:2:1: ",
		"listen: :1\nlisten: :2": "g.yaml:2:1: listen: field is there twice",
		"- a":                    "g.yaml:1:1: an object is wanted, not a list",
		"endpoints:\n- url: http://a\npools:\n  m:\n    spill: 0": `g.yaml:5:12: pools.m.spill: "0" refused; allowed: auto, or`,
		"endpoints:\n- url: http://a\nlisen: x":                   "g.yaml:3:1: lisen: unknown field",
		"endpoints:\n- url: http://a\nslow_start: 30":             `g.yaml:3:13: slow_start: "30" refused`,
		"endpoints:\n- url: http://a\npeek_limit: 0x10":           "g.yaml:3:13: peek_limit: 0x10 is no whole number",
		"endpoints:\n- url: http://a\nlisten:":                    "g.yaml:3:8: listen: null is no value",
		"endpoints:\n- url: http://a\ndebug_headers: yes":         "a boolean is wanted, not a string",
		"endpoints: &e\n- url: http://a":                          "endpoints: anchors and aliases",
		"endpoints: *e":                                           "g.yaml:1:1: unknown anchor",
		"1: x":                                                    "g.yaml:1:1: a field's name must be a string",
		"endpoints: !mine x":                                      "endpoints: !mine is no value",
		"listen: 2020-01-01":                                      "listen: !!timestamp is no value",
		"endpoints: []\n---\nlisten: x":                           "g.yaml:2:1: more text",
		"x: " + deep:                                              "values lie more than 32 deep",
	} {
		_, err := yamlconfig.Parse("g.yaml", []byte(text))
		require.Error(t, err, text)
		assert.Contains(t, err.Error(), want, text)
		var mistake *config.Error
		require.ErrorAs(t, err, &mistake, text)
		_, err = yamlconfig.JSON("g.yaml", []byte(text))
		require.ErrorContains(t, err, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("a: &a [*a, *a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := yamlconfig.Parse("f", text)
		if err != nil {
			var mistake *config.Error
			require.ErrorAs(t, err, &mistake)
			assert.GreaterOrEqual(t, mistake.Line, 1)
			return
		}
		out, err := yamlconfig.JSON("f", text)
		require.NoError(t, err)
		again, err := config.Parse("f", out)
		require.NoError(t, err, "%s", out)
		require.NoError(t, c.Fixed(again, ""))
	})
}

func ExampleParse() {
	_, err := yamlconfig.Parse("gateway.yaml", []byte("endpoints:\n  - url: http://10.0.0.1:8000\n    ranks: 0\n"))
	fmt.Println(err)
	// Output: gateway.yaml:3:12: endpoints[0].ranks: "0" refused; allowed: 1 or more, or left out to be discovered
}
