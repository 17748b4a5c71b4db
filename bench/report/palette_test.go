package report_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench/report"
)

// colour is linear RGB.
type colour [3]float64

func parse(t *testing.T, hex string) colour {
	t.Helper()
	var c colour
	for i := range c {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		require.NoError(t, err)
		v := float64(n) / 255
		if v <= .04045 {
			c[i] = v / 12.92
		} else {
			c[i] = math.Pow((v+.055)/1.055, 2.4)
		}
	}
	return c
}

func (c colour) luminance() float64 { return .2126*c[0] + .7152*c[1] + .0722*c[2] }

// contrast is the ratio of WCAG 2.2.
func contrast(a, b colour) float64 {
	la, lb := a.luminance(), b.luminance()
	return (max(la, lb) + .05) / (min(la, lb) + .05)
}

// seen is how an eye without one kind of cone sees a colour, by the matrices
// of Machado, Oliveira and Fernandes (2009) for severity 1.
func (c colour) seen(m [9]float64) colour {
	var out colour
	for i := range out {
		v := m[3*i]*c[0] + m[3*i+1]*c[1] + m[3*i+2]*c[2]
		out[i] = min(1, max(0, v))
	}
	return out
}

// lab is the colour in CIELAB, white D65.
func (c colour) lab() [3]float64 {
	f := func(v float64) float64 {
		if v > .008856 {
			return math.Cbrt(v)
		}
		return 7.787*v + 16./116
	}
	x := f((.4124*c[0] + .3576*c[1] + .1805*c[2]) / .95047)
	y := f(c.luminance())
	z := f((.0193*c[0] + .1192*c[1] + .9505*c[2]) / 1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

func distance(a, b colour) float64 {
	p, q := a.lab(), b.lab()
	return math.Hypot(math.Hypot(p[0]-q[0], p[1]-q[1]), p[2]-q[2])
}

// themes returns the variables of the page's two themes.
func themes(t *testing.T) map[string]map[string]colour {
	t.Helper()
	page := html(t, new(report.Table))
	before, after, found := strings.Cut(page, "prefers-color-scheme: dark")
	require.True(t, found)
	out := map[string]map[string]colour{"light": {}, "dark": {}}
	for name, css := range map[string]string{"light": before, "dark": after} {
		for _, m := range regexp.MustCompile(`--([a-z0-9]+): #([0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
			out[name][m[1]] = parse(t, m[2])
		}
		require.Len(t, out[name], 17)
	}
	return out
}

func TestContrast(t *testing.T) {
	for theme, c := range themes(t) {
		for _, text := range []string{"text", "muted", "link"} {
			for _, ground := range []string{"page", "card"} {
				assert.GreaterOrEqual(t, contrast(c[text], c[ground]), 4.5, "%s: %s on %s", theme, text, ground)
			}
		}
		for _, line := range []string{"c0", "c1", "c2", "c3", "c4", "c5", "c6", "axis"} {
			assert.GreaterOrEqual(t, contrast(c[line], c["card"]), 3.0, "%s: %s", theme, line)
		}
		for _, area := range []string{"running", "waiting"} {
			assert.GreaterOrEqual(t, contrast(c[area], c["band"]), 3.0, "%s: %s", theme, area)
		}
	}
}

func TestColoursCanBeToldApart(t *testing.T) {
	const apart = 15 // in CIELAB; a difference of 2 or 3 is just visible
	eyes := map[string][9]float64{
		"normal":       {1, 0, 0, 0, 1, 0, 0, 0, 1},
		"protanopia":   {.152286, 1.052583, -.204868, .114503, .786281, .099216, -.003882, -.048116, 1.051998},
		"deuteranopia": {.367322, .860646, -.227968, .280085, .672501, .047413, -.011820, .042940, .968881},
		"tritanopia":   {1.255528, -.076749, -.178779, -.078411, .930809, .147602, .004733, .691367, .303900},
	}
	for theme, c := range themes(t) {
		for eye, m := range eyes {
			for i := range 7 {
				for k := range i {
					a, b := c[fmt.Sprint("c", i)].seen(m), c[fmt.Sprint("c", k)].seen(m)
					assert.GreaterOrEqual(t, distance(a, b), float64(apart), "%s, %s: c%d and c%d", theme, eye, i, k)
				}
			}
			assert.GreaterOrEqual(t, distance(c["running"].seen(m), c["waiting"].seen(m)), float64(apart), "%s, %s", theme, eye)
		}
	}
}
