package warmroute_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// dialer is a base transport for which some hosts cannot be reached.
type dialer struct {
	down map[string]bool
	got  []string
}

func (d *dialer) RoundTrip(r *http.Request) (*http.Response, error) {
	d.got = append(d.got, r.URL.Host)
	if d.down[r.URL.Host] {
		if r.Body != nil {
			_ = r.Body.Close() // as http.Transport does
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	if r.Body != nil {
		got, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		return answer(200, io.NopCloser(strings.NewReader(string(got)))), nil
	}
	return answer(200, http.NoBody), nil
}

func TestFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b"}, {URL: "http://c"}}, warmroute.WithDebugHeaders(true))
		base := &dialer{down: map[string]bool{}}
		send := func() *http.Response {
			body := tracked(`{"x":1}`)
			req := post(t, body)
			req.Header.Set("X-Session-Id", "s")
			resp, err := router.Transport(base).RoundTrip(req)
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, `{"x":1}`, string(got), "the whole body, once")
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, int32(1), body.closes.Load())
			assert.Zero(t, inFlight(t, router))
			return resp
		}
		home := send().Header.Get(warmroute.ReplicaHeader)
		host, _, _ := strings.Cut(home, ":")
		base.down[host] = true
		base.got = nil
		moved := send()
		assert.Equal(t, "placed", moved.Header.Get(warmroute.OutcomeHeader))
		assert.NotEqual(t, home, moved.Header.Get(warmroute.ReplicaHeader))
		assert.Len(t, base.got, 2, "each endpoint is tried once")
		assert.Equal(t, uint64(1), replicaStats(t, router, home).Failed, "each attempt counts on its own replica")
		assert.Equal(t, "down", string(replicaStats(t, router, home).State))
		base.got = nil
		again := send()
		assert.Equal(t, "sticky", again.Header.Get(warmroute.OutcomeHeader))
		assert.Equal(t, moved.Header.Get(warmroute.ReplicaHeader), again.Header.Get(warmroute.ReplicaHeader), "it is at home there now")
		assert.Len(t, base.got, 1)

		base.down[host] = false
		time.Sleep(time.Minute)
		assert.Equal(t, moved.Header.Get(warmroute.ReplicaHeader), send().Header.Get(warmroute.ReplicaHeader), "the old home does not pull it back")
	})
}

func TestAllDown(t *testing.T) {
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b"}})
	base := &dialer{down: map[string]bool{"a": true, "b": true}}
	for range 3 {
		base.got = nil
		_, err := router.Transport(base).RoundTrip(post(t, strings.NewReader("{}")))
		require.ErrorIs(t, err, warmroute.ErrNoReplica)
		var op *net.OpError
		require.ErrorAs(t, err, &op, "and why")
		assert.Len(t, base.got, 2, "down or not, each is tried once: never a refusal of our own making")
	}
	base.down["b"] = false
	resp, err := router.Transport(base).RoundTrip(post(t, strings.NewReader("{}")))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Zero(t, inFlight(t, router))
	assert.Equal(t, "up", string(replicaStats(t, router, "b:80").State))
}

func TestNoFailoverAfterAByteWasRead(t *testing.T) {
	for _, closes := range []bool{true, false} {
		router := newRouter(t, at("http://a", "http://b"))
		tries := 0
		_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
			tries++
			_, _ = r.Body.Read(make([]byte, 1))
			if closes {
				_ = r.Body.Close()
			}
			return nil, &net.OpError{Op: "dial", Err: errors.New("odd")}
		})).RoundTrip(post(t, strings.NewReader("{}")))
		require.Error(t, err)
		assert.Equal(t, 1, tries)
	}
}

func TestFailoverCanBeSwitchedOff(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"), warmroute.WithFailover(false))
	base := &dialer{down: map[string]bool{"a": true, "b": false}}
	var errs int
	for range 2 {
		if resp, err := router.Transport(base).RoundTrip(post(t, nil)); err != nil {
			require.ErrorIs(t, err, warmroute.ErrNoReplica)
			errs++
		} else {
			require.NoError(t, resp.Body.Close())
		}
	}
	assert.Equal(t, 1, errs)
	assert.Len(t, base.got, 2)
}

