package replica_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/replica"
)

func TestParseEndpoint(t *testing.T) {
	for in, want := range map[string]replica.Endpoint{
		"http://a:8000":                          {URL: "http://a:8000"},
		"https://a/prefix/":                      {URL: "https://a/prefix/"},
		"http://a:8000,ranks=4":                  {URL: "http://a:8000", Ranks: 4},
		"http://a:8000,engine=sglang":            {URL: "http://a:8000", Engine: "sglang"},
		"http://a:8000,model=qwen3":              {URL: "http://a:8000", Model: "qwen3"},
		"http://a:8000, ranks=1024 , model= m/n": {URL: "http://a:8000", Ranks: 1024, Model: "m/n"},
		"http://[::1]:8000,ranks=2,model=a=b":    {URL: "http://[::1]:8000", Ranks: 2, Model: "a=b"},
	} {
		got, err := replica.ParseEndpoint(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got, in)
		again, err := replica.ParseEndpoint(got.String())
		require.NoError(t, err, in)
		assert.Equal(t, got, again, "%s read back", got)
	}
}

func TestParseEndpointRefuses(t *testing.T) {
	for _, tc := range []struct{ in, field, value string }{
		{"", "URL", ""},
		{"a:8000", "URL", "a:8000"},
		{"//a:8000", "URL", "//a:8000"},
		{"ftp://a", "URL", "ftp://a"},
		{"http://", "URL", "http://"},
		{"http://:8000", "URL", "http://:8000"},
		{"http://a:port", "URL", "http://a:port"},
		{"http://a:0", "URL", "http://a:0"},
		{"http://a:65536", "URL", "http://a:65536"},
		{"http://a/?x=secret", "URL", "http://a/?xxxxx"},
		{"http://a/#f", "URL", "http://a/#f"},
		{"http://a#", "URL", "http://a#"},
		{"http://user:secret@a", "URL", "http://xxxxx@a"},
		{"http://a b", "URL", "http://a b"},
		{"http://a,ranks=0", "ranks", "0"},
		{"http://a,ranks=-1", "ranks", "-1"},
		{"http://a,ranks=1025", "ranks", "1025"},
		{"http://a,ranks=two", "ranks", "two"},
		{"http://a,ranks=", "ranks", ""},
		{"http://a,ranks", "ranks", ""},
		{"http://a,model=", "model", ""},
		{"http://a,engine=", "engine", ""},
		{"http://a,weight=2", "endpoint", "weight=2"},
		{"http://a,", "endpoint", ""},
	} {
		_, err := replica.ParseEndpoint(tc.in)
		var refused *replica.ConfigError
		require.ErrorAs(t, err, &refused, tc.in)
		assert.Equal(t, tc.field, refused.Field, tc.in)
		assert.Equal(t, tc.value, refused.Value, tc.in)
		assert.NotEmpty(t, refused.Allowed, tc.in)
		assert.NotContains(t, err.Error(), "secret")
	}
}

func FuzzParseEndpoint(f *testing.F) {
	f.Add("http://a:8000,ranks=4,model=m")
	f.Add("https://[::1]/p/q")
	f.Add("http://u:p@a?q#f,ranks=")
	f.Fuzz(func(t *testing.T, s string) {
		e, err := replica.ParseEndpoint(s)
		if err != nil {
			return
		}
		set, err := replica.NewSet(e)
		require.NoError(t, err)
		r := set.Replicas()[0]
		assert.NotEmpty(t, r.URL().Host)
		require.NoError(t, set.Drain(r.Name()), "a replica is found by its name")
		require.NoError(t, set.Remove(e.URL), "an endpoint is found by its URL")
	})
}

func ExampleParseEndpoint() {
	e, err := replica.ParseEndpoint("http://10.0.0.1:8000,ranks=4,model=qwen3")
	fmt.Println(e.URL, e.Ranks, e.Model, err)
	_, err = replica.ParseEndpoint("http://10.0.0.1:8000,ranks=0")
	fmt.Println(err)
	// Output:
	// http://10.0.0.1:8000 4 qwen3 <nil>
	// warmroute: ranks: "0" refused; allowed: 1 to 1024, or left out to be discovered
}
