package metrics_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

// seen notes the Authorization of requests, and redirects those for /metrics of one host.
type seen map[string][]string

func (s seen) RoundTrip(r *http.Request) (*http.Response, error) {
	s[r.URL.Host+r.URL.Path] = append(s[r.URL.Host+r.URL.Path], r.Header.Get("Authorization"))
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("vllm:num_requests_running{engine=\"0\"} 1\n")), Request: r}
	if r.URL.Host == "moved" {
		resp.StatusCode = http.StatusFound
		resp.Header.Set("Location", "http://elsewhere/metrics")
	}
	return resp, nil
}

func TestSetAPIKey(t *testing.T) {
	s := seen{}
	scraper, err := metrics.NewScraper(metrics.Config{Client: &http.Client{Transport: s}, Dialect: metrics.VLLM()})
	require.NoError(t, err)
	bases := map[string]*url.URL{}
	for _, host := range []string{"a", "b", "moved"} {
		bases[host] = &url.URL{Scheme: "http", Host: host}
	}
	require.NoError(t, scraper.SetAPIKey(bases["a"], "ka"))
	require.NoError(t, scraper.SetAPIKey(bases["moved"], "km"))
	require.Error(t, scraper.SetAPIKey(&url.URL{Host: "a"}, "k"))
	for host, base := range bases {
		_, err := scraper.Scrape(t.Context(), base)
		assert.Equal(t, host == "moved", err != nil)
		_, _ = scraper.Version(t.Context(), base) // it is no JSON
	}
	require.NoError(t, scraper.SetAPIKey(bases["a"], ""))
	_, err = scraper.Scrape(t.Context(), bases["a"])
	require.NoError(t, err)
	assert.Equal(t, seen{
		"a/metrics": {"Bearer ka", ""}, "a/version": {"Bearer ka"}, "b/metrics": {""}, "b/version": {""},
		"moved/metrics": {"Bearer km"}, "moved/version": {"Bearer km"},
	}, s, "a redirect is not followed")
}
