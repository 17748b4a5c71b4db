package metrics_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

// fixture is a page recorded from vLLM 0.26.0.
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return page
}

// num is a number that is there.
func num(v float64) metrics.Number { return metrics.Number{Value: v, OK: true} }

// at parses a base URL.
func at(t testing.TB, text string) *url.URL {
	t.Helper()
	base, err := url.Parse(text)
	require.NoError(t, err)
	return base
}

// roundTripper answers requests without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is a response with a body.
func answer(status int, body io.Reader) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(body), ContentLength: -1,
	}
}

// scraperOf is a scraper whose requests f answers.
func scraperOf(t testing.TB, config metrics.Config, f roundTripper) *metrics.Scraper {
	t.Helper()
	config.Client = &http.Client{Transport: f}
	s, err := metrics.NewScraper(config)
	require.NoError(t, err)
	return s
}

// serve is a scraper whose requests reach handler through net/http's own server
// and transport over in-memory connections, so that virtual time goes for them.
func serve(t *testing.T, config metrics.Config, handler http.HandlerFunc) *metrics.Scraper {
	t.Helper()
	listener := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: handler}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	transport := &http.Transport{DialContext: listener.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	config.Client = &http.Client{Transport: transport}
	s, err := metrics.NewScraper(config)
	require.NoError(t, err)
	return s
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// page joins lines to a page.
func page(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

// pageTest is a page and what a dialect is to read of it, without an error.
type pageTest struct {
	name string
	page string
	want metrics.Page
}

func runPageTests(t *testing.T, d metrics.Dialect, tests []pageTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := d.Parse([]byte(tt.page))
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

// one is a page with one engine.
func one(s metrics.Snapshot) metrics.Page { return metrics.Page{Engines: []metrics.Snapshot{s}} }
