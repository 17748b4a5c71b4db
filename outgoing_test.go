package warmroute_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

func TestUntrustedClients(t *testing.T) {
	for _, tc := range []struct {
		untrusted bool
		want      http.Header
		pinned    uint64
	}{
		{true, http.Header{"X-Session-Id": {"s"}, "X-Other": {"1"}, "X-Warmroute": {"not ours"}, "Content-Type": {"application/json"}}, 0},
		{false, http.Header{
			"X-Session-Id": {"s"}, "X-Other": {"1"}, "X-Warmroute": {"not ours"}, "Content-Type": {"application/json"},
			"X-Warmroute-Replica": {"r"}, "X-Warmroute-Outcome": {"o"}, "x-warmroute-debug": {"d"},
		}, 1},
	} {
		router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 4}}, warmroute.WithUntrustedClients(tc.untrusted))
		var got http.Header
		req := post(t, strings.NewReader("{}"))
		for name, v := range map[string]string{
			"X-Session-Id": "s", "X-Other": "1", "X-Warmroute": "not ours", "X-Warmroute-Replica": "r", "X-Warmroute-Outcome": "o",
			"x-warmroute-debug": "d", "x-data-parallel-rank": "2",
		} {
			req.Header[name] = []string{v}
		}
		before := req.Header.Clone()
		resp, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
			got = r.Header.Clone()
			return answer(200, http.NoBody), nil
		})).RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, before, req.Header, "the caller's is not changed")
		require.Len(t, got[replica.RankHeader], 1, "the router's own")
		if !tc.untrusted {
			assert.Equal(t, "2", got.Get(replica.RankHeader))
		}
		delete(got, replica.RankHeader)
		assert.Equal(t, tc.want, got)
		assert.Equal(t, tc.pinned, router.Stats().Pools[0].Requests.Pinned)
	}
}

func TestUntrustedClientsWhereThereAreNoRanks(t *testing.T) {
	for _, name := range []string{"X-Warmroute-Replica", "X-WARMROUTE-x", replica.RankHeader} {
		router := newRouter(t, at("http://a"), warmroute.WithUntrustedClients(true))
		req := post(t, nil)
		req.Header = http.Header{name: {"1"}}
		var got http.Header
		resp, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
			got = r.Header.Clone()
			return answer(200, http.NoBody), nil
		})).RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Empty(t, got)
	}
}

// A gateway that refuses ranks refuses those of clients that it does not trust.
func TestUntrustedClientsMayBeRefused(t *testing.T) {
	router := newRouter(t, at("http://a"), warmroute.WithUntrustedClients(true), warmroute.WithClientRank(warmroute.RefuseClientRank))
	req := post(t, nil)
	req.Header.Set(replica.RankHeader, "1")
	_, err := router.Transport(&fleet{}).RoundTrip(req)
	require.ErrorIs(t, err, warmroute.ErrClientRank)
	_, err = newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}}, warmroute.WithUntrustedClients(true)).Route(t.Context(), warmroute.Request{ClientRank: "7"})
	require.NoError(t, err, "a rank given to Route is as good as none")
}

func withKeys() []warmroute.Endpoint {
	return []warmroute.Endpoint{{URL: "http://a", APIKey: "key-a"}, {URL: "http://b", APIKey: "key-b"}, {URL: "http://c"}}
}

// authorizations are those that each host has seen.
type authorizations struct {
	mu   sync.Mutex
	seen map[string][]string
	do   func(*http.Request) (*http.Response, error)
}

func (a *authorizations) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	if a.seen == nil {
		a.seen = map[string][]string{}
	}
	var all []string
	for name, values := range r.Header {
		if strings.EqualFold(name, "Authorization") && (name == "Authorization" || r.URL.Host != "c") { // c gets what the client sent
			all = append(all, values...)
		}
	}
	a.seen[r.URL.Host] = append(a.seen[r.URL.Host], strings.Join(all, "|"))
	a.mu.Unlock()
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	return a.do(r)
}

var ownKeys = map[string]string{"a": "Bearer key-a", "b": "Bearer key-b", "c": "Bearer of-the-client"}

func (a *authorizations) check(t *testing.T) {
	t.Helper()
	for host, all := range a.seen {
		for _, got := range all {
			assert.Equal(t, ownKeys[host], got, host)
		}
	}
}

func TestAPIKeysOfEndpoints(t *testing.T) {
	for name, do := range map[string]func(*http.Request) (*http.Response, error){
		"answers":     func(*http.Request) (*http.Response, error) { return answer(200, http.NoBody), nil },
		"retries":     func(r *http.Request) (*http.Response, error) { return answer(503, http.NoBody), nil },
		"broken ones": reset,
	} {
		t.Run(name, func(t *testing.T) {
			base := &authorizations{do: do}
			router := newRouter(t, withKeys(), warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true, MaxAttempts: 3, Backoff: 1}))
			for range 6 {
				req := post(t, strings.NewReader("{}"))
				req.Header["authorization"] = []string{"Bearer sly"} // not canonical: must not go beside the key
				req.Header.Set("Authorization", "Bearer of-the-client")
				if resp, err := router.Transport(base).RoundTrip(req); err == nil {
					assert.Same(t, req, resp.Request)
					require.NoError(t, resp.Body.Close())
				}
				assert.Equal(t, "Bearer of-the-client", req.Header.Get("Authorization"))
			}
			require.Len(t, base.seen, 3)
			base.check(t)
		})
	}
}

