package realvllm_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"slices"
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
	only     = flag.String("targets", "", "the targets of TestOverload, all if empty: engine's own, affinity, residents, to the end")
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
	if *only != "" {
		names := strings.Split(*only, ",")
		targets = slices.DeleteFunc(targets, func(t bench.Target) bool { return !slices.Contains(names, t.Name) })
		require.Len(t, targets, len(names), "targets %q", *only)
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
	if *runs > 1 {
		means(&table)
	}
}

// means prints what the runs of a target have in common, and from where to where
// their output and their mean go.
func means(table *report.Table) {
	type group struct {
		sessions int
		target   string
	}
	var groups []group
	rows := map[group][]report.Row{}
	for _, r := range table.Rows {
		g := group{r.Sessions, r.Policy}
		if rows[g] == nil {
			groups = append(groups, g)
		}
		rows[g] = append(rows[g], r)
	}
	fmt.Println("\nsessions  target         runs   tok/min (least to most)     TTFB mean (least to most)     p50    p95   cached   completion p50")
	for _, g := range groups {
		of := func(value func(r *report.Row) report.Value) (mean, least, most float64) {
			least = math.Inf(1)
			for _, r := range rows[g] {
				v := float64(value(&r))
				mean += v / float64(len(rows[g]))
				least, most = min(least, v), max(most, v)
			}
			return mean, least, most
		}
		output, outputLeast, outputMost := of(func(r *report.Row) report.Value { return r.OutputPerMinute })
		ttfb, ttfbLeast, ttfbMost := of(func(r *report.Row) report.Value { return r.TTFB.Mean })
		p50, _, _ := of(func(r *report.Row) report.Value { return r.TTFB.P50 })
		p95, _, _ := of(func(r *report.Row) report.Value { return r.TTFB.P95 })
		cached, _, _ := of(func(r *report.Row) report.Value { return r.CachedShare })
		completion, _, _ := of(func(r *report.Row) report.Value { return r.Completion.P50 })
		fmt.Printf("%8d  %-13s  %4d   %7.0f (%5.0f to %5.0f)   %11.2f (%5.2f to %5.2f)   %5.2f  %5.2f   %4.1f %%   %14.1f\n",
			g.sessions, g.target, len(rows[g]), output, outputLeast, outputMost, ttfb, ttfbLeast, ttfbMost, p50, p95, 100*cached, completion)
	}
}
