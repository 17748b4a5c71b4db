package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

// placements is where the conversations of a run were placed, by the engines' own
// logs.
type placements struct {
	conversations float64
	firstCached   float64 // part of the prompts of first turns that was in a cache
	cached        float64 // the same of all turns
	imbalance     float64 // conversations of the replica that has most, over the mean
	apart         float64 // part of the conversations that is on its team's replicas
	firstTTFB     float64 // mean of first turns, seconds from arrival at the engine
	ttfb          float64 // mean of all turns, seconds as their clients see it
}

func (p *placements) add(q *placements, weight float64) {
	p.conversations += q.conversations * weight
	p.firstCached += q.firstCached * weight
	p.cached += q.cached * weight
	p.imbalance += q.imbalance * weight
	p.apart += q.apart * weight
	p.firstTTFB += q.firstTTFB * weight
	p.ttfb += q.ttfb * weight
}

// teams notes which conversation begins with which system prompt.
type teams struct {
	base http.RoundTripper
	mu   sync.Mutex
	of   map[string]string // by conversation
}

func (t *teams) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var chat struct {
		Messages []struct{ Content string }
	}
	if err := json.Unmarshal(body, &chat); err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.of[req.Header.Get(conversationHeader)] = chat.Messages[0].Content
	t.mu.Unlock()
	out := req.Clone(req.Context())
	out.Body = io.NopCloser(bytes.NewReader(body))
	return t.base.RoundTrip(out)
}

// load is a workload, or a part of it.
type load struct {
	w        Workload
	sessions int
	length   time.Duration
}

// placed runs one step.
func (l load) placed(ctx context.Context, p Policy, seed uint64) (placements, error) {
	w := l.w
	w.Steps, w.StepTime, w.Seeds = []int{l.sessions}, l.length, nil
	w = w.filled()
	if err := w.check(); err != nil {
		return placements{}, err
	}
	team := &teams{of: map[string]string{}}
	var servers []*fakevllm.Server
	connect := p.Connect
	p.Connect = func(s Site) (Gateway, error) {
		servers = s.Base.(*exit).base.(*cluster).servers
		g, err := connect(s)
		team.base, g.Transport = g.Transport, team
		return g, err
	}
	s := &simulation{w: &w, policy: p, seed: seed, steps: []int{0}, stop: ctx}
	var err error
	if stuck := inBubble(func() { err = s.run() }); err != nil || stuck != nil {
		return placements{}, errors.Join(err, stuck)
	}
	out := placementsOf(servers, w.Engines.Ranks, team.of)
	out.ttfb = float64(s.rows[0].TTFB.Mean)
	return out, nil
}

func placementsOf(servers []*fakevllm.Server, ranks int, team map[string]string) (p placements) {
	type first struct {
		fakevllm.Run
		replica int
	}
	firsts := map[string]first{}
	prompt, cached := 0, 0
	for i, server := range servers {
		for _, r := range server.Log() {
			prompt += r.PromptTokens
			cached += r.CachedTokens
			if f, ok := firsts[r.Session]; !ok || r.Arrived.Before(f.Arrived) {
				firsts[r.Session] = first{r, i*ranks + r.Rank}
			}
		}
	}
	n := float64(len(firsts))
	all := make([]float64, len(servers)*ranks)
	byTeam := map[string][]float64{}
	prompts, found := 0, 0
	for id, f := range firsts {
		prompts += f.PromptTokens
		found += f.CachedTokens
		p.firstTTFB += f.FirstToken.Sub(f.Arrived).Seconds() / n
		all[f.replica]++
		if byTeam[team[id]] == nil {
			byTeam[team[id]] = make([]float64, len(all))
		}
		byTeam[team[id]][f.replica]++
	}
	for _, on := range byTeam {
		// Its replicas are those that have most of it, as many as its part of the
		// conversations takes.
		slices.SortFunc(on, func(a, b float64) int { return cmp.Compare(b, a) })
		sum := 0.0
		for _, x := range on {
			sum += x
		}
		for _, x := range on[:max(1, int(math.Round(sum/n*float64(len(on)))))] {
			p.apart += x / n
		}
	}
	p.conversations = n
	p.firstCached, p.cached = float64(found)/float64(prompts), float64(cached)/float64(prompt)
	p.imbalance = slices.Max(all) * float64(len(all)) / n
	return p
}

