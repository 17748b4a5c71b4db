package warmgrafana_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/families"
	"github.com/warmroute/warmroute/metrics"
)

// filled is an expression as Grafana sends it when all is chosen.
func filled(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$__all", ".*", "$instance", ".*", "$model", ".*", "$replica", ".*").Replace(expr)
}

// known is the families that the router exports, by the names of their series.
func known() map[string]families.Family {
	out := map[string]families.Family{}
	for _, f := range families.All() {
		if f.Kind != metrics.KindHistogram {
			out[f.Name] = f
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			part := f
			if suffix == "_bucket" {
				part.Labels = append([]string{"le"}, f.Labels...)
			}
			out[f.Name+suffix] = part
		}
	}
	return out
}

// check holds an expression against what the router exports, and returns the
// metrics that it names.
func check(t *testing.T, where, expr string) []string {
	t.Helper()
	require.NotContains(t, filled(expr), "$", where)
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(filled(expr))
	require.NoError(t, err, where)
	exported := known()
	var names []string
	var labels []string // by which the whole expression goes
	parser.Inspect(parsed, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.AggregateExpr:
			labels = append(labels, n.Grouping...)
		case *parser.VectorSelector:
			f, ok := exported[n.Name]
			if !assert.True(t, ok, "%s: the router has no %s", where, n.Name) {
				return nil
			}
			names = append(names, f.Name)
			for _, m := range n.LabelMatchers {
				if m.Name != "__name__" && m.Name != "instance" { // which the scrape adds
					assert.Contains(t, f.Labels, m.Name, "%s: %s", where, n)
				}
			}
			cumulative := f.Kind != metrics.KindGauge
			assert.Equal(t, cumulative, rated(path), "%s: a rate is of what only grows, and that is of no use without", where)
			for _, node := range path {
				if a, ok := node.(*parser.AggregateExpr); ok {
					for _, l := range a.Grouping {
						assert.Contains(t, f.Labels, l, "%s: %s", where, a)
					}
				}
			}
		}
		return nil
	})
	assert.NotEmpty(t, names, where)
	return names
}

// rated reports whether one of the nodes is a rate.
func rated(path []parser.Node) bool {
	for _, node := range path {
		if c, ok := node.(*parser.Call); ok && (c.Func.Name == "rate" || c.Func.Name == "increase") {
			return true
		}
	}
	return false
}

func TestQueriesNameWhatTheRouterExports(t *testing.T) {
	used := map[string]bool{}
	for _, q := range queries(t) {
		for _, name := range check(t, q.panel, q.expr) {
			used[name] = true
		}
		assert.Contains(t, q.expr, `instance=~"$instance"`, q.panel)
	}
	values := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	variables := 0
	for _, v := range load(t).Templating.List {
		if v.Type != "query" {
			continue
		}
		variables++
		parts := values.FindStringSubmatch(*v.Definition)
		require.Len(t, parts, 3, v.Name)
		parsed, err := parser.NewParser(parser.Options{}).ParseExpr(filled(parts[1]))
		require.NoError(t, err, v.Name)
		selector, ok := parsed.(*parser.VectorSelector)
		require.True(t, ok, v.Name)
		f, ok := known()[selector.Name]
		require.True(t, ok, "%s: the router has no %s", v.Name, selector.Name)
		if parts[2] != "instance" {
			assert.Contains(t, f.Labels, parts[2], v.Name)
		}
		used[f.Name] = true
	}
	assert.Equal(t, 3, variables)

	// What the dashboard leaves out.
	var unused []string
	for _, f := range families.All() {
		if !used[f.Name] {
			unused = append(unused, f.Name)
		}
	}
	assert.Equal(t, []string{
		"warmroute_discovery_endpoints", "warmroute_discovery_failing", "warmroute_discovery_updated_timestamp_seconds",
		"warmroute_replica_finding", // a part of the state
		"warmroute_replica_info", "warmroute_scrape_stale", "warmroute_gap_turns_total", "warmroute_max_running",
		"warmroute_answers_cached", "warmroute_affinity", "warmroute_queue_active", "warmroute_queue_max_length",
	}, unused)
}
