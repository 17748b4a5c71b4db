package faulttest_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// listen starts a quick engine on a socket.
func listen(t *testing.T, ranks int) (*fakevllm.Server, *fakevllm.Socket) {
	t.Helper()
	e, err := fakevllm.New(fakevllm.Config{
		Ranks: ranks, CountHeader: idHeader, StepTime: 1, ContextCost: 1, PrefillRate: math.Inf(1),
	})
	require.NoError(t, err)
	k, err := e.Listen()
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, k.Close())
		assert.NoError(t, e.Close())
	})
	return e, k
}

// A client that lies about the length of its body fails its own request. The
// replica has done nothing wrong.
func TestAClientLiesAboutItsLength(t *testing.T) {
	for name, delta := range map[string]int64{"too long": 100, "too short": -20} {
		t.Run(name, func(t *testing.T) {
			_, k := listen(t, 1)
			router, err := warmroute.New([]warmroute.Endpoint{{URL: k.URL()}})
			require.NoError(t, err)
			defer router.Close()
			for _, keyed := range []bool{true, false} {
				a := ask{session: "s", whole: true}
				r := a.request("x")
				if !keyed {
					r.Header.Del("X-Session-Id")
				}
				r.ContentLength += delta
				r.GetBody = nil
				r.Body = io.NopCloser(bytes.NewReader(a.body()))
				got := read(router.Transport(nil).RoundTrip(r))
				assert.True(t, got.err != nil || got.status == 400, "%v", got)
				assert.Eventually(t, func() bool { return router.Stats().Pools[0].InFlight == 0 }, 5*time.Second, time.Millisecond)
				assert.Zero(t, router.Stats().Pools[0].Requests.Failed)
			}
			got := read(router.Transport(nil).RoundTrip(ask{session: "s"}.request("y")))
			require.NoError(t, got.err)
			assert.Equal(t, 200, got.status)
		})
	}
}

// The same through a gateway, whose server meets the lie first.
func TestAGatewaysClientLiesAboutItsLength(t *testing.T) {
	engine, k := listen(t, 1)
	router, err := warmroute.New([]warmroute.Endpoint{{URL: k.URL()}})
	require.NoError(t, err)
	defer router.Close()
	gateway := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.Host = "" },
		Transport:     router.Transport(nil),
		ErrorHandler:  warmroute.ErrorHandler,
		FlushInterval: -1,
	})
	defer gateway.Close()
	body := ask{session: "s", whole: true}.body()
	for name, test := range map[string]struct {
		declared int
		status   int // 0: none, as the client is gone
	}{
		"too long, and gone": {declared: len(body) + 50},
		"too short":          {declared: len(body) - 20, status: 400},
		"not at all":         {declared: len(body), status: 200},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(gateway.URL, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-Session-Id: s\r\nContent-Length: %d\r\n\r\n%s", test.declared, body)
			require.NoError(t, err)
			if test.status == 0 {
				require.NoError(t, conn.(*net.TCPConn).CloseWrite())
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err == nil {
				assert.Contains(t, []int{test.status, http.StatusBadGateway, warmroute.StatusClientClosedRequest}, resp.StatusCode)
				require.NoError(t, resp.Body.Close())
			} else {
				assert.Zero(t, test.status, "%v", err)
			}
			assert.Eventually(t, func() bool { return router.Stats().Pools[0].InFlight == 0 }, 5*time.Second, time.Millisecond)
			assert.Zero(t, router.Stats().Pools[0].Requests.Failed)
			assert.Zero(t, engine.Rank(0).Running)
		})
	}
}

// A name that means another machine from one moment to the next: connections
// follow it, and what was cached on the first is not taken for granted.
func TestDNSChanges(t *testing.T) {
	a, ka := listen(t, 1)
	b, kb := listen(t, 1)
	var address atomic.Pointer[string]
	point := func(k *fakevllm.Socket) {
		to := strings.TrimPrefix(k.URL(), "http://")
		address.Store(&to)
	}
	point(ka)
	base := &http.Transport{DialContext: func(ctx context.Context, network, host string) (net.Conn, error) {
		if host != "engine.test:8000" {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("no such host " + host)}
		}
		var d net.Dialer
		return d.DialContext(ctx, network, *address.Load())
	}}
	defer base.CloseIdleConnections()
	router, err := warmroute.New([]warmroute.Endpoint{{URL: "http://engine.test:8000", Ranks: 1}},
		warmroute.WithScrapeClient(&http.Client{Transport: base}), warmroute.WithDebugHeaders(true))
	require.NoError(t, err)
	defer router.Close()
	require.NoError(t, router.Scrape(t.Context()))
	transport := router.Transport(base)
	send := func(turn int) seen {
		got := read(transport.RoundTrip(ask{session: "s", turn: turn}.request(fmt.Sprint("dns-", turn))))
		require.NoError(t, got.err)
		require.Equal(t, 200, got.status)
		return got
	}
	send(0)
	send(1)
	point(kb)
	a.Stop() // and with it the connections that were kept
	base.CloseIdleConnections()
	send(2)
	send(3)
	require.NoError(t, router.Scrape(t.Context()))
	for turn, engines := range []*fakevllm.Server{a, a, b, b} {
		assert.Equal(t, ran, engines.Delivery(fmt.Sprint("dns-", turn)))
	}
	s := router.Stats().Pools[0]
	assert.Zero(t, s.Requests.Failed)
	assert.Zero(t, s.InFlight)
	assert.Equal(t, 1, s.Sessions)
}

// A connection that an engine has closed just when it is used again. What was
// not sent is sent anew; what may have been is not.
func TestAStaleConnectionSendsNothingTwice(t *testing.T) {
	engine, k := listen(t, 1)
	router, err := warmroute.New([]warmroute.Endpoint{{URL: k.URL()}})
	require.NoError(t, err)
	transport := router.Transport(nil)
	for i := range 200 {
		id := fmt.Sprint("stale-", i)
		r := ask{session: "s", whole: true, tokens: 1}.request(id)
		if i%2 == 0 {
			r.Header.Set("Idempotency-Key", id) // by which http.Transport would send it again
		}
		if i%5 > 0 {
			go func() { // at some moment of the request
				time.Sleep(time.Duration(i%7) * 50 * time.Microsecond)
				engine.Stop()
				engine.Start()
			}()
		}
		got := read(transport.RoundTrip(r))
		if got.err != nil {
			assert.True(t, typed(got.err) || errors.Is(got.err, io.EOF) || errors.Is(got.err, io.ErrUnexpectedEOF), "%T %v", got.err, got.err)
		}
		d := engine.Delivery(id)
		require.LessOrEqual(t, d.Seen, 1, "request %d", i)
		require.NoError(t, k.AwaitListening(5*time.Second))
	}
	time.Sleep(20 * time.Millisecond) // the last stop
	require.NoError(t, k.AwaitListening(5*time.Second))
	require.NoError(t, router.Close())
	assert.Eventually(t, func() bool { return k.Connections() == 0 && router.Stats().Pools[0].InFlight == 0 }, 5*time.Second, time.Millisecond)
}
