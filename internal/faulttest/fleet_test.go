package faulttest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// idHeader names a request, so that engines can count how often they saw it.
const idHeader = "X-Request-Id"

// fleet is a router and engines in memory, in virtual time.
type fleet struct {
	t         *testing.T
	router    *warmroute.Router
	transport *warmroute.Transport

	mu      sync.Mutex
	engines map[string]*fakevllm.Server // by host and port
	gone    []*fakevllm.Server          // that were at a host before
	ids     []string                    // of the requests sent
}

// RoundTrip implements http.RoundTripper as a network would: a host that nobody
// is at refuses connections.
func (f *fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	e := f.engines[r.URL.Host]
	f.mu.Unlock()
	if e == nil {
		if r.Body != nil {
			_ = r.Body.Close() // as http.Transport does
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return e.RoundTrip(r)
}

// engine is a simulated one's configuration: quick, and with a cache that holds
// what the tests ask for.
func engineConfig(ranks int) fakevllm.Config {
	return fakevllm.Config{Ranks: ranks, CountHeader: idHeader, PrefillRate: 1e5, StepTime: 10 * time.Millisecond}
}

// put puts an engine at a host.
func (f *fleet) put(host string, cfg fakevllm.Config) *fakevllm.Server {
	f.t.Helper()
	e, err := fakevllm.New(cfg)
	require.NoError(f.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.engines[host]; old != nil {
		f.gone = append(f.gone, old)
	}
	f.engines[host] = e
	return e
}

func (f *fleet) all() []*fakevllm.Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := append([]*fakevllm.Server(nil), f.gone...)
	for _, e := range f.engines {
		all = append(all, e)
	}
	return all
}

// virtual runs a test with a fleet of engines at a:1, b:1 and so on, of the
// given ranks each, and a router that has read their pages.
func virtual(t *testing.T, ranks []int, test func(t *testing.T, f *fleet), opts ...warmroute.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, engines: map[string]*fakevllm.Server{}}
		var endpoints []warmroute.Endpoint
		for i, n := range ranks {
			host := string(rune('a'+i)) + ":1"
			f.put(host, engineConfig(n))
			endpoints = append(endpoints, warmroute.Endpoint{URL: "http://" + host})
		}
		opts = append([]warmroute.Option{
			warmroute.WithScrapeClient(&http.Client{Transport: f}), warmroute.WithDebugHeaders(true),
			warmroute.WithScrapeJitter(func() float64 { return 0.5 }),
		}, opts...)
		router, err := warmroute.New(endpoints, opts...)
		require.NoError(t, err)
		f.router, f.transport = router, router.Transport(f)
		running := make(chan error, 1)
		go func() { running <- router.Run(context.WithoutCancel(t.Context())) }()
		time.Sleep(2 * time.Second)
		test(t, f)
		f.quiet()
		require.NoError(t, router.Close())
		assert.NoError(t, <-running)
		for _, e := range f.all() {
			assert.NoError(t, e.Close())
		}
		// The bubble's end sees to it that no goroutine is left.
	})
}

// quiet checks that nothing is in hand any more, anywhere, and that no engine
// has seen a request twice, nor two engines the same one.
func (f *fleet) quiet() {
	f.t.Helper()
	synctest.Wait()
	for _, p := range f.router.Stats().Pools {
		assert.Zero(f.t, p.InFlight)
		assert.Zero(f.t, p.Queue.Waiting)
		for _, m := range p.Replicas {
			assert.Zero(f.t, m.InFlight, m.Name)
		}
	}
	f.sentOnce()
}

// sentOnce checks that no request has come in at more than one place or time.
func (f *fleet) sentOnce() {
	f.t.Helper()
	engines := f.all()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.ids {
		var sum fakevllm.Delivery
		for _, e := range engines {
			d := e.Delivery(id)
			sum.Seen += d.Seen
			sum.Run += d.Run
		}
		require.LessOrEqual(f.t, sum.Seen, 1, "request %s", id)
		require.LessOrEqual(f.t, sum.Run, 1, "request %s", id)
	}
}