// An http.Client follows a redirect through the transport: the URL is routed anew,
// and the endpoint that is chosen gets its own key and no other.
func TestAPIKeysAndRedirects(t *testing.T) {
	for _, to := range []string{"http://a/v1/completions", "http://evil.example/x", "/v1/completions"} {
		n := 0
		base := &authorizations{}
		base.do = func(r *http.Request) (*http.Response, error) {
			if n++; n%2 == 1 {
				resp := answer(307, http.NoBody)
				resp.Header.Set("Location", to)
				return resp, nil
			}
			return answer(200, http.NoBody), nil
		}
		router := newRouter(t, withKeys())
		client := &http.Client{Transport: router.Transport(base)}
		for range 6 {
			req := post(t, strings.NewReader("{}"))
			resp, err := client.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			for r := resp.Request; r != nil; {
				assert.Empty(t, r.Header.Get("Authorization"), "the client's view")
				if r.Response == nil {
					break
				}
				r = r.Response.Request
			}
		}
		assert.NotContains(t, base.seen, "evil.example")
		for host, all := range base.seen {
			for _, got := range all {
				assert.Equal(t, map[string]string{"a": "Bearer key-a", "b": "Bearer key-b", "c": ""}[host], got)
			}
		}
	}
}

// Pages and questions are read with the endpoint's key, which is shown nowhere.
func TestAPIKeysOfScrapes(t *testing.T) {
	base := &authorizations{do: func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/metrics" {
			return reply(200, "text/plain", strings.NewReader(idle(0))), nil
		}
		return answer(404, io.NopCloser(strings.NewReader(""))), nil
	}}
	var logged bytes.Buffer
	router := newRouter(t, withKeys(), warmroute.WithScrapeClient(&http.Client{Transport: base}),
		warmroute.WithLogger(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	require.NoError(t, router.Scrape(t.Context()))
	require.Len(t, base.seen, 3)
	ownScrapes := map[string]string{"a": "Bearer key-a", "b": "Bearer key-b", "c": ""}
	for host, all := range base.seen {
		for _, got := range all {
			assert.Equal(t, ownScrapes[host], got)
		}
	}
	broken := &authorizations{do: reset}
	for range 18 {
		_, err := ask(t, router.Transport(broken), "s")
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "key-")
	}
	require.NoError(t, router.Remove("http://a"))
	shown := logged.String() + fmt.Sprintf("%+v", router.Stats())
	for _, path := range []string{"/", "/stats", "/metrics"} {
		shown += get(t, router.Handler(), path).Body.String()
	}
	var file strings.Builder
	require.NoError(t, router.Save(&file))
	assert.Contains(t, logged.String(), "breaker opened")
	assert.NotContains(t, shown+file.String(), "key-")
	_, err := warmroute.New([]warmroute.Endpoint{{URL: "http://a", APIKey: "key-\n"}})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "key-")
}

func TestHandlerIsReadOnly(t *testing.T) {
	router := newRouter(t, at("http://a"))
	for _, path := range []string{"/", "/stats", "/metrics"} {
		for method, want := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "PUT": 405, "DELETE": 405, "PATCH": 405, "OPTIONS": 405} {
			w := httptest.NewRecorder()
			router.Handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
			assert.Equal(t, want, w.Code, "%s %s", method, path)
		}
	}
}

// Whatever a client puts into a key or a model's name, no header, log or error has
// it as it is, or in full.
func TestNothingIsSmuggledThroughKeys(t *testing.T) {
	evil := "k\r\nX-Evil: 1\x1b[31m" + strings.Repeat("x", 1000)
	var logged bytes.Buffer
	var got http.Header
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2, Model: "m"}}, warmroute.WithDebugHeaders(true), warmroute.WithSessionHeader("X-Key"),
		warmroute.WithLogger(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	transport := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		got = r.Header.Clone()
		return nil, errReset
	}))
	for range 7 {
		req := post(t, strings.NewReader(`{"model":"m"}`))
		req.Header["X-Key"] = []string{evil}
		_, err := transport.RoundTrip(req)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "X-Evil")
	}
	delete(got, "X-Key") // as the client sent it, which http.Transport refuses
	for name, values := range got {
		assert.NotContains(t, name+fmt.Sprint(values), "Evil")
	}
	assert.NotContains(t, logged.String(), "Evil")
	w := get(t, router.Handler(), "/stats").Body.String() + get(t, router.Handler(), "/metrics").Body.String()
	assert.NotContains(t, w, "Evil")

	_, err := router.Route(t.Context(), warmroute.Request{Model: evil})
	require.ErrorIs(t, err, warmroute.ErrUnknownModel)
	assert.Less(t, len(err.Error()), 300)
	assert.NotContains(t, err.Error(), "\n")
	assert.NotContains(t, err.Error(), "\x1b")
}
