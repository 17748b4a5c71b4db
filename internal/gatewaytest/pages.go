package gatewaytest

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// Pages tests a gateway that serves the router's pages below /debug/warmroute/.
func Pages(t *testing.T, g Gateway) {
	f := &fleet{t: t}
	f.route(g, []warmroute.Endpoint{{URL: "http://127.0.0.1:9", Ranks: 2}})
	for page, want := range map[string]string{"": "127.0.0.1:9@1", "stats": `"pools"`, "metrics": "warmroute_requests_total"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+"/debug/warmroute/"+page, nil)
		require.NoError(t, err)
		resp, err := f.client.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusOK, resp.StatusCode, page)
		assert.Contains(t, string(body), want)
	}
	for what, test := range map[string]struct {
		method, page string
		status       int
	}{
		"without the slash": {http.MethodGet, "", http.StatusOK}, // where it redirects to
		"without a body":    {http.MethodHead, "/stats", http.StatusOK},
		"read-only":         {http.MethodPost, "/stats", http.StatusMethodNotAllowed},
		"no such page":      {http.MethodGet, "/v1/chat/completions", http.StatusNotFound},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method, f.url+"/debug/warmroute"+test.page, nil)
		require.NoError(t, err)
		resp, err := f.client.Do(req)
		require.NoError(t, err, what)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, test.status, resp.StatusCode, what)
	}
	f.watch()
	assert.Equal(t, warmroute.RequestStats{}, f.pool().Requests, "none goes to a replica")
}

// watch has the page's events come as they happen, and end when nobody watches.
func (f *fleet) watch() {
	ctx, leave := context.WithTimeout(f.t.Context(), 10*time.Second)
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/debug/warmroute/events", nil)
	require.NoError(f.t, err)
	resp, err := f.client.Do(req)
	require.NoError(f.t, err)
	defer resp.Body.Close() //nolint:errcheck // it never ends
	assert.Equal(f.t, "text/event-stream", resp.Header.Get("Content-Type"))
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(f.t, err)
	assert.NotEmpty(f.t, line)
}
