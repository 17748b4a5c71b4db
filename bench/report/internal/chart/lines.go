package chart

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// Point is a value y at x. A NaN y is missing and breaks the line.
type Point struct{ X, Y float64 }

// Series is one line of a chart.
type Series struct {
	ID     int // class s<ID>
	Style  int // colour and marker
	Dashed bool
	Name   string
	Points []Point // in the order of X
}

// Lines is a line chart.
type Lines struct {
	ID     string // a name that no other element of the page has
	Title  string
	Unit   string  // of y
	Across string  // what x is
	Log    bool    // of y
	Top    float64 // the least a linear y axis ends at
	Series []Series
	// Format writes a y with its unit, for tooltips and the description.
	Format func(y float64) string
}

const (
	fontSize = 13.0 // of all but titles; the style sheet has the same
	wide     = 400.0
	left     = 46.0
	right    = wide - 16
	above    = 54.0
	tall     = 210.0
	rowTall  = 20.0
)

// SVG draws the chart: title, unit, axes, lines and legend. A series with
// nothing to show is left out.
func (l *Lines) SVG() template.HTML {
	var (
		drawn []Series
		xs    []float64
		lo    = math.Inf(1)
		hi    = 0.0
	)
	for _, s := range l.Series {
		var visible bool
		for _, p := range s.Points {
			if l.shows(p) {
				visible = true
				xs = append(xs, p.X)
				lo, hi = min(lo, p.Y), max(hi, p.Y)
			}
		}
		if visible {
			drawn = append(drawn, s)
		}
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)

	bottom := above + tall
	x := across(xs, left+14, right-8)
	var y scale
	if l.Log && len(drawn) > 0 {
		y = logarithmic(lo, hi, bottom, above)
	} else {
		y = fromZero(max(hi, l.Top), bottom, above)
	}
	entries, rows := legend(drawn, bottom+62)
	d := begin(l.ID, l.Title, l.description(drawn), wide, bottom+50+float64(rows)*rowTall)

	d.text(0, 17, "heading", "", l.Title)
	unit := l.Unit
	if l.Log {
		unit += ", log scale"
	}
	d.text(0, 37, "label", "", unit)
	d.yAxis(y, left, right)
	d.xTicks(x, bottom)
	d.text((left+right)/2, bottom+37, "label", "middle", l.Across)

	// What was measured lies on top of what was published.
	for _, dashed := range []bool{true, false} {
		for _, s := range drawn {
			if s.Dashed == dashed {
				l.draw(d, s, x, y)
			}
		}
	}
	for _, e := range entries {
		d.legendEntry(e)
	}
	return d.end()
}

func (l *Lines) shows(p Point) bool {
	return Shows(p.Y, l.Log) && math.Abs(p.X) <= most
}

func (l *Lines) draw(d *drawing, s Series, x, y scale) {
	d.open("g", "class", s.class())
	var p path
	for _, point := range s.Points {
		if l.shows(point) {
			p.to(x.at(point.X), y.at(point.Y))
		} else {
			p.lift()
		}
	}
	d.empty("path", "d", p.b.String(), "class", s.stroke())
	for _, point := range s.Points {
		if l.shows(point) {
			title := fmt.Sprintf("%s, %s %s: %s", s.Name, digits(point.X), l.Across, l.Format(point.Y))
			d.marker(s.Style, s.Dashed, x.at(point.X), y.at(point.Y), title)
		}
	}
	d.close("g")
}

// description says where every line begins and ends.
func (l *Lines) description(drawn []Series) string {
	parts := make([]string, 0, len(drawn))
	for _, s := range drawn {
		var seen []Point
		for _, p := range s.Points {
			if l.shows(p) {
				seen = append(seen, p)
			}
		}
		first, last := seen[0], seen[len(seen)-1]
		part := fmt.Sprintf("%s: %s at %s", s.Name, l.Format(first.Y), digits(first.X))
		if len(seen) > 1 {
			part += fmt.Sprintf(", %s at %s", l.Format(last.Y), digits(last.X))
		}
		parts = append(parts, part)
	}
	return l.Title + " over " + l.Across + ". " + strings.Join(parts, "; ") + "."
}

func (s Series) class() string { return fmt.Sprintf("s%d c%d", s.ID, s.Style%Colours) }

func (s Series) stroke() string {
	if s.Dashed {
		return "stroke dashed"
	}
	return "stroke"
}

// yAxis draws a line across and a number for every tick, and the line that the
// x axis stands on.
func (d *drawing) yAxis(y scale, from, to float64) {
	for i, v := range y.ticks {
		at := y.at(v)
		if at != y.from {
			d.line(from, at, to, at, "grid")
		}
		d.text(from-7, at+4.5, "tick", "end", y.label(i))
	}
	d.line(from, y.from, to, y.from, "axis")
}

// xTicks draws the ticks and the numbers under an x axis. The first and the
// last number are always there, of the others those with room.
func (d *drawing) xTicks(x scale, y float64) {
	half := func(i int) float64 { return width(x.label(i), fontSize)/2 + 3 }
	taken := math.Inf(-1)
	end := len(x.ticks) - 1
	for i, v := range x.ticks {
		at := x.at(v)
		d.line(at, y, at, y+4, "axis")
		if i > 0 && i < end && (at-half(i) < taken || at+half(i) > x.at(x.ticks[end])-half(end)) {
			continue
		}
		d.text(at, y+19, "tick", "middle", x.label(i))
		taken = at + half(i)
	}
}

type entry struct {
	Series
	x, y float64
}

const sample = 30.0 // the width of a legend entry's piece of line, with the space after it

// legend places the entries in rows below y and says how many rows they take.
func legend(all []Series, y float64) ([]entry, int) {
	var (
		entries []entry
		x       float64
		rows    = 1
	)
	for _, s := range all {
		w := sample + width(shorten(s.Name, longest), fontSize) + 12
		if x > 0 && x+w > wide {
			x = 0
			rows++
		}
		entries = append(entries, entry{s, x, y + float64(rows-1)*rowTall})
		x += w
	}
	return entries, rows
}

// longest is the number of characters of a name that a chart has room for.
const longest = 36

func (d *drawing) legendEntry(e entry) {
	d.open("g", "class", e.class())
	d.line(e.x, e.y-4.5, e.x+24, e.y-4.5, e.stroke())
	d.marker(e.Style, e.Dashed, e.x+12, e.y-4.5, "")
	d.element("text", shorten(e.Name, longest), "x", number(e.x+sample), "y", number(e.y), "class", "name")
	d.close("g")
}

// Swatch is the line and marker of a series alone, for a legend in the page.
// It is hidden from screen readers: the name stands beside it.
func Swatch(style int, dashed bool) template.HTML {
	s := Series{Style: style, Dashed: dashed}
	d := new(drawing)
	d.open("svg", "class", fmt.Sprintf("swatch c%d", style%Colours), "viewBox", "0 0 24 14", "aria-hidden", "true")
	d.line(0, 7, 24, 7, s.stroke())
	d.marker(style, dashed, 12, 7, "")
	return d.end()
}
