package gatewaytest

import (
	"io"
	"net/http"
	"testing"

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
	assert.Zero(t, f.pool().Requests.Unkeyed, "none goes to a replica")
}