// What a transport still reads of a body after its attempt has failed must not
// take from the next attempt.
func TestABodyBelongsToOneAttempt(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	var first io.Reader
	_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		if first == nil {
			first = r.Body
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		}
		n, err := first.Read(make([]byte, 8))
		assert.Zero(t, n)
		assert.Error(t, err)
		got, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, "{}", string(got))
		return answer(200, nil), r.Body.Close()
	})).RoundTrip(post(t, strings.NewReader("{}")))
	require.NoError(t, err)
}

func TestACancelledDialIsNotTheReplicas(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		tries++
		cancel()
		return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
	})).RoundTrip(post(t, nil).WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, tries)
	for _, m := range router.Stats().Pools[0].Replicas {
		assert.Equal(t, "up", string(m.State))
		assert.Zero(t, m.Failed)
	}
}

// One connection that could not be made says nothing of the conversations'
// caches: with nowhere else to go they stay.
func TestAFailedDialScattersNobody(t *testing.T) {
	router := newRouter(t, four())
	homes := map[string]string{}
	for i := range 40 {
		s := fmt.Sprint("s", i)
		homes[s], _ = turn(t, router, s)
	}
	router.Replicas()[0].Unreachable(time.Now())
	for s, home := range homes {
		name, outcome := turn(t, router, s)
		assert.Equal(t, home, name)
		assert.Equal(t, warmroute.Sticky, outcome)
	}
}

// A conversation moves when another replica has answered it, not before.
func TestAConversationMovesByAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a", "http://b"))
		home, _ := turn(t, router, "s")
		down := func() {
			for _, m := range router.Replicas() {
				if m.Name() == home {
					m.Unreachable(time.Now())
				}
			}
		}
		down()
		lease := route(t, router, warmroute.Request{Session: "s"})
		assert.Equal(t, warmroute.Placed, lease.Outcome())
		require.NotEqual(t, home, lease.Replica().Name())
		lease.Done(warmroute.Result{Err: errors.New("reset")})
		time.Sleep(time.Minute)
		name, outcome := turn(t, router, "s")
		assert.Equal(t, warmroute.Sticky, outcome)
		assert.Equal(t, home, name, "the cache is still there")
		down()
		moved, _ := turn(t, router, "s")
		require.NotEqual(t, home, moved)
		time.Sleep(time.Minute)
		name, outcome = turn(t, router, "s")
		assert.Equal(t, moved, name, "it lives there now")
		assert.Equal(t, warmroute.Sticky, outcome)
	})
}

// Drain, then stop: nobody dials what is gone.
func TestADrainedReplicaThatIsDownIsLeft(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	home, _ := turn(t, router, "s")
	require.NoError(t, router.Drain(home))
	for _, m := range router.Replicas() {
		if m.Name() == home {
			m.Unreachable(time.Now())
		}
	}
	name, outcome := turn(t, router, "s")
	assert.NotEqual(t, home, name)
	assert.Equal(t, warmroute.Placed, outcome)
}

func TestEachRequestCountsOnce(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	turn(t, router, "s")
	base := &dialer{down: map[string]bool{"a": true, "b": true}}
	req := post(t, nil)
	req.Header.Set("X-Session-Id", "s")
	_, err := router.Transport(base).RoundTrip(req)
	require.ErrorIs(t, err, warmroute.ErrNoReplica)
	s := router.Stats().Pools[0]
	assert.Equal(t, warmroute.RequestStats{Placed: 2, Failed: 1, Retries: 1}, s.Requests, "by where it was tried last")
	assert.Equal(t, uint64(1), s.Replicas[0].Failed, "attempts")
	assert.Equal(t, uint64(1), s.Replicas[1].Failed)
	assert.Zero(t, s.InFlight)
}

func TestRealConnectionRefused(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer up.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	router := newRouter(t, at(gone.URL, up.URL))
	client := &http.Client{Transport: router.Transport(nil)}
	for range 4 {
		resp, err := client.Post("http://model/v1/completions", "application/json", struct{ io.Reader }{strings.NewReader("{}")})
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, "{}", string(got))
	}
	assert.Zero(t, inFlight(t, router))
}
