package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"

	"github.com/warmroute/warmroute/bench/report/internal/chart"
)

//go:embed page.html.tmpl
var pageTemplate string

//go:embed page.css
var pageStyle string

// WriteHTML writes one HTML page that needs nothing else: no script, no
// network. It has charts over the number of sessions of TTFB p50 and p95,
// output, prefix hits, busy replicas and stayed turns; where more than two
// policies were measured, TTFB p50 against p95; each replica's load over time;
// and the table. What is missing everywhere is left out. Each policy has one
// colour and one marker throughout, and published figures are dashed.
//
// The page follows the reader's light or dark theme. It is also well-formed
// XML. Names are escaped, and their control characters shown as U+FFFD.
// Charts leave out what their axes cannot show: negative figures, and on the
// logarithmic axes 0.
//
// The error is the writer's.
func (t *Table) WriteHTML(w io.Writer) error {
	page, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("page template: %w", err)
	}
	var b bytes.Buffer
	if err := page.Execute(&b, t.page()); err != nil {
		return fmt.Errorf("page template: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// pageView is what the template shows.
type pageView struct {
	Style     template.CSS
	Title     string
	Facts     []factView
	Series    []seriesView
	Published bool
	Charts    []drawnChart
	Frontiers []template.HTML
	Loads     []loadStep
	FirstSeed string // whose load it is, where there are several
	Columns   []columnView
	Groups    []groupView
	Failures  []string
}

type factView struct{ Name, Text string }

type columnView struct{ Top, Name, About string }

type groupView struct {
	Sessions int
	Lines    []chartLine
}

type seriesView struct {
	ID     int
	Label  string
	Swatch template.HTML
}

func viewOf(s series) seriesView {
	return seriesView{ID: s.id, Label: s.label, Swatch: chart.Swatch(s.style, s.published)}
}

func (t *Table) page() pageView {
	groups, all := t.arrange()
	view := pageView{
		Style:     template.CSS(pageStyle),
		Title:     "Comparison of routing policies",
		Frontiers: frontiers(groups),
		Loads:     loads(groups),
		Failures:  failures(groups),
	}
	if len(t.Seeds) > 1 {
		view.FirstSeed = strconv.FormatUint(t.Seeds[0], 10)
	}
	for _, f := range t.facts() {
		if f.name == "" {
			view.Title = f.text
		} else {
			view.Facts = append(view.Facts, factView{f.name, f.text})
		}
	}
	for _, s := range all {
		view.Series = append(view.Series, viewOf(s))
		view.Published = view.Published || s.published
	}
	for _, c := range lineCharts() {
		if drawn, ok := c.draw(groups, all); ok {
			view.Charts = append(view.Charts, drawn)
		}
	}
	shown := known(columns(), groups)
	for _, c := range shown {
		view.Columns = append(view.Columns, columnView{c.top, c.name, c.about})
	}
	for _, g := range groups {
		one := groupView{Sessions: g.sessions}
		for _, l := range g.lines {
			cells := chartLine{Series: viewOf(l.series)}
			for _, c := range shown {
				cells.Cells = append(cells.Cells, c.format(c.of(l.row)))
			}
			one.Lines = append(one.Lines, cells)
		}
		view.Groups = append(view.Groups, one)
	}
	return view
}
