package warmroute_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// on sends a turn of a session over an API.
func on(t *testing.T, r *warmroute.Router, session, api string, prompt, cached int64) warmroute.Lease {
	t.Helper()
	lease := route(t, r, warmroute.Request{Session: session})
	lease.Answered()
	lease.Done(warmroute.Result{API: api, Usage: warmroute.Usage{Prompt: prompt, Cached: cached, Completion: 10, Known: true, Measured: true}})
	return lease
}

func saying(version string) *pageSet {
	return newPages(map[string]string{"a": idle(0, 1), "a/version": `{"version":"` + version + `"}`})
}

func TestAVersionBeforeTheRankHeaderIsRoutedAsOneReplica(t *testing.T) {
	var log bytes.Buffer
	var events events
	opts := []warmroute.Option{warmroute.WithHooks(&events), warmroute.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))}
	pages := saying("0.13.0")
	scraped(t, pages, at("http://a"), opts, func(t *testing.T, r *warmroute.Router) {
		time.Sleep(3 * time.Second)
		p := r.Stats().Pools[0]
		require.Len(t, p.Replicas, 1, "without a single request")
		assert.Nil(t, p.Replicas[0].Rank)
		require.Len(t, p.Problems, 1)
		assert.Contains(t, p.Problems[0], "http://a is vLLM 0.13.0, which ignores the rank header")
		assert.Contains(t, events.reasons(), "rank header ignored")

		on(t, r, "s", "/v1/chat/completions", 1000, 0)
		on(t, r, "s", "/v1/chat/completions", 1100, 16)
		on(t, r, "s", "/v1/chat/completions", 1200, 1088)
		assert.Equal(t, warmroute.VerdictStats{Ignored: 1, Verified: 1}, r.Stats().Pools[0].Turns, "the engine's own balancing lost it, not the cache")
		assert.Zero(t, r.Stats().Pools[0].Gaps[0].Turns-r.Stats().Pools[0].Gaps[0].Kept)

		// It is upgraded.
		pages.set("a", idle(0, 1)+"process_start_time_seconds 5\n")
		time.Sleep(3 * time.Second)
		pages.set("a/version", `{"version":"0.26.0"}`)
		pages.set("a", idle(0, 1)+"process_start_time_seconds 6\n")
		time.Sleep(3 * time.Second)
		assert.Len(t, r.Replicas(), 2)
		assert.Empty(t, r.Stats().Pools[0].Problems)
	})
	assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("level=ERROR msg=\"rank header ignored\" url=http://a problem=\"http://a is vLLM 0.13.0")), "said once: %s", log.String())
}

func TestVersionsThatSayNothingOfRanks(t *testing.T) {
	for _, version := range []string{"0.14.0", "0.33.0", "0.13.1.dev12+g0123abc", "0.1.dev1+g0123abc", "dev", "0.3.0", "1.0.0"} {
		scraped(t, saying(version), at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
			time.Sleep(3 * time.Second)
			assert.Len(t, r.Replicas(), 2, version)
			assert.Empty(t, r.Stats().Pools[0].Problems)
		})
	}
	t.Run("another program's: the page has what is newer", func(t *testing.T) {
		pages := saying("0.13.0")
		pages.set("a", idle(0, 1)+`vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 0`+"\n")
		scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
			time.Sleep(3 * time.Second)
			assert.Len(t, r.Replicas(), 2)
			assert.Empty(t, r.Stats().Pools[0].Problems)
		})
	})
	t.Run("another engine's", func(t *testing.T) {
		page := ""
		for rank := range 2 {
			page += fmt.Sprintf("sglang:num_running_reqs{dp_rank=\"%d\"} 0\n", rank)
		}
		pages := newPages(map[string]string{"a": page, "a/version": `{"version":"0.13.0"}`, "a/server_info": `{"version":"0.13.0"}`})
		scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
			time.Sleep(3 * time.Second)
			assert.Len(t, r.Replicas(), 2)
			assert.Empty(t, r.Stats().Pools[0].Problems)
		})
	})
	t.Run("of a single engine", func(t *testing.T) {
		pages := saying("0.13.0")
		pages.set("a", idle(0))
		scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
			time.Sleep(3 * time.Second)
			on(t, r, "s", "/v1/responses", 1000, 0)
			on(t, r, "s", "/v1/responses", 1100, 992)
			time.Sleep(3 * time.Second)
			assert.Empty(t, r.Stats().Pools[0].Problems, "there is no rank to choose")
			assert.Equal(t, warmroute.VerdictStats{Verified: 1}, r.Stats().Pools[0].Turns)
		})
	})
}

