package bench_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/bench"
	"github.com/warmroute/warmroute/bench/report"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// fleet is simulated engines, and whatever else, by host.
type fleet struct {
	engines []*fakevllm.Server
	urls    []string
	hosts   map[string]http.RoundTripper

	mu       sync.Mutex
	requests []*http.Request
}

func newFleet(t *testing.T, engines int) *fleet {
	t.Helper()
	f := &fleet{hosts: map[string]http.RoundTripper{}}
	for i := range engines {
		e, err := fakevllm.New(fakevllm.Config{Ranks: 1, Blocks: 500, Seed: uint64(i)})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, e.Close()) })
		host := fmt.Sprintf("engine-%d", i)
		f.engines, f.urls, f.hosts[host] = append(f.engines, e), append(f.urls, "http://"+host), e
	}
	return f
}

func (f *fleet) RoundTrip(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.requests = append(f.requests, req)
	to := f.hosts[req.URL.Host]
	f.mu.Unlock()
	if to == nil {
		return nil, fmt.Errorf("no host %q", req.URL.Host)
	}
	resp, err := to.RoundTrip(req)
	if err == nil && strings.HasPrefix(req.URL.Host, "engine-") {
		resp.Header.Set("X-Engine", req.URL.Host)
	}
	return resp, err
}

// live is small without what a live run cannot have.
func live() bench.Workload {
	w := small()
	w.Outages, w.Seeds, w.TokenBytes, w.Published = nil, nil, 0, []report.Row{report.NewRow("p", 3)}
	return w
}

func TestLiveDirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		l := bench.Live{Metrics: f.urls, Transport: f, ReplicaHeader: "X-Engine", SessionHeader: "X-Chat", Header: http.Header{"Authorization": {"Bearer me"}}}
		table, err := l.Table(t.Context(), live(), bench.Target{Name: "direct", URLs: f.urls})
		require.NoError(t, err)
		require.Len(t, table.Rows, 2)
		assert.Equal(t, "small", table.Title)
		assert.Equal(t, "model sim, 2 replicas, 4.00 bytes of text a token", table.Engines)
		assert.Len(t, table.Published, 1)
		for i, r := range table.Rows {
			assert.Equal(t, "direct", r.Policy)
			assert.Equal(t, live().Steps[i], r.Sessions)
			assert.InDelta(t, 10, float64(r.Seconds), 0.1)
			assert.Zero(t, r.Failed)
			assert.Equal(t, report.Value(1), r.Stayed, "each client has its own engine")
			for _, v := range []report.Value{r.Requests, r.TTFB.P50, r.HitShare, r.CachedShare, r.OutputPerMinute, r.Busy} {
				assert.Positive(t, float64(v))
			}
			require.Len(t, r.Load, 2)
			assert.Equal(t, "engine-0", r.Load[0].Replica)
			assert.Len(t, r.Load[0].Running, 10)
		}
		generated := 0
		for _, e := range f.engines {
			generated += e.Rank(0).GenerationTokens
		}
		counted := float64(table.Rows[0].OutputPerMinute+table.Rows[1].OutputPerMinute) / 6
		assert.InEpsilon(t, generated, counted, 0.3, "and some after the steps' ends")

		sessions := map[string]bool{}
		for _, r := range f.requests {
			if r.Method == http.MethodPost {
				sessions[r.Header.Get("X-Chat")] = true
				assert.Empty(t, r.Header.Get("X-Session-Id"))
				assert.Equal(t, "Bearer me", r.Header.Get("Authorization"))
			}
		}
		assert.Greater(t, len(sessions), 10)
		assert.NotContains(t, sessions, "")
	})
}

