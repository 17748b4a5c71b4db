package chart

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// Mark is one labelled point of a Frontier.
type Mark struct {
	ID, Style int
	Hollow    bool // shown, and not judged by the frontier line
	Name      string
	X, Y      float64
}

// Frontier is a chart of points on two logarithmic axes of which the least is
// best on both, with a line through the points that no other beats on both.
type Frontier struct {
	ID     string
	Title  string
	Across string // what x is, with its unit
	Up     string // what y is, with its unit
	Marks  []Mark
	Format func(v float64) string
}

// Judged returns the marks that can be drawn and are not hollow.
func (f *Frontier) Judged() []Mark {
	return slices.DeleteFunc(f.drawn(), func(m Mark) bool { return m.Hollow })
}

func (f *Frontier) drawn() []Mark {
	return slices.DeleteFunc(slices.Clone(f.Marks), func(m Mark) bool {
		return !Shows(m.X, true) || !Shows(m.Y, true)
	})
}

// best returns the marks that no other beats on both axes, by x.
func best(marks []Mark) []Mark {
	marks = slices.Clone(marks)
	slices.SortStableFunc(marks, func(a, b Mark) int {
		return cmp.Or(cmp.Compare(a.X, b.X), cmp.Compare(a.Y, b.Y))
	})
	var line []Mark
	for _, m := range marks {
		if len(line) == 0 || m.Y < line[len(line)-1].Y {
			line = append(line, m)
		}
	}
	return line
}

// SVG draws the chart.
func (f *Frontier) SVG() template.HTML {
	marks := f.drawn()
	bottom := above + tall + 20
	loX, hiX, loY, hiY := math.Inf(1), 0.0, math.Inf(1), 0.0
	for _, m := range marks {
		loX, hiX = min(loX, m.X), max(hiX, m.X)
		loY, hiY = min(loY, m.Y), max(hiY, m.Y)
	}
	front := best(f.Judged())
	d := begin(f.ID, f.Title, f.description(marks, front), wide, bottom+48)
	d.text(0, 17, "heading", "", f.Title)
	d.text(0, 37, "label", "", f.Up+", log scale")
	d.text((left+right)/2, bottom+38, "label", "middle", f.Across+", log scale")
	if len(marks) == 0 {
		return d.end()
	}
	x := logarithmic(loX, hiX, left, right)
	y := logarithmic(loY, hiY, bottom, above)
	d.yAxis(y, left, right)
	d.xTicks(x, bottom)

	var p path
	for _, m := range front {
		p.to(x.at(m.X), y.at(m.Y))
	}
	if len(front) > 1 {
		d.empty("path", "d", p.b.String(), "class", "front")
	}
	room := &room{left: left + 2, right: wide, top: above - 6, bottom: bottom - 2}
	for _, m := range marks {
		room.take(around(x.at(m.X), y.at(m.Y), 6))
	}
	// What was measured lies on top of what was published.
	slices.SortStableFunc(marks, func(a, b Mark) int {
		switch {
		case a.Hollow == b.Hollow:
			return 0
		case a.Hollow:
			return -1
		}
		return 1
	})
	for _, m := range marks {
		name := shorten(m.Name, longest)
		px, py := x.at(m.X), y.at(m.Y)
		spot := room.label(px, py, width(name, fontSize))
		s := Series{ID: m.ID, Style: m.Style}
		d.open("g", "class", s.class())
		if spot.far {
			d.line(px, py, spot.endX, spot.endY, "leader")
		}
		d.marker(m.Style, m.Hollow, px, py, fmt.Sprintf("%s: %s %s, %s %s", m.Name, f.Across, f.Format(m.X), f.Up, f.Format(m.Y)))
		d.text(spot.x, spot.y, "name", spot.anchor, name)
		d.close("g")
	}
	return d.end()
}

func (f *Frontier) description(marks, front []Mark) string {
	parts := make([]string, 0, len(marks))
	for _, m := range marks {
		parts = append(parts, fmt.Sprintf("%s: %s and %s", m.Name, f.Format(m.X), f.Format(m.Y)))
	}
	names := make([]string, 0, len(front))
	for _, m := range front {
		names = append(names, m.Name)
	}
	return fmt.Sprintf("%s against %s. %s. Beaten by none on both: %s.",
		f.Across, f.Up, strings.Join(parts, "; "), strings.Join(names, ", "))
}