func TestResponsesBeforeTheirRankHeader(t *testing.T) {
	var events events
	scraped(t, saying("0.26.0"), at("http://a"), []warmroute.Option{warmroute.WithHooks(&events)}, func(t *testing.T, r *warmroute.Router) {
		time.Sleep(3 * time.Second)
		assert.Empty(t, r.Stats().Pools[0].Problems, "nobody uses them")
		on(t, r, "chat", "/v1/chat/completions", 1000, 0)
		home := on(t, r, "s", "/v1/responses", 1000, 0).Replica().Name()
		assert.Equal(t, home, on(t, r, "s", "/v1/responses", 1100, 1000).Replica().Name())
		assert.Equal(t, warmroute.VerdictStats{Ignored: 1}, r.Stats().Pools[0].Turns, "without waiting for proof, whatever it found")
		events.mu.Lock()
		assert.Equal(t, warmroute.Ignored, events.done[len(events.done)-1].Verdict)
		events.mu.Unlock()
		time.Sleep(2 * time.Second)
		require.Len(t, r.Stats().Pools[0].Problems, 1)
		assert.Contains(t, r.Stats().Pools[0].Problems[0], "http://a ignores the rank header on /v1/responses")
		assert.Len(t, r.Replicas(), 2, "the others of its APIs honour it")
		assert.Contains(t, events.reasons(), "rank header ignored")
	})
}

func TestAnEndpointUsedForResponsesAlone(t *testing.T) {
	scraped(t, saying("0.26.0"), at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
		time.Sleep(3 * time.Second)
		on(t, r, "s", "/v1/responses", 1000, 0)
		time.Sleep(2 * time.Second)
		require.Len(t, r.Replicas(), 1, "is routed as the one replica that it is")
		on(t, r, "s", "/v1/responses", 1100, 0)
		on(t, r, "s", "/v1/responses", 1200, 1088)
		assert.Equal(t, warmroute.VerdictStats{Verified: 1}, r.Stats().Pools[0].Turns)
		time.Sleep(2 * time.Second)
		assert.Len(t, r.Replicas(), 1)

		on(t, r, "chat", "/v1/chat/completions", 1000, 0)
		time.Sleep(2 * time.Second)
		assert.Len(t, r.Replicas(), 2, "until an API is used that honours ranks")
		assert.Len(t, r.Stats().Pools[0].Problems, 1)
		for range 3 {
			on(t, r, "s", "/v1/responses", 1300, 0)
			time.Sleep(2 * time.Second)
			assert.Len(t, r.Replicas(), 2)
		}
	})
}

func TestTheVersionIsAskedUntilItIsTold(t *testing.T) {
	pages := saying("0.13.0")
	pages.set("a/version", "<html>starting")
	scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
		time.Sleep(30 * time.Second)
		pages.set("a/version", `{"version":"0.13.0"}`)
		time.Sleep(10 * time.Second)
		assert.Len(t, r.Replicas(), 2)
		time.Sleep(30 * time.Second)
		assert.Len(t, r.Replicas(), 1)
	})
}

func TestWhatAnEndpointIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := map[string]int{}
		client := metricsClient(func(u string) string {
			path := strings.TrimPrefix(u, "http://a")
			mu.Lock()
			asked[path]++
			mu.Unlock()
			switch path {
			case "/metrics":
				return idle(0)
			case "/version":
				return `{"version":"0.26.0"}`
			case "/v1/models":
				return models("base")
			}
			return ""
		})
		router := newRouter(t, at("http://a"), warmroute.WithScrapeClient(client))
		go func() { assert.NoError(t, router.Run(t.Context())) }()
		time.Sleep(5*time.Minute + 30*time.Second)
		assert.NoError(t, router.Close())
		assert.Greater(t, asked["/metrics"], 250)
		delete(asked, "/metrics")
		assert.Equal(t, map[string]int{"/version": 1, "/v1/models": 6, "/server_info?config_format=json": 1}, asked)
	})
}
