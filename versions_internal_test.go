package warmroute

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseRelease(t *testing.T) {
	for version, want := range map[string]vllmRelease{
		"0.8.5":             8,
		"0.8.5.post1":       8,
		"0.13.0":            13,
		"0.14.0rc1":         14,
		"0.26.0+cpu":        26,
		"0.11.2+cu129.rocm": 11,
		"0.33.0":            33,
		"0.120.3":           120,

		"":                                 0,
		"dev":                              0,
		"0.1.dev1+g0123abc":                0, // a checkout without tags
		"0.13.1.dev12+g0123abc":            0, // some day between two releases
		"0.29.1rc1.dev347+gdee37d891":      0,
		"0.7.3":                            0, // not looked into
		"0.3.1":                            0, // a proxy's, perhaps
		"1.2.3":                            0,
		"0.26":                             0,
		"0.26.":                            0,
		"0.x.0":                            0,
		"0.-1.0":                           0,
		"v0.26.0":                          0,
		"2.3":                              0,
		"0.99999999999.0":                  0,
		"LiteLLM 0.13.0":                   0,
		"0.13.x":                           0,
		"00.13.0":                          0,
		"0.14.0.dev":                       0,
		"0.14.0+dev":                       14,
		"0.13.0+local.dev":                 13,
		"0.13.0.post1.dev3+g0123":          0,
		"0.\u0661.0":                       0,
		"0.14.0rc0+computecanada.20260101": 14,
	} {
		got, ok := parseRelease(version)
		assert.Equal(t, want, got, version)
		assert.Equal(t, want != 0, ok, version)
	}
}

func FuzzParseRelease(f *testing.F) {
	for _, version := range []string{"0.26.0", "0.8.5.post1", "0.13.1.dev12+g0123abc", "0.14.0rc1", "1.2", ".."} {
		f.Add(version)
	}
	f.Fuzz(func(t *testing.T, version string) {
		release, ok := parseRelease(version)
		assert.Equal(t, ok, release >= oldestKnown)
		if ok {
			again, _ := parseRelease(version + "+cpu")
			assert.Equal(t, release, again)
			_, dev := parseRelease(strings.Replace(version, "+", ".dev1+", 1) + ".dev1")
			assert.False(t, dev && !strings.Contains(version, "+"))
		}
	})
}
