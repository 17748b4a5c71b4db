package warmroute_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

func wanted(urls ...string) []warmroute.Target {
	var out []warmroute.Target
	for _, e := range at(urls...) {
		out = append(out, warmroute.Target{Endpoint: e})
	}
	return out
}

// states notes what replica hooks are told.
type states struct {
	mu  sync.Mutex
	all []string
}

func (s *states) OnReplicaState(e warmroute.ReplicaStateEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, e.Replica.Name()+" "+e.Reason)
}

func TestSetEndpoints(t *testing.T) {
	told := new(states)
	router := newRouter(t, at("http://a", "http://b"), warmroute.WithHooks(told))
	route := func(session string) warmroute.Lease {
		lease, err := router.Route(t.Context(), warmroute.Request{Session: session})
		require.NoError(t, err)
		lease.Answered()
		return lease
	}
	homes := map[string][]string{}
	for i := range 8 {
		s := fmt.Sprint("s", i)
		lease := route(s)
		homes[lease.Replica().Name()] = append(homes[lease.Replica().Name()], s)
		lease.Done(warmroute.Result{})
	}
	require.Len(t, homes, 2)
	flying := route(homes["a:80"][0])

	require.NoError(t, router.SetEndpoints(wanted("http://B:80/", "http://c")))
	assert.Equal(t, 1, flying.Replica().InFlight(), "what is in flight goes on")
	assert.True(t, flying.Replica().Removed())
	for _, s := range homes["b:80"] {
		lease := route(s)
		assert.Equal(t, "b:80", lease.Replica().Name(), "who stays keeps its conversations")
		assert.Equal(t, warmroute.Sticky, lease.Outcome())
		lease.Done(warmroute.Result{})
	}
	for _, s := range homes["a:80"] {
		lease := route(s)
		assert.Equal(t, warmroute.Placed, lease.Outcome())
		assert.NotEqual(t, "a:80", lease.Replica().Name())
		lease.Done(warmroute.Result{})
	}
	flying.Done(warmroute.Result{})
	assert.Zero(t, flying.Replica().InFlight())

	draining := wanted("http://b", "http://c")
	draining[0].Draining = true
	require.NoError(t, router.SetEndpoints(draining))
	lease := route(homes["b:80"][0])
	assert.Equal(t, "b:80", lease.Replica().Name(), "a draining endpoint serves its conversations")
	lease.Done(warmroute.Result{})
	for i := range 6 {
		lease := route(fmt.Sprint("new", i))
		assert.Equal(t, "c:80", lease.Replica().Name(), "and takes no new ones")
		lease.Done(warmroute.Result{})
	}
	require.NoError(t, router.SetEndpoints(wanted("http://b", "http://c")))
	assert.Equal(t, []string{"a:80 removed", "c:80 added", "b:80 drained", "b:80 resumed"}, told.all)

	require.NoError(t, router.SetEndpoints(nil))
	_, err := router.Route(t.Context(), warmroute.Request{Session: "s"})
	require.ErrorIs(t, err, warmroute.ErrNoReplica)
}

func TestSetEndpointsChangesNothingAfterAnError(t *testing.T) {
	router := newRouter(t, at("http://a"))
	before := router.Replicas()
	for _, bad := range [][]warmroute.Target{
		wanted("http://b", "nonsense"), wanted("http://b", "http://b"),
		{{Endpoint: warmroute.Endpoint{URL: "http://b", Engine: "steam"}}},
	} {
		require.Error(t, router.SetEndpoints(bad))
		assert.Equal(t, before, router.Replicas())
	}
}

// No request fails and no stream breaks while the endpoints change under them.
func TestSetEndpointsUnderLoad(t *testing.T) {
	var servers []string
	for range 4 {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for range 20 {
				_, _ = io.WriteString(w, "data: {}\n\n")
				w.(http.Flusher).Flush()
			}
			_, _ = io.WriteString(w, "data: [DONE]\n\n")
		}))
		t.Cleanup(server.Close)
		servers = append(servers, server.URL)
	}
	router := newRouter(t, at(servers[0]))
	client := &http.Client{Transport: router.Transport(nil)}
	var ends atomic.Bool
	var requests atomic.Int64
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() {
			for !ends.Load() {
				req, err := http.NewRequest(http.MethodPost, "http://x/v1/chat/completions", http.NoBody)
				if !assert.NoError(t, err) {
					return
				}
				resp, err := client.Do(req.WithContext(warmroute.WithSession(t.Context(), fmt.Sprint("s", i, requests.Load()%3))))
				if !assert.NoError(t, err) {
					return
				}
				body, err := io.ReadAll(resp.Body)
				assert.NoError(t, err)
				assert.Len(t, body, 20*len("data: {}\n\n")+len("data: [DONE]\n\n"))
				assert.NoError(t, resp.Body.Close())
				requests.Add(1)
			}
		})
	}
	for i := range 60 {
		next := wanted(servers[i%4], servers[(i+1)%4])
		next[0].Draining = i%3 == 0
		require.NoError(t, router.SetEndpoints(next))
		for n := requests.Load() + 5; requests.Load() < n && !t.Failed(); { // each set is used
		}
	}
	ends.Store(true)
	clients.Wait()
	assert.Zero(t, inFlight(t, router))
	assert.Greater(t, requests.Load(), int64(300))
}

func TestEndpointHostIsSent(t *testing.T) {
	sent := map[string]string{}
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://10.0.0.1:8000", Host: "llm.example:8000"}})
	transport := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		sent[r.URL.Path] = r.URL.Host + " " + r.Host
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
	}))
	for path, host := range map[string]string{"/none": "", "/url": "any", "/own": "tenant.example"} {
		req, err := http.NewRequest(http.MethodGet, "http://any"+path, nil)
		require.NoError(t, err)
		req.Host = host
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	assert.Equal(t, map[string]string{"/none": "10.0.0.1:8000 llm.example:8000", "/url": "10.0.0.1:8000 llm.example:8000",
		"/own": "10.0.0.1:8000 tenant.example"}, sent, "a caller's own goes first")
}

func TestEndpointHostIsTheNameInTLS(t *testing.T) {
	names := make(chan string, 1)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		names <- hello.ServerName
		return nil, nil
	}}
	server.StartTLS()
	defer server.Close()
	router := newRouter(t, []warmroute.Endpoint{{URL: server.URL, Host: "llm.example:8443"}})
	_, err := (&http.Client{Transport: router.Transport(nil)}).Get("http://any/")
	var refused *tls.CertificateVerificationError
	require.ErrorAs(t, err, &refused, "nobody trusts it")
	assert.Equal(t, "llm.example", <-names)
}
