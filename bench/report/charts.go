package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"

	"github.com/warmroute/warmroute/bench/report/internal/chart"
)

// lineChart is one figure of every policy over the number of sessions.
type lineChart struct {
	id, title, unit string
	log             bool
	top             float64
	suffix          string // what follows a formatted figure
	of              func(*Row) Value
	format          func(Value) string
}

func lineCharts() []lineChart {
	share := func(id, title string, of func(*Row) Value) lineChart {
		return lineChart{id, title, "%", false, 100, " %", func(r *Row) Value { return of(r) * 100 }, fixed(1)}
	}
	return []lineChart{
		{"ttfb-p50", "TTFB p50", "seconds", true, 0, " s", func(r *Row) Value { return r.TTFB.P50 }, seconds},
		{"ttfb-p95", "TTFB p95", "seconds", true, 0, " s", func(r *Row) Value { return r.TTFB.P95 }, seconds},
		{"output", "Output", "tokens per minute, all replicas", false, 0, "", func(r *Row) Value { return r.OutputPerMinute }, fixed(0)},
		share("hits", "Prefix cache hits, share of tokens looked up", func(r *Row) Value { return r.HitShare }),
		{"busy", "Busy replicas", "mean over the step", false, 0, "", func(r *Row) Value { return r.Busy }, fixed(2)},
		share("stayed", "Stayed, share of later turns", func(r *Row) Value { return r.Stayed }),
	}
}

// drawnChart is a chart in the page, with its figures as a table.
type drawnChart struct {
	Title string
	SVG   template.HTML
	Steps []int
	Lines []chartLine
}

type chartLine struct {
	Series seriesView
	Cells  []string
}

// draw returns the chart, and false where it has nothing to show.
func (c lineChart) draw(groups []group, all []series) (drawnChart, bool) {
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(a.sessions, b.sessions) })
	lines := &chart.Lines{
		ID: "chart-" + c.id, Title: c.title, Unit: c.unit, Across: "sessions at a time", Log: c.log, Top: c.top,
		Format: func(y float64) string { return c.format(Value(y)) + c.suffix },
	}
	out := drawnChart{Title: c.title}
	for _, g := range groups {
		out.Steps = append(out.Steps, g.sessions)
	}
	var visible bool
	for _, s := range all {
		one := chart.Series{ID: s.id, Style: s.style, Dashed: s.published, Name: s.label}
		cells := chartLine{Series: viewOf(s)}
		var known bool
		for _, g := range groups {
			v := Missing()
			for _, l := range g.lines {
				if l.series == s {
					v = c.of(l.row)
				}
			}
			known = known || v.Known()
			visible = visible || chart.Shows(float64(v), c.log)
			one.Points = append(one.Points, chart.Point{X: float64(g.sessions), Y: float64(v)})
			cells.Cells = append(cells.Cells, c.format(v))
		}
		if known {
			lines.Series = append(lines.Series, one)
			out.Lines = append(out.Lines, cells)
		}
	}
	if !visible {
		return drawnChart{}, false
	}
	out.SVG = lines.SVG()
	return out, true
}

// frontiers returns a chart of TTFB p50 against p95 for every number of
// sessions that has more than two policies to compare.
func frontiers(groups []group) []template.HTML {
	var out []template.HTML
	for i, g := range groups {
		f := &chart.Frontier{
			ID: "frontier-" + strconv.Itoa(i), Title: sessions(g.sessions),
			Across: "TTFB p50, seconds", Up: "TTFB p95, seconds",
			Format: func(v float64) string { return seconds(Value(v)) },
		}
		for _, l := range g.lines {
			f.Marks = append(f.Marks, chart.Mark{
				ID: l.series.id, Style: l.series.style, Hollow: l.series.published, Name: l.series.label,
				X: float64(l.row.TTFB.P50), Y: float64(l.row.TTFB.P95),
			})
		}
		if len(f.Judged()) > 2 {
			out = append(out, f.SVG())
		}
	}
	return out
}

// loadStep is the load charts of one number of sessions.
type loadStep struct {
	Title  string
	Top    string // the requests at the upper edge of every strip
	Open   bool
	Panels []loadPanel
}

type loadPanel struct {
	Series seriesView
	SVG    template.HTML
}

// loads returns the load charts, those of one step on the same scales. All
// steps are open when they are few enough to look through, else the last.
func loads(groups []group) []loadStep {
	const few = 12
	var (
		steps []loadStep
		total int
	)
	for i, g := range groups {
		var (
			step       loadStep
			charts     []*chart.Strips
			until, top float64
		)
		for k, l := range g.lines {
			c := &chart.Strips{ID: fmt.Sprintf("load-%d-%d", i, k), Title: l.series.label + ", " + sessions(g.sessions)}
			for _, load := range l.row.Load {
				c.Strips = append(c.Strips, chart.Strip{Replica: printable(load.Replica), Samples: samples(load)})
			}
			if !c.Shows() {
				continue
			}
			u, t := chart.Bounds(c.Strips)
			until, top = max(until, u), max(top, t)
			charts = append(charts, c)
			step.Panels = append(step.Panels, loadPanel{Series: viewOf(l.series)})
		}
		if len(charts) == 0 {
			continue
		}
		for k, c := range charts {
			c.Until, c.Top = until, top
			step.Panels[k].SVG = c.SVG()
		}
		step.Title, step.Top = sessions(g.sessions), count(Value(top))
		total += len(charts)
		steps = append(steps, step)
	}
	for i := range steps {
		steps[i].Open = total <= few || i == len(steps)-1
	}
	return steps
}

func samples(load Load) []chart.Sample {
	at := func(values []Value, i int) float64 {
		if i >= len(values) {
			return math.NaN()
		}
		return float64(values[i])
	}
	out := make([]chart.Sample, len(load.At))
	for i := range out {
		out[i] = chart.Sample{At: at(load.At, i), Running: at(load.Running, i), Waiting: at(load.Waiting, i)}
	}
	return out
}

func sessions(n int) string {
	if n == 1 {
		return "1 session"
	}
	return strconv.Itoa(n) + " sessions"
}
