//lint:file-ignore SA1019 the second version of the model is another format, which Grafana before 12 cannot import.

package warmgrafana_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	warmgrafana "github.com/warmroute/warmroute/integrations/grafana"
	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// load reads the dashboard as Grafana's own schema has it, in which each kind of
// panel and of query has its own, and refuses whatever that does not know.
func load(t *testing.T) dashboard.Dashboard {
	t.Helper()
	require.NoError(t, strict(warmgrafana.Dashboard()))
	var d dashboard.Dashboard
	require.NoError(t, json.Unmarshal(warmgrafana.Dashboard(), &d))
	require.NoError(t, d.Validate())
	return d
}

// strict reports what the schema does not know, or misses.
func strict(raw []byte) error {
	plugins.RegisterDefaultPlugins()
	err := new(dashboard.Dashboard).UnmarshalJSONStrict(raw)
	var found cog.BuildErrors
	if errors.As(err, &found) && len(found) == 0 {
		// In v0.0.22 a list of no errors is an error that is not nil; for the same
		// reason the panels are checked but not kept.
		return nil
	}
	return err
}

// query is one expression of a panel.
type query struct{ panel, expr string }

func queries(t *testing.T) []query {
	t.Helper()
	var out []query
	for _, p := range load(t).Panels {
		if p.Panel == nil {
			continue
		}
		require.NotEmpty(t, p.Panel.Targets, *p.Panel.Title)
		for _, target := range p.Panel.Targets {
			q, ok := target.(*prometheus.Dataquery)
			if !ok {
				v, isValue := target.(prometheus.Dataquery)
				require.True(t, isValue, "%s: a target of type %T", *p.Panel.Title, target)
				q = &v
			}
			out = append(out, query{*p.Panel.Title, q.Expr})
		}
	}
	require.NotEmpty(t, out)
	return out
}

func TestDashboardIsOfGrafanasSchema(t *testing.T) {
	d := load(t)
	assert.Equal(t, "warmroute", *d.Uid)
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	assert.Equal(t, []string{"datasource", "instance", "model", "replica"}, variables)
}

// The schema check can fail.
func TestSchemaRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, change := range map[string]func(panel map[string]any){
		"panel":   func(p map[string]any) { p["madeUp"] = 1 },
		"options": func(p map[string]any) { p["options"].(map[string]any)["madeUp"] = 1 },
		"query":   func(p map[string]any) { p["targets"].([]any)[0].(map[string]any)["madeUp"] = 1 },
		"type":    func(p map[string]any) { p["gridPos"] = "wide" },
	} {
		t.Run(name, func(t *testing.T) {
			var raw map[string]any
			require.NoError(t, json.Unmarshal(warmgrafana.Dashboard(), &raw))
			change(raw["panels"].([]any)[1].(map[string]any))
			changed, err := json.Marshal(raw)
			require.NoError(t, err)
			require.ErrorContains(t, strict(changed), "panels[1]")
		})
	}
}

// Panels lie side by side on Grafana's 24 columns, and each can be told from the
// others and says what it shows.
func TestPanels(t *testing.T) {
	taken := map[string]string{}
	var ids []uint32
	var titles []string
	place := func(title string, id *uint32, pos *dashboard.GridPos) {
		require.NotNil(t, id, title)
		require.NotNil(t, pos, title)
		assert.NotContains(t, ids, *id, title)
		assert.NotContains(t, titles, title)
		ids, titles = append(ids, *id), append(titles, title)
		assert.LessOrEqual(t, pos.X+pos.W, uint32(24), title)
		for x := pos.X; x < pos.X+pos.W; x++ {
			for y := pos.Y; y < pos.Y+pos.H; y++ {
				cell := fmt.Sprint(x, ",", y)
				assert.Empty(t, taken[cell], "%s lies over %s", title, taken[cell])
				taken[cell] = title
			}
		}
	}
	rows := 0
	for _, p := range load(t).Panels {
		if p.RowPanel != nil {
			rows++
			place(*p.RowPanel.Title, &p.RowPanel.Id, p.RowPanel.GridPos)
			continue
		}
		place(*p.Panel.Title, p.Panel.Id, p.Panel.GridPos)
		assert.NotEmpty(t, *p.Panel.Description, *p.Panel.Title)
		assert.Equal(t, "${datasource}", *p.Panel.Datasource.Uid, *p.Panel.Title)
	}
	assert.Equal(t, 7, rows)
	slices.Sort(titles)
	assert.Contains(t, titles, "Sticky share")
}

// states keeps the states that a replica is exported to be in or not.
type states struct {
	family string
	known  []string
}

func (s *states) Family(name, _ string, _ metrics.Kind) { s.family = name }

func (s *states) Sample(_ float64, labels ...string) {
	if at := slices.Index(labels, "state"); s.family == "warmroute_replica_state" && at >= 0 {
		s.known = append(s.known, labels[at+1])
	}
}

func (s *states) Histogram(metrics.HistogramSnapshot, ...string) {}

// A state has its colour whichever others there are.
func TestEachStateHasItsColour(t *testing.T) {
	var exported states
	warmroute.Stats{Pools: []warmroute.PoolStats{{Replicas: []warmroute.ReplicaStats{{State: replica.Up}}}}}.Export(&exported)
	colours := map[any]string{} // by state
	for _, p := range load(t).Panels {
		if p.Panel == nil || *p.Panel.Title != "States" {
			continue
		}
		for _, o := range p.Panel.FieldConfig.Overrides {
			require.Equal(t, "color", o.Properties[0].Id)
			colour, ok := o.Properties[0].Value.(map[string]any)["fixedColor"].(string)
			require.True(t, ok)
			assert.NotContains(t, slices.Collect(maps.Values(colours)), colour)
			colours[o.Matcher.Options] = colour
		}
	}
	require.NotEmpty(t, exported.known)
	for _, state := range exported.known {
		assert.Contains(t, colours, any(state))
	}
	assert.Len(t, colours, len(exported.known))
}

func TestDashboardReturnsACopy(t *testing.T) {
	warmgrafana.Dashboard()[0] = 'x'
	assert.Equal(t, byte('{'), warmgrafana.Dashboard()[0])
}
