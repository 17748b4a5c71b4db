// Package chart draws line charts, labelled points and strips of load over
// time as SVG elements for an HTML page.
//
// It takes colours and fonts from the page's style sheet by class and CSS
// variable, so that one drawing serves light and dark: classes c0 to c6 set
// the variable --c of a series, s0, s1, ... name the series. It never loads
// anything, and every text it is given is escaped.
package chart

import (
	"html/template"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Colours and Markers are how many of each there are. They have no common
// factor, so a pair of both comes back only after their product.
const (
	Colours = 7
	Markers = 6
)

// drawing is an SVG element under way. It is the one place that escapes.
type drawing struct{ b strings.Builder }

// begin opens the svg element, with its title and description for readers who
// do not see it.
func begin(id, title, description string, width, height float64) *drawing {
	d := new(drawing)
	d.open("svg", "id", id, "class", "chart", "role", "img",
		"viewBox", "0 0 "+number(width)+" "+number(height),
		"aria-labelledby", id+"-title "+id+"-desc")
	d.element("title", title, "id", id+"-title")
	d.element("desc", description, "id", id+"-desc")
	return d
}

func (d *drawing) end() template.HTML {
	d.close("svg")
	return template.HTML(d.b.String())
}

// open begins an element; attributes are names and values in turn, and those
// with an empty value are left out.
func (d *drawing) open(name string, attributes ...string) {
	d.tag(name, attributes)
	d.b.WriteByte('>')
}

func (d *drawing) empty(name string, attributes ...string) {
	d.tag(name, attributes)
	d.b.WriteString("/>")
}

func (d *drawing) tag(name string, attributes []string) {
	d.b.WriteByte('<')
	d.b.WriteString(name)
	for i := 0; i+1 < len(attributes); i += 2 {
		if attributes[i+1] == "" {
			continue
		}
		d.b.WriteByte(' ')
		d.b.WriteString(attributes[i])
		d.b.WriteString(`="`)
		template.HTMLEscape(&d.b, []byte(attributes[i+1]))
		d.b.WriteByte('"')
	}
}

func (d *drawing) close(name string) {
	d.b.WriteString("</")
	d.b.WriteString(name)
	d.b.WriteByte('>')
}

func (d *drawing) element(name, text string, attributes ...string) {
	d.open(name, attributes...)
	template.HTMLEscape(&d.b, []byte(text))
	d.close(name)
}

func (d *drawing) text(x, y float64, class, anchor, text string) {
	d.element("text", text, "x", number(x), "y", number(y), "class", class, "text-anchor", anchor)
}

func (d *drawing) line(x1, y1, x2, y2 float64, class string) {
	d.empty("line", "x1", number(x1), "y1", number(y1), "x2", number(x2), "y2", number(y2), "class", class)
}

// number writes a coordinate to a tenth of a unit.
func number(v float64) string {
	r := math.Round(v*10) / 10
	if r == 0 {
		r = 0 // not -0
	}
	return strconv.FormatFloat(r, 'f', -1, 64)
}

// path collects the points of a line that may have gaps.
type path struct {
	b   strings.Builder
	pen bool
}

func (p *path) to(x, y float64) {
	if p.pen {
		p.b.WriteByte('L')
	} else {
		p.b.WriteByte('M')
	}
	p.pen = true
	p.b.WriteString(number(x))
	p.b.WriteByte(' ')
	p.b.WriteString(number(y))
}

func (p *path) lift() { p.pen = false }

// shut joins the last point to the one after the last gap.
func (p *path) shut() {
	if p.pen {
		p.b.WriteByte('Z')
	}
	p.lift()
}

// width estimates how wide a text is at a font size, rather too wide than too
// narrow: what reads the page has fonts that are not known here.
func width(text string, size float64) float64 {
	var em float64
	for _, r := range text {
		switch {
		case r >= 0x1100:
			em += 1.05
		case strings.ContainsRune("mwMWQ@%", r):
			em += 0.9
		case strings.ContainsRune("iljtfrI.,:;'|()[] ", r):
			em += 0.36
		default:
			em += 0.63
		}
	}
	return em * size
}

// shorten cuts the end off a text of more than that many characters.
func shorten(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// fit cuts the beginning off a text that is wider than that: what tells
// replicas apart is at the end of their names.
func fit(text string, most float64) string {
	const enough = 64 // characters fill any strip's margin
	runes := []rune(text)
	runes = runes[max(0, len(runes)-enough):]
	for width(text, fontSize) > most && len(runes) > 1 {
		runes = runes[1:]
		text = "…" + string(runes)
	}
	return text
}

// marker draws the marker of a style round a point. A hollow one is larger, so
// that it shows round another one at the same place.
func (d *drawing) marker(style int, hollow bool, x, y float64, title string) {
	r := 4.4
	var p path
	corners := func(xy ...float64) {
		for i := 0; i < len(xy); i += 2 {
			p.to(x+xy[i]*r, y+xy[i+1]*r)
		}
		p.shut()
	}
	class := "marker"
	if hollow {
		class += " hollow"
		r = 5.4
	}
	d.open("g", "class", class)
	switch style % Markers {
	case 0:
		d.empty("circle", "cx", number(x), "cy", number(y), "r", number(r))
	case 1:
		corners(-.9, -.9, .9, -.9, .9, .9, -.9, .9)
	case 2:
		corners(0, -1.2, 1.15, .85, -1.15, .85)
	case 3:
		corners(0, -1.3, 1.3, 0, 0, 1.3, -1.3, 0)
	case 4:
		corners(0, 1.2, 1.15, -.85, -1.15, -.85)
	case 5:
		corners(-.35, -1.15, .35, -1.15, .35, -.35, 1.15, -.35, 1.15, .35, .35, .35,
			.35, 1.15, -.35, 1.15, -.35, .35, -1.15, .35, -1.15, -.35, -.35, -.35)
	}
	if p.b.Len() > 0 {
		d.empty("path", "d", p.b.String())
	}
	if title != "" {
		d.element("title", title)
	}
	d.close("g")
}
