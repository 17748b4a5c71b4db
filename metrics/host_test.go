package metrics_test

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

// hosts notes the Host header of requests by their URL's host.
type hosts map[string][]string

func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	h[r.URL.Host] = append(h[r.URL.Host], r.Host)
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("vllm:num_requests_running{engine=\"0\"} 1\n")), Request: r}, nil
}

func TestSetHost(t *testing.T) {
	h := hosts{}
	scraper, err := metrics.NewScraper(metrics.Config{Client: &http.Client{Transport: h}, Dialect: metrics.VLLM()})
	require.NoError(t, err)
	a, b := &url.URL{Scheme: "http", Host: "10.0.0.1:8000"}, &url.URL{Scheme: "http", Host: "b"}
	require.Error(t, scraper.SetHost(&url.URL{Host: "a"}, "h"))
	require.NoError(t, scraper.SetHost(a, "llm.example:8000"))
	for range 2 {
		for _, base := range []*url.URL{a, b} {
			_, err := scraper.Scrape(t.Context(), base)
			require.NoError(t, err)
		}
		require.NoError(t, scraper.SetHost(a, ""))
	}
	assert.Equal(t, hosts{"10.0.0.1:8000": {"llm.example:8000", "10.0.0.1:8000"}, "b": {"b", "b"}}, h)
}

func TestSetHostIsTheNameInTLS(t *testing.T) {
	var names []string
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	asked := make(chan string, 3)
	server.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		asked <- hello.ServerName
		return nil, nil
	}}
	server.StartTLS()
	defer server.Close()
	base, err := url.Parse(server.URL)
	require.NoError(t, err)
	scraper, err := metrics.NewScraper(metrics.Config{Dialect: metrics.VLLM()})
	require.NoError(t, err)
	defer scraper.CloseIdleConnections()
	for _, host := range []string{"", "llm.example:8443", ""} {
		require.NoError(t, scraper.SetHost(base, host))
		_, err := scraper.Scrape(t.Context(), base)
		var refused *tls.CertificateVerificationError
		require.ErrorAs(t, err, &refused, "nobody trusts it")
		names = append(names, <-asked)
	}
	assert.Equal(t, []string{"", "llm.example", ""}, names, "an address is no name")
}