// compare has a line of means over the seeds for each load and policy.
func compare(t *testing.T, loads []load, policies []Policy, seeds []uint64) [][]placements {
	t.Helper()
	type job struct{ load, policy, seed int }
	jobs := make(chan job)
	results := make([]placements, len(loads)*len(policies)*len(seeds))
	errs := make([]error, len(results))
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range jobs {
				at := (j.load*len(policies)+j.policy)*len(seeds) + j.seed
				results[at], errs[at] = loads[j.load].placed(t.Context(), policies[j.policy], seeds[j.seed])
			}
		})
	}
	for l := range loads {
		for p := range policies {
			for s := range seeds {
				jobs <- job{l, p, s}
			}
		}
	}
	close(jobs)
	workers.Wait()
	require.NoError(t, errors.Join(errs...))
	table := make([][]placements, len(loads))
	for l := range loads {
		table[l] = make([]placements, len(policies))
		for p := range policies {
			for s := range seeds {
				table[l][p].add(&results[(l*len(policies)+p)*len(seeds)+s], 1/float64(len(seeds)))
			}
		}
	}
	return table
}

// TestSharedPrefix has new conversations prefer replicas that know their system
// prompts, and not:
//
//	go test ./bench -run TestSharedPrefix -v
//
// With -v it has three seeds and more loads, and prints them.
func TestSharedPrefix(t *testing.T) {
	loads := []load{
		{OneAfterAnother(), 3, OneAfterAnother().StepTime},
		{SharedPrompt(), 48, 2 * time.Minute},
		{TwoTeams(), 16, 3 * time.Minute},
		{FourTeams(), 16, 3 * time.Minute},
	}
	seeds := []uint64{1}
	if testing.Verbose() && !testing.Short() {
		for i := range loads[1:] {
			loads[1+i].length = 5 * time.Minute
		}
		loads = append(loads, load{TwoTeams(), 48, 5 * time.Minute}, load{FourTeams(), 32, 5 * time.Minute}, load{FourTeams(), 48, 5 * time.Minute})
		seeds = []uint64{1, 2, 3}
	}
	policies := []Policy{Affinity(), SharedPrefix(), Residents(), ResidentsSharedPrefix()}
	table := compare(t, loads, policies, seeds)
	if testing.Verbose() {
		out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		for l, load := range loads {
			fmt.Fprintf(out, "%s, %d\tconversations\tfirst turns cached %%\tcached %%\tmax/mean\tapart %%\tfirst turns' TTFB mean s\tall turns'\t\n", load.w.Name, load.sessions)
			for p, policy := range policies {
				x := &table[l][p]
				fmt.Fprintf(out, "%s\t%.0f\t%.1f\t%.1f\t%.2f\t%.0f\t%.2f\t%.2f\t\n",
					policy.Name, x.conversations, x.firstCached*100, x.cached*100, x.imbalance, x.apart*100, x.firstTTFB, x.ttfb)
			}
		}
		require.NoError(t, out.Flush())
	}
	for l, load := range loads {
		for p := 0; p < len(policies); p += 2 {
			without, with := &table[l][p], &table[l][p+1]
			what := fmt.Sprintf("%s, %d: %s", load.w.Name, load.sessions, policies[p+1].Name)
			assert.Greater(t, without.conversations, 30., what)
			assert.Less(t, with.imbalance, 1.25, what)
			switch load.w.Name {
			case "one after another":
				assert.LessOrEqual(t, with.imbalance, 1.1, "%s: all of them on one would be 4", what)
				assert.InDelta(t, without.firstCached, with.firstCached, 0.01, what)
			case "shared prompt":
				assert.LessOrEqual(t, with.imbalance, without.imbalance+0.1, what)
				assert.InDelta(t, without.firstCached, with.firstCached, 0.01, what)
			case "two teams":
				assert.Less(t, without.apart, 0.7, what)
				assert.Greater(t, with.apart, without.apart+0.2, what)
				assert.Greater(t, with.apart, 0.75, what)
				assert.Greater(t, with.firstCached, without.firstCached-0.02, what)
			case "four teams, one large":
				if load.sessions > 16 {
					break // where turns wait for room there is little to choose
				}
				assert.Greater(t, with.firstCached, without.firstCached+0.08, what)
				assert.Less(t, with.firstTTFB, 0.75*without.firstTTFB, what)
				assert.Less(t, with.ttfb, 0.8*without.ttfb, what)
				assert.Greater(t, with.apart, without.apart+0.15, what)
			}
		}
	}
}