// A gateway of ours in front of the engines, beside the engines themselves.
func TestLiveThroughAGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3)
		var endpoints []warmroute.Endpoint
		for _, u := range f.urls {
			endpoints = append(endpoints, warmroute.Endpoint{URL: u})
		}
		router, err := warmroute.New(endpoints, warmroute.WithDebugHeaders(true), warmroute.WithScrapeClient(&http.Client{Transport: f}))
		require.NoError(t, err)
		defer func() { assert.NoError(t, router.Close()) }()
		f.hosts["gateway"] = router.Transport(f)

		w := live()
		w.Steps, w.Seeds = []int{4}, []uint64{1, 2}
		var told, details []string
		l := bench.Live{
			Metrics: f.urls, Transport: f,
			Progress: func(what string, started, of int) {
				told = append(told, fmt.Sprintf("%s %d/%d", what, started, of))
			},
			Update: func(detail string) { details = append(details, detail) },
		}
		table, err := l.Table(t.Context(), w, bench.Target{Name: "direct", URLs: f.urls}, bench.Target{Name: "gateway", URLs: []string{"http://gateway"}})
		require.NoError(t, err)
		require.Len(t, table.Rows, 2)
		assert.False(t, table.Rows[0].Stayed.Known(), "nobody names the replica")
		assert.Equal(t, "gateway", table.Rows[1].Policy)
		assert.Greater(t, float64(table.Rows[1].Stayed), 0.9)
		assert.Zero(t, table.Rows[1].Failed)
		assert.Equal(t, []string{"direct, 4 sessions, seed 1 1/4", "direct, 4 sessions, seed 2 2/4", "gateway, 4 sessions, seed 1 3/4", "gateway, 4 sessions, seed 2 4/4"}, told)
		assert.GreaterOrEqual(t, len(details), 36)
		assert.Regexp(t, `^0 of 10 s, \d+ requests, 0 failed$`, details[0])
	})
}

func TestLiveWithoutMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		table, err := bench.Live{Transport: f}.Table(t.Context(), live(), bench.Target{URLs: f.urls})
		require.NoError(t, err)
		for _, r := range table.Rows {
			assert.Positive(t, float64(r.OutputPerMinute))
			assert.Positive(t, float64(r.CachedShare))
			assert.False(t, r.HitShare.Known() || r.Busy.Known() || r.Preemptions.Known())
		}
	})
}

func TestLiveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		w := live()
		w.StepTime = 1000 * time.Hour
		began := time.Now()
		table, err := bench.Live{Transport: f, MaxRequests: 9}.Table(t.Context(), w, bench.Target{URLs: f.urls})
		require.NoError(t, err)
		assert.Less(t, time.Since(began), time.Hour)
		for _, r := range table.Rows {
			assert.Equal(t, report.Value(9), r.Requests)
			assert.Zero(t, r.Failed, "what was sent is answered")
			assert.Less(t, r.Seconds, report.Value(3600))
		}

		w.StepTime, w.Steps = 200*time.Millisecond, []int{6}
		table, err = bench.Live{Transport: f, Drain: time.Nanosecond}.Table(t.Context(), w, bench.Target{URLs: f.urls})
		require.NoError(t, err)
		assert.Positive(t, float64(table.Rows[0].Failed), "cut off")
	})
}

func TestLiveEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		w := live()
		w.StepTime = time.Minute
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		time.AfterFunc(70*time.Second, func() { cancel(enough) })
		began := time.Now()
		table, err := bench.Live{Transport: f, Metrics: f.urls}.Table(ctx, w, bench.Target{URLs: f.urls})
		assert.ErrorIs(t, err, enough)
		assert.Less(t, time.Since(began), 75*time.Second)
		require.Len(t, table.Rows, 1, "the step that was complete")
		assert.Equal(t, 3, table.Rows[0].Sessions)
	})
}

// Texts of one run are of no use to the next, unless it is told to send the same.
func TestLiveSalt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		w := live()
		w.Steps, w.Conversation = []int{1}, fixed(bench.Conversation{Turns: []bench.Turn{{New: 800, Answer: 4}}})
		w.StepTime = 2 * time.Second
		cached := func(salt string) float64 {
			table, err := bench.Live{Transport: f, Salt: salt}.Table(t.Context(), w, bench.Target{URLs: f.urls})
			require.NoError(t, err)
			return float64(table.Rows[0].CachedShare)
		}
		assert.Less(t, cached(""), 0.1)
		assert.Less(t, cached(""), 0.1)
		assert.Less(t, cached("a"), 0.1)
		assert.Greater(t, cached("a"), 0.5)
		w.Cold = true
		assert.Less(t, cached("a"), 0.1, "words of its own for each step")
	})
}

func TestLiveCountsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		w := live()
		w.Steps = []int{4}
		time.AfterFunc(5*time.Second, func() { f.engines[1].Stop() })
		table, err := bench.Live{Transport: f, Metrics: f.urls}.Table(t.Context(), w, bench.Target{URLs: f.urls})
		require.NoError(t, err)
		r := table.Rows[0]
		assert.Positive(t, float64(r.Failed))
		assert.Less(t, r.Failed, r.Requests)
		assert.Contains(t, r.FirstFailure, "connection re", "reset or refused")
		assert.True(t, r.Load[1].Running[0].Known())
		assert.False(t, r.Load[1].Running[len(r.Load[1].Running)-1].Known(), "its page is gone")
		assert.True(t, r.HitShare.Known(), "of what was seen of it")
	})
}

// A tokenizer that makes a token of two bytes, and a template of seven.
func TestLiveCalibrates(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
			return
		}
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		text := strings.Split(strings.Split(string(body), `"content":"`)[1], `"`)[0]
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n", len(text)/2+7)
	}))
	defer server.Close()
	w := live()
	w.Steps, w.Think = []int{1}, nil
	table, err := bench.Live{MaxRequests: 2}.Table(t.Context(), w, bench.Target{Name: "t", URLs: []string{server.URL}})
	require.NoError(t, err)
	assert.Equal(t, "model m, 0 replicas, 2.00 bytes of text a token", table.Engines)
	assert.Zero(t, table.Rows[0].Failed)
	assert.False(t, table.Rows[0].CachedShare.Known(), "the usage has no details")
}

func TestLiveRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		down := newFleet(t, 1)
		down.engines[0].Stop()
		empty := roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("go_threads 3\n")), Request: r}, nil
		})
		f.hosts["empty"] = empty
		target := bench.Target{Name: "mine", URLs: f.urls}
		for name, test := range map[string]struct {
			live    bench.Live
			change  func(*bench.Workload)
			targets []bench.Target
			says    string
		}{
			"no target":         {bench.Live{Transport: f}, nil, nil, "no target"},
			"no URL":            {bench.Live{Transport: f}, nil, []bench.Target{{Name: "mine"}}, "mine"},
			"outages":           {bench.Live{Transport: f}, func(w *bench.Workload) { *w = bench.Churn() }, []bench.Target{target}, "outages"},
			"no steps":          {bench.Live{Transport: f}, func(w *bench.Workload) { w.Steps = nil }, []bench.Target{target}, "no steps"},
			"nobody there":      {bench.Live{Transport: down}, nil, []bench.Target{target}, "which model"},
			"not that model":    {bench.Live{Transport: f, Model: "other"}, nil, []bench.Target{target}, "size of a token"},
			"no list of models": {bench.Live{Transport: f}, nil, []bench.Target{{Name: "mine", URLs: []string{"http://empty"}}}, "v1/models"},
			"no metrics":        {bench.Live{Transport: f, Metrics: []string{"http://nobody"}}, nil, []bench.Target{target}, "nobody"},
			"no engine":         {bench.Live{Transport: f, Metrics: []string{"http://empty"}}, nil, []bench.Target{target}, "no engine"},
			"an engine twice":   {bench.Live{Transport: f, Metrics: []string{f.urls[0], f.urls[0] + "/"}}, nil, []bench.Target{target}, "twice"},
			"fewer than none":   {bench.Live{Transport: f, MaxRequests: -1}, nil, []bench.Target{target}, "MaxRequests is -1"},
			"no time to end":    {bench.Live{Transport: f, Drain: -1}, nil, []bench.Target{target}, "Drain -1ns"},
			"no token size":     {bench.Live{Transport: f}, func(w *bench.Workload) { w.TokenBytes = -1 }, []bench.Target{target}, "TokenBytes"},
			"no address":        {bench.Live{Transport: f, Metrics: []string{"http://a b"}}, nil, []bench.Target{target}, "metrics"},
		} {
			w := live()
			if test.change != nil {
				test.change(&w)
			}
			_, err := test.live.Table(t.Context(), w, test.targets...)
			assert.ErrorContains(t, err, test.says, name)
		}
	})
}
