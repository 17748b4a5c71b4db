package chart

import (
	"regexp"
	"testing"
)

var (
	attribute  = regexp.MustCompile(` (?:d|x|y|x1|x2|y1|y2|cx|cy|r|width|height|viewBox)="([^"]*)"`)
	coordinate = regexp.MustCompile(`^(?:[MLZ ]|-?\d{1,5}(?:\.\d)?)*$`)
)

// FuzzCharts checks that whatever the figures, all coordinates are numbers not
// far from the drawing.
func FuzzCharts(f *testing.F) {
	f.Add(2.05, 3.5, .5, 180., true)
	f.Add(1e15, 1e-6, -1., 0., true)
	f.Add(5e-324, 1e308, 1e15, 1e-9, false)
	f.Add(1., 1.0000000000000002, 1e14, 1e14+1, false)
	f.Fuzz(func(t *testing.T, a, b, c, d float64, log bool) {
		points := []Point{{a, b}, {b, c}, {c, d}, {d, a}}
		samples := []Sample{{a, b, c}, {b, c, d}, {c, d, a}, {d, a, b}}
		strips := []Strip{{Replica: "r", Samples: samples}}
		until, top := Bounds(strips)
		var marks []Mark
		for _, p := range points {
			marks = append(marks, Mark{Name: "off", X: p.X, Y: p.Y})
		}
		for _, svg := range []string{
			string((&Lines{Log: log, Format: seconds, Series: []Series{{Points: points}}}).SVG()),
			string((&Frontier{Format: seconds, Marks: marks}).SVG()),
			string((&Strips{Until: until, Top: top, Strips: strips}).SVG()),
		} {
			for _, m := range attribute.FindAllStringSubmatch(svg, -1) {
				if !coordinate.MatchString(m[1]) {
					t.Fatalf("%s in %s", m[1], svg)
				}
			}
		}
	})
}
