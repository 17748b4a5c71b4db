package realvllm_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// engine is the vLLM under test, asked directly.
type engine struct {
	t          *testing.T
	url, model string
}

// rankCounts is what one rank has counted: finished requests and tokens.
type rankCounts struct{ requests, prompt, cached, completion float64 }

func (c rankCounts) add(o rankCounts) rankCounts {
	return rankCounts{c.requests + o.requests, c.prompt + o.prompt, c.cached + o.cached, c.completion + o.completion}
}

func (c rankCounts) sub(o rankCounts) rankCounts {
	return rankCounts{c.requests - o.requests, c.prompt - o.prompt, c.cached - o.cached, c.completion - o.completion}
}

func sum(counts map[int]rankCounts) (total rankCounts) {
	for _, c := range counts {
		total = total.add(c)
	}
	return total
}

func (e engine) get(path string) []byte {
	e.t.Helper()
	resp, err := http.Get(e.url + path)
	require.NoError(e.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(e.t, err)
	require.Equal(e.t, http.StatusOK, resp.StatusCode, "%s: %s", path, body)
	return body
}

func (e engine) servedModel() string {
	e.t.Helper()
	var list struct{ Data []struct{ ID string } }
	require.NoError(e.t, json.Unmarshal(e.get("/v1/models"), &list))
	require.NotEmpty(e.t, list.Data)
	return list.Data[0].ID
}

// series returns the engine's counters of one family by rank.
func (e engine) series(names ...string) map[int][]float64 {
	e.t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(e.get("/metrics"))))
	require.NoError(e.t, err)
	out := map[int][]float64{}
	for i, name := range names {
		require.Contains(e.t, families, name)
		for _, m := range families[name].GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() != "engine" {
					continue
				}
				rank, err := strconv.Atoi(l.GetValue())
				require.NoError(e.t, err)
				if out[rank] == nil {
					out[rank] = make([]float64, len(names))
				}
				out[rank][i] += m.GetCounter().GetValue()
			}
		}
	}
	return out
}

func (e engine) counts() map[int]rankCounts {
	e.t.Helper()
	out := map[int]rankCounts{}
	for rank, v := range e.series("vllm:request_success_total", "vllm:prompt_tokens_total", "vllm:prefix_cache_hits_total", "vllm:generation_tokens_total") {
		out[rank] = rankCounts{v[0], v[1], v[2], v[3]}
	}
	return out
}

func (e engine) hitRate(rank int) float64 {
	v := e.series("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")[rank]
	return v[0] / v[1]
}

// settled returns the counts once the engine has counted so many more finished
// requests: its statistics arrive a moment after the answers.
func (e engine) settled(before map[int]rankCounts, requests int) map[int]rankCounts {
	e.t.Helper()
	var after map[int]rankCounts
	require.Eventually(e.t, func() bool {
		after = e.counts()
		return sum(after).sub(sum(before)).requests >= float64(requests)
	}, 10*time.Second, 20*time.Millisecond, "the engine has not counted %d requests", requests)
	assert.InDelta(e.t, requests, sum(after).sub(sum(before)).requests, 0, "something else is running on the engine")
	return after
}

// moved are the ranks that have counted anything in between.
func moved(before, after map[int]rankCounts) []int {
	var out []int
	for rank := range after {
		if after[rank] != before[rank] {
			out = append(out, rank)
		}
	}
	slices.Sort(out)
	return out
}

func byRank(before, after map[int]rankCounts) string {
	var out []string
	for rank := range len(after) {
		out = append(out, fmt.Sprintf("%d: %.0f", rank, after[rank].requests-before[rank].requests))
	}
	return strings.Join(out, ", ")
}
