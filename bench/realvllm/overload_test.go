package realvllm_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/bench"
	"github.com/warmroute/warmroute/bench/report"
)

var (
	overload = flag.Duration("overload", 0, "how long a `step` of TestOverload lasts; without it the test does not run")
	sessions = flag.String("sessions", "2,4,8,12,16", "conversations at a time in the steps of TestOverload")
	runs     = flag.Int("runs", 1, "runs of TestOverload, interleaved")
)

// smallWorkload is of conversations of which some eight fit an engine of two ranks
// with 300 blocks of 32 tokens.
func smallWorkload(step time.Duration) bench.Workload {
	return bench.Workload{
		Name:     "overload",
		About:    "closed loop, system prompt and first message of about 1,250 tokens each, 5 more turns of 100, answers of 48",
		StepTime: step,
		Conversation: func(rng *rand.Rand) bench.Conversation {
			c := bench.Conversation{System: bench.Text{Name: "overload", Tokens: 1250}}
			for i := range 6 {
				turn := bench.Turn{New: 90 + rng.IntN(21), Answer: 48}
				if i == 0 {
					turn.New = 1200 + rng.IntN(101)
				}
				c.Turns = append(c.Turns, turn)
			}
			return c
		},
	}
}

// TestOverload puts the engine's own balancing, plain affinity, and waiting for
// room in the prefix caches side by side on an engine whose caches hold some
// eight of the conversations (two ranks, BLOCKS=300, SEQS=32).
func TestOverload(t *testing.T) {
	if *overload == 0 {
		t.Skip("no -overload given: it takes some minutes, alone on the machine (see README.md)")
	}
	e, _ := setUp(t)
	gateway := func(opts ...warmroute.Option) string {
		endpoint, err := warmroute.ParseEndpoint(*engineURL)
		require.NoError(t, err)
		router, err := warmroute.New([]warmroute.Endpoint{endpoint}, append(opts, warmroute.WithDebugHeaders(true))...)
		require.NoError(t, err)
		ran := make(chan error, 1)
		go func() { ran <- router.Run(t.Context()) }()
		require.NoError(t, router.Scrape(t.Context()))
		server := httptest.NewServer(&httputil.ReverseProxy{
			// The transport brings the request to a replica, whatever its URL.
			Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
			Transport:     router.Transport(nil),
			FlushInterval: -1,
			ErrorHandler:  warmroute.ErrorHandler,
		})
		t.Cleanup(func() {
			server.Close()
			assert.NoError(t, router.Close())
			assert.NoError(t, <-ran)
		})
		return server.URL
	}
	seqs := warmroute.WithMaxNumSeqs(32)
	targets := []bench.Target{
		{Name: "engine's own", URLs: []string{e.url}},
		{Name: "affinity", URLs: []string{gateway(seqs, warmroute.WithResidency(warmroute.ResidencyOff))}},
		{Name: "residents", URLs: []string{gateway(seqs)}},
		{Name: "to the end", URLs: []string{gateway(seqs, warmroute.WithTurnover(0))}},
	}
	w := smallWorkload(*overload)
	live := bench.Live{Metrics: []string{e.url}, Model: e.model, IgnoreEOS: true, Drain: 5 * time.Minute}

	var table report.Table
	for _, field := range strings.Split(*sessions, ",") {
		n, err := strconv.Atoi(field)
		require.NoError(t, err)
		for run := range *runs {
			for _, target := range targets { // interleaved, so that a busy minute is not one target's
				w.Steps, w.Seeds = []int{n}, []uint64{uint64(run + 1)}
				one, err := live.Table(t.Context(), w, target)
				require.NoError(t, err)
				require.Len(t, one.Rows, 1)
				r := one.Rows[0]
				assert.Zero(t, r.Failed, "%s at %d", target.Name, n)
				table.Rows = append(table.Rows, r)
				fmt.Printf("%2d run %d %-13s %6.0f tok/min, TTFB mean %.2f p50 %.2f p95 %.2f s, cached %.1f %%, completion p50 %.1f s\n",
					n, run+1, target.Name, r.OutputPerMinute, r.TTFB.Mean, r.TTFB.P50, r.TTFB.P95, 100*r.CachedShare, r.Completion.P50)
				table.Title, table.Workload, table.Engines = one.Title, one.Workload, one.Engines
			}
		}
	}
	require.NoError(t, table.WriteText(os.Stdout))
}
