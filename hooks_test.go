package warmroute_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

// events is every hook at once.
type events struct {
	mu     sync.Mutex
	route  []warmroute.RouteEvent
	done   []warmroute.DoneEvent
	scrape []warmroute.ScrapeEvent
	state  []warmroute.ReplicaStateEvent
}

func (e *events) OnRoute(_ context.Context, v warmroute.RouteEvent) {
	e.mu.Lock()
	e.route = append(e.route, v)
	e.mu.Unlock()
}
func (e *events) OnDone(_ context.Context, v warmroute.DoneEvent) {
	e.mu.Lock()
	e.done = append(e.done, v)
	e.mu.Unlock()
}
func (e *events) OnScrape(v warmroute.ScrapeEvent) {
	e.mu.Lock()
	e.scrape = append(e.scrape, v)
	e.mu.Unlock()
}
func (e *events) OnReplicaState(v warmroute.ReplicaStateEvent) {
	e.mu.Lock()
	e.state = append(e.state, v)
	e.mu.Unlock()
}

func (e *events) reasons() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, v := range e.state {
		out = append(out, v.Reason)
	}
	return out
}

// nosy asks for everything when it is told of anything.
type nosy struct{ router *warmroute.Router }

func (n *nosy) OnReplicaState(warmroute.ReplicaStateEvent) { n.router.Stats() }
func (n *nosy) OnScrape(warmroute.ScrapeEvent) {
	if n.router != nil {
		n.router.Stats()
	}
}

func TestAHookMayAskForTheStats(t *testing.T) {
	var n nosy
	var e events
	simulate(t, 2, []warmroute.Option{warmroute.WithHooks(&e)}, func(t *testing.T, s *simulated) {
		n.router = newRouter(t, at("http://a"), warmroute.WithHooks(&n), warmroute.WithScrapeClient(metricsClient(func(string) string { return s.pages.get("a") })))
		require.NoError(t, n.router.Scrape(t.Context()))
		s.asleep, s.started = true, 7
		s.publish()
		time.Sleep(time.Second)
		require.NoError(t, n.router.Scrape(t.Context()))
		require.NoError(t, n.router.Drain("http://a"))
		assert.Len(t, n.router.Stats().Pools[0].Replicas, 2)
	})
}

func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e events
		client := metricsClient(func(string) string { return idle(0) })
		router := newRouter(t, at("http://a"), warmroute.WithHooks(&e), warmroute.WithScrapeClient(client))
		require.NoError(t, router.Scrape(t.Context()))
		for i := range 2 {
			lease := route(t, router, warmroute.Request{Session: "s"})
			lease.Answered()
			lease.Done(warmroute.Result{Usage: warmroute.Usage{Prompt: 1000, Cached: int64(990 * i), Known: true, Measured: true}})
		}
		require.Len(t, e.route, 2)
		assert.Equal(t, warmroute.Placed, e.route[0].Outcome)
		assert.Equal(t, warmroute.Sticky, e.route[1].Outcome)
		assert.True(t, e.route[1].Keyed)
		assert.Equal(t, "a:80", e.route[1].Replica.Name())
		require.Len(t, e.done, 2)
		assert.Equal(t, warmroute.Verdict(""), e.done[0].Verdict)
		assert.Equal(t, warmroute.Verified, e.done[1].Verdict)
		assert.Equal(t, int64(990), e.done[1].Result.Usage.Cached)
		require.Len(t, e.scrape, 1)
		assert.Equal(t, "http://a", e.scrape[0].URL)
		assert.Len(t, e.scrape[0].Page.Engines, 1)

		route(t, router, warmroute.Request{}).Done(warmroute.Result{Unreachable: true})
		require.NoError(t, router.Drain("a:80"))
		require.NoError(t, router.Resume("a:80"))
		require.NoError(t, router.Add(warmroute.Endpoint{URL: "http://b"}))
		require.NoError(t, router.Remove("http://b"))
		assert.Equal(t, []string{"unreachable", "drained", "resumed", "added", "removed"}, e.reasons())
		assert.Equal(t, replica.Down, e.state[0].State)
	})
	_, err := warmroute.New(at("http://a"), warmroute.WithHooks(7))
	var refused *warmroute.ConfigError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "hook", refused.Field)
	assert.Equal(t, "int", refused.Value)
}

// names are the replicas that were told of for a reason, in that order.
func (e *events) names(reason string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, v := range e.state {
		if v.Reason == reason {
			out = append(out, v.Replica.Name()+" "+string(v.State))
		}
	}
	return out
}

// Replicas that the metrics page shows to be there are told of like those that the
// program adds: whoever keeps account of them misses none.
func TestReplicasThatTheMetricsShowAreToldOf(t *testing.T) {
	var e events
	pages := newPages(map[string]string{"a": idle(0)})
	scraped(t, pages, at("http://a"), []warmroute.Option{warmroute.WithHooks(&e)}, func(t *testing.T, r *warmroute.Router) {
		assert.Empty(t, e.reasons())
		pages.set("a", idle(0, 1, 2))
		time.Sleep(time.Minute)
		require.Len(t, r.Replicas(), 3)
		assert.Equal(t, []string{"a:80@0 up", "a:80@1 up", "a:80@2 up"}, e.names("added"))
		assert.Equal(t, []string{"a:80 removed"}, e.names("removed"), "it has become three")
		pages.set("a", idle(0, 1))
		time.Sleep(time.Minute)
		require.Len(t, r.Replicas(), 2)
		assert.Equal(t, []string{"a:80 removed", "a:80@2 removed"}, e.names("removed"))
		assert.Len(t, e.names("added"), 3)
	})
}

// What an operator does is in the log.
func TestOperationsAreLogged(t *testing.T) {
	j := &journal{}
	r := newRouter(t, at("http://a"), warmroute.WithLogger(slog.New(j)))
	require.NoError(t, r.Drain("a:80"))
	require.NoError(t, r.Resume("http://a"))
	require.NoError(t, r.Add(warmroute.Endpoint{URL: "http://b", Ranks: 2}))
	require.NoError(t, r.Remove("http://a"))
	var messages []string
	for _, record := range j.all() {
		messages = append(messages, record.Message)
	}
	assert.Equal(t, []string{"replica drained", "replica resumed", "replica added", "replica added", "replica removed"}, messages)
	assert.Contains(t, j.String(), `msg="replica added" replica=b:80@1`)
}