// ask is a request of a conversation.
type ask struct {
	session string
	turn    int
	whole   bool // the answer, not streamed
	model   string
	rank    string
	ctx     context.Context
	tokens  int // of the answer; 8 if 0
}

// body is a conversation's history up to the turn.
func (a ask) body() []byte {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	body := struct {
		Model    string    `json:"model,omitempty"`
		Messages []message `json:"messages"`
		Stream   bool      `json:"stream"`
		Options  any       `json:"stream_options,omitempty"`
		Tokens   int       `json:"max_tokens"`
	}{Model: a.model, Stream: !a.whole, Tokens: 8}
	if a.tokens > 0 {
		body.Tokens = a.tokens
	}
	if body.Stream {
		body.Options = map[string]bool{"include_usage": true}
	}
	for i := range a.turn + 1 {
		body.Messages = append(body.Messages, message{"user", strings.Repeat(fmt.Sprint(a.session, " ", i, " "), 20)})
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return encoded
}

func (a ask) request(id string) *http.Request {
	ctx := a.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model/v1/chat/completions", bytes.NewReader(a.body()))
	if err != nil {
		panic(err) // the URL is a constant
	}
	r.Header.Set("Content-Type", "application/json")
	if a.session != "" {
		r.Header.Set("X-Session-Id", a.session)
	}
	if a.rank != "" {
		r.Header.Set("X-Data-Parallel-Rank", a.rank)
	}
	r.Header.Set(idHeader, id)
	return r
}

// seen is what a client sees.
type seen struct {
	status  int   // 0 if there was no answer
	err     error // in place of the answer, or of the end of its body
	body    string
	header  http.Header
	replica string
	outcome string
}

// newID names another request.
func (f *fleet) newID() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := fmt.Sprint("request-", len(f.ids))
	f.ids = append(f.ids, id)
	return id
}

// do sends a request and reads its answer to the end.
func (f *fleet) do(a ask) seen {
	return read(f.transport.RoundTrip(a.request(f.newID())))
}

func read(resp *http.Response, err error) seen {
	if err != nil {
		return seen{err: err}
	}
	body, err := io.ReadAll(resp.Body)
	return seen{
		status: resp.StatusCode, err: errors.Join(err, resp.Body.Close()), body: string(body), header: resp.Header,
		replica: resp.Header.Get(warmroute.ReplicaHeader), outcome: resp.Header.Get(warmroute.OutcomeHeader),
	}
}

// ok is do for a request that must work.
func (f *fleet) ok(a ask) seen {
	f.t.Helper()
	s := f.do(a)
	require.NoError(f.t, s.err)
	require.Equal(f.t, 200, s.status, s.body)
	require.Contains(f.t, s.body, `"finish_reason":"length"`)
	return s
}

// replicas are the stats by the replicas' names.
func (f *fleet) replicas() map[string]warmroute.ReplicaStats {
	byName := map[string]warmroute.ReplicaStats{}
	for _, p := range f.router.Stats().Pools {
		for _, m := range p.Replicas {
			byName[m.Name] = m
		}
	}
	return byName
}

// engineOf is the engine behind a replica.
func (f *fleet) engineOf(replica string) *fakevllm.Server {
	host, _, _ := strings.Cut(replica, "@")
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.engines[host]
}

// sessions are the conversations bound in each pool and replica, summed.
func (f *fleet) sessions() (n int) {
	for _, p := range f.router.Stats().Pools {
		sum := 0
		for _, m := range p.Replicas {
			sum += m.Sessions
		}
		assert.Equal(f.t, p.Sessions, sum)
		n += sum
	}
	return n
}

// residents are the conversations that have their place in a cache.
func (f *fleet) residents() (n int) {
	for _, m := range f.replicas() {
		if m.Residents != nil {
			n += *m.Residents
		}
	}
	return n
}
