package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	gateway "github.com/warmroute/warmroute/integrations/gin"
	"github.com/warmroute/warmroute/internal/gatewaytest"
)

func TestGateway(t *testing.T) {
	gatewaytest.Run(t, gatewaytest.Gateway{Serve: gatewaytest.Handler(func(router *warmroute.Router, maxBody int64) http.Handler {
		return gateway.New(router, maxBody)
	})})
}

func TestPages(t *testing.T) {
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://127.0.0.1:9", Ranks: 2}})
	require.NoError(t, err)
	defer router.Close()
	server := httptest.NewServer(gateway.New(router, 1))
	defer server.Close()
	for path, want := range map[string]string{"": "127.0.0.1:9@1", "stats": `"pools"`, "metrics": "warmroute_requests_total"} {
		resp, err := http.Get(server.URL + "/debug/warmroute/" + path)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusOK, resp.StatusCode, path)
		assert.Contains(t, string(body), want)
	}
}
