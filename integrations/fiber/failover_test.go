package gateway_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// refusing is an address where nobody listens.
func refusing(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return "http://" + listener.Addr().String()
}

func TestFailoverBeforeAnythingIsSent(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer engine.Close()
	router, err := warmroute.New([]warmroute.Endpoint{{URL: refusing(t)}, {URL: refusing(t)}, {URL: engine.URL}})
	require.NoError(t, err)
	defer router.Close()
	url := serve(t, router, 1<<20)
	defer http.DefaultClient.CloseIdleConnections()
	for range 5 {
		resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m"}`))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.JSONEq(t, `{"model":"m"}`, string(body))
	}
}

// TestNothingIsSentTwice has an engine take each request and break off: the
// POST may have run there.
func TestNothingIsSentTwice(t *testing.T) {
	requests := make(chan struct{}, 10)
	engine := func() *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			requests <- struct{}{}
			panic(http.ErrAbortHandler)
		}))
	}
	one, two := engine(), engine()
	defer one.Close()
	defer two.Close()
	router, err := warmroute.New([]warmroute.Endpoint{{URL: one.URL}, {URL: two.URL}})
	require.NoError(t, err)
	defer router.Close()
	url := serve(t, router, 1<<20)
	defer http.DefaultClient.CloseIdleConnections()
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		req, err := http.NewRequest(method, url+"/v1/chat/completions", strings.NewReader(`{}`))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "k")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusBadGateway, resp.StatusCode)
		assert.Len(t, requests, 1, method)
		<-requests
	}
	assert.Equal(t, uint64(2), router.Stats().Pools[0].Requests.Failed)
	assert.Zero(t, router.Stats().Pools[0].InFlight)
}

func TestAnswersWithoutABody(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.Header().Set("Content-Length", "7")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer engine.Close()
	router, err := warmroute.New([]warmroute.Endpoint{{URL: engine.URL}})
	require.NoError(t, err)
	defer router.Close()
	url := serve(t, router, 1<<20)
	defer http.DefaultClient.CloseIdleConnections()
	for method, want := range map[string]struct {
		status int
		length int64
	}{http.MethodHead: {200, 7}, http.MethodDelete: {204, 0}} {
		req, err := http.NewRequest(method, url+"/v1/models", nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, want.status, resp.StatusCode, method)
		assert.Equal(t, want.length, resp.ContentLength, method)
	}
	assert.Zero(t, router.Stats().Pools[0].InFlight)
}
