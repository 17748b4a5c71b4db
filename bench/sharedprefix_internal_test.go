package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

// placements is where the conversations of a run were placed.
type placements struct {
	firstCached float64 // of the prompts of first turns, the part that was in a cache
	cached      float64 // of all prompts
	imbalance   float64 // conversations of the replica that has most over the mean
	ttfb        float64 // mean of first turns, seconds
	n           int
}

// placed runs one step of a workload and looks at the engines' own logs.
func placed(t *testing.T, w Workload, sessions int, length time.Duration, p Policy, seed uint64) placements {
	t.Helper()
	w.Steps, w.StepTime, w.Seeds = []int{sessions}, length, nil
	w = w.filled()
	require.NoError(t, w.check())
	var servers []*fakevllm.Server
	inner := p.Connect
	p.Connect = func(s Site) (Gateway, error) {
		servers = s.Base.(*cluster).servers
		return inner(s)
	}
	s := &simulation{w: &w, policy: p, seed: seed, steps: []int{0}, stop: t.Context()}
	var err error
	require.NoError(t, inBubble(func() { err = s.run() }))
	require.NoError(t, err)

	type first struct {
		fakevllm.Run
		replica int
	}
	conversations := map[string]first{}
	counts := make([]float64, w.Engines.Endpoints*w.Engines.Ranks)
	prompt, cached := 0, 0
	for i, server := range servers {
		for _, r := range server.Log() {
			prompt += r.PromptTokens
			cached += r.CachedTokens
			if c, ok := conversations[r.Session]; !ok || r.Arrived.Before(c.Arrived) {
				conversations[r.Session] = first{r, i*w.Engines.Ranks + r.Rank}
			}
		}
	}
	var out placements
	prompts, found := 0, 0
	for _, c := range conversations {
		counts[c.replica]++
		prompts += c.PromptTokens
		found += c.CachedTokens
		out.ttfb += c.FirstToken.Sub(c.Arrived).Seconds()
	}
	out.n = len(conversations)
	out.ttfb /= float64(out.n)
	out.firstCached, out.cached = float64(found)/float64(prompts), float64(cached)/float64(prompt)
	out.imbalance = slices.Max(counts) * float64(len(counts)) / float64(out.n)
	return out
}

func TestSharedPrefixFigures(t *testing.T) {
	var b strings.Builder
	tab := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "load\tpolicy\tn\tfirst turns cached %\tcached %\tmax/mean\tTTFB mean s\t")
	for _, load := range []struct {
		w        Workload
		sessions int
		length   time.Duration
	}{
		{OneAfterAnother(), 3, OneAfterAnother().StepTime},
		{SharedPrompt(), 48, 5 * time.Minute},
		{TwoTeams(), 16, 5 * time.Minute},
		{TwoTeams(), 48, 5 * time.Minute},
		{FourTeams(), 16, 5 * time.Minute},
		{FourTeams(), 32, 5 * time.Minute},
		{FourTeams(), 48, 5 * time.Minute},
	} {
		for _, p := range []Policy{Affinity(), SharedPrefix(), Residents(), ResidentsSharedPrefix()} {
			var m placements
			for _, seed := range []uint64{1, 2, 3} {
				x := placed(t, load.w, load.sessions, load.length, p, seed)
				m.firstCached += x.firstCached / 3
				m.cached += x.cached / 3
				m.imbalance += x.imbalance / 3
				m.ttfb += x.ttfb / 3
				m.n += x.n
			}
			fmt.Fprintf(tab, "%s, %d\t%s\t%d\t%.1f\t%.1f\t%.2f\t%.2f\t\n", load.w.Name, load.sessions, p.Name, m.n, m.firstCached*100, m.cached*100, m.imbalance, m.ttfb)
		}
	}
	tab.Flush()
	t.Log("\n" + b.String())
}
