package bench_test

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench"
)

// TestRepeats has every workload run several times under the policies that have
// turns wait, whose tables hang most on what is told of first at one moment. In
// each run goroutines let others go before them by chance, as a busy machine does.
func TestRepeats(t *testing.T) {
	t.Parallel()
	short := func(w bench.Workload, sessions int, step time.Duration) bench.Workload {
		w.Steps, w.StepTime, w.Seeds, w.Published, w.Outages = []int{sessions}, step, []uint64{1}, nil, nil
		return w
	}
	trace, err := bench.Trace(traceFile(t), bench.TraceOptions{})
	require.NoError(t, err)
	trace.Engines.KVTokens = 4000 // the recorded ones are small
	churn := short(bench.Churn(), 24, time.Minute)
	churn.Outages = []bench.Outage{{Step: 0, Endpoint: 1, From: 15 * time.Second, To: 30 * time.Second}}
	gateways := short(bench.SeedTable(), 24, 2*time.Minute)
	gateways.Gateways = 2
	for name, w := range map[string]bench.Workload{
		"overload":         short(bench.SeedTable(), 24, 5*time.Minute),
		"two gateways":     gateways,
		"two teams":        short(bench.TwoTeams(), 128, time.Minute),
		"hot conversation": short(bench.HotConversation(), 12, 2*time.Minute),
		"bursts":           short(bench.Bursts(), 8, 3*time.Minute),
		"churn":            churn,
		"trace":            short(trace, 24, time.Minute),
		"small":            small(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := 4
			if raceEnabled {
				runs, w.StepTime = 2, min(w.StepTime, 30*time.Second) // it has goroutines go by chance itself
			}
			policies := []bench.Policy{bench.Affinity(), bench.Residents(), bench.ResidentsSharedPrefix(), bench.Turnover("tail", 1)}
			for i := range policies {
				policies[i] = yielding(policies[i])
			}
			run := func() string {
				table, err := bench.Runner{}.Table(t.Context(), w, policies...)
				require.NoError(t, err)
				b, err := json.Marshal(table)
				require.NoError(t, err)
				return string(b)
			}
			want := run()
			for range runs - 1 {
				assertSame(t, want, run(), "again")
			}
		})
	}
}

// yielding is a policy whose goroutines let others go before them by chance.
func yielding(p bench.Policy) bench.Policy {
	connect := p.Connect
	p.Connect = func(s bench.Site) (bench.Gateway, error) {
		s.Base = yields{s.Base}
		g, err := connect(s)
		g.Transport = yields{g.Transport}
		return g, err
	}
	return p
}

func yield() {
	for range rand.IntN(6) {
		runtime.Gosched()
	}
}

// yields is a transport that yields before and after each call, and each read.
type yields struct{ base http.RoundTripper }

func (y yields) RoundTrip(req *http.Request) (*http.Response, error) {
	yield()
	defer yield()
	resp, err := y.base.RoundTrip(req)
	if err == nil {
		resp.Body = yieldingBody{resp.Body}
	}
	return resp, err
}

type yieldingBody struct{ io.ReadCloser }

func (b yieldingBody) Read(p []byte) (int, error) {
	yield()
	defer yield()
	return b.ReadCloser.Read(p)
}
