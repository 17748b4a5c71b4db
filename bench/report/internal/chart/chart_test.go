package chart

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func seconds(v float64) string { return fmt.Sprintf("%.2f s", v) }

func TestLinesBreakAtWhatIsMissing(t *testing.T) {
	l := &Lines{ID: "a", Title: "TTFB", Unit: "seconds", Across: "sessions", Log: true, Format: seconds, Series: []Series{
		{ID: 3, Style: 8, Name: "off", Points: []Point{{4, 1}, {8, 2}, {16, math.NaN()}, {24, 0}, {32, 4}}},
		{ID: 4, Name: "nothing", Points: []Point{{4, math.NaN()}, {8, -1}, {16, math.Inf(1)}}},
	}}
	svg := string(l.SVG())
	assert.Contains(t, svg, `class="s3 c1"`)
	assert.NotContains(t, svg, "nothing", "a series without a point is not drawn")
	assert.Regexp(t, `d="M[^ML]+ [^ML]+L[^ML]+M[^ML]+" class="stroke"`, svg)
	assert.Contains(t, svg, "off: 1.00 s at 4, 4.00 s at 32.</desc>")
	assert.Equal(t, 3, strings.Count(svg, "</title></g>"), "a title for each point")
}

func TestMeasuredLinesLieOnTopOfPublishedOnes(t *testing.T) {
	points := []Point{{4, 1}, {8, 2}}
	l := &Lines{Format: seconds, Series: []Series{{ID: 0, Name: "off", Points: points}, {ID: 1, Name: "theirs", Dashed: true, Points: points}}}
	svg := string(l.SVG())
	assert.Less(t, strings.Index(svg, "stroke dashed"), strings.Index(svg, `class="stroke"`))
}

func TestBest(t *testing.T) {
	marks := []Mark{{Name: "d", X: 4, Y: 1}, {Name: "worse", X: 4, Y: 4}, {Name: "a", X: 1, Y: 8}, {Name: "same x", X: 1, Y: 9}, {Name: "b", X: 2, Y: 3}}
	var names []string
	for _, m := range best(marks) {
		names = append(names, m.Name)
	}
	assert.Equal(t, []string{"a", "b", "d"}, names)
}

func TestFrontierJudgesWhatWasMeasured(t *testing.T) {
	f := &Frontier{ID: "f", Format: seconds, Across: "p50", Up: "p95", Marks: []Mark{
		{Name: "off", X: 2, Y: 6}, {Name: "affinity", X: 1, Y: 7}, {Name: "theirs", Hollow: true, X: .1, Y: .1}, {Name: "unknown", X: 2, Y: math.NaN()},
	}}
	assert.Len(t, f.Judged(), 2)
	svg := string(f.SVG())
	assert.Contains(t, svg, "Beaten by none on both: affinity, off.")
	assert.Contains(t, svg, ">theirs</text>")
	assert.NotContains(t, svg, "unknown")
}

func TestRoomKeepsLabelsApart(t *testing.T) {
	r := &room{left: 0, right: 400, top: 0, bottom: 240}
	r.take(around(200, 120, 6))
	first := r.label(200, 120, 80)
	assert.Equal(t, "start", first.anchor)
	assert.False(t, first.far)
	for range 11 {
		r.label(200, 120, 80)
	}
	assert.Len(t, r.taken, 13, "there was room for every label")
	for i, a := range r.taken {
		for _, b := range r.taken[:i] {
			assert.False(t, a.meets(b))
		}
	}
	right := r.label(396, 20, 80)
	assert.Equal(t, "end", right.anchor, "to the left where the right is too narrow")
	full := (&room{right: 10, bottom: 10}).label(5, 5, 80)
	assert.Zero(t, full.x)
}

func TestThin(t *testing.T) {
	var samples []Sample
	for i := range 1400 {
		samples = append(samples, Sample{At: float64(i), Running: float64(i % 10), Waiting: 2})
	}
	for i := 700; i < 720; i++ {
		samples[i].Running, samples[i].Waiting = math.NaN(), math.NaN()
	}
	out := thin(samples, 1400)
	assert.Len(t, out, pieces)
	assert.Equal(t, Sample{At: 4.5, Running: 4.5, Waiting: 2}, out[0])
	gaps := 0
	for _, s := range out {
		if !s.shows() {
			gaps++
		}
	}
	assert.Equal(t, 2, gaps)
	assert.Equal(t, samples[:100], thin(samples[:100], 100))
}

func TestStripsShowGaps(t *testing.T) {
	nan := math.NaN()
	c := &Strips{ID: "l", Title: "off", Until: 4, Top: 8, Strips: []Strip{
		{Replica: "rank 0", Samples: []Sample{{0, 4, 0}, {1, 4, nan}, {2, nan, nan}, {3, 2, 0}, {4, 2, 0}}},
		{Replica: "a replica with a long name:8001", Samples: []Sample{{0, 1, 3}, {4, 1, 3}}},
	}}
	svg := string(c.SVG())
	assert.True(t, c.Shows())
	assert.Regexp(t, `d="M[^MZ]*ZM[^MZ]*Z" class="running"`, svg)
	assert.Equal(t, 1, strings.Count(svg, `class="waiting"`), "only where something waits")
	assert.Contains(t, svg, "<title>a replica with a long name:8001</title>")
	assert.Contains(t, svg, "rank 0 3.0 running and 0.0 waiting")
	until, top := Bounds(c.Strips)
	assert.Equal(t, 4.0, until)
	assert.Equal(t, 4.0, top)
	assert.False(t, (&Strips{Strips: []Strip{{Samples: []Sample{{nan, 1, 1}, {1, nan, nan}}}}}).Shows())
}

func TestDrawingEscapes(t *testing.T) {
	d := begin(`a"`, "<t>", "&", 1, 1)
	d.text(-0.04, 1e3, `"`, "", `'><script>`)
	d.marker(0, true, 0, 0, "</title>")
	assert.Equal(t, `<svg id="a&#34;" class="chart" role="img" viewBox="0 0 1 1" aria-labelledby="a&#34;-title a&#34;-desc">`+
		`<title id="a&#34;-title">&lt;t&gt;</title><desc id="a&#34;-desc">&amp;</desc>`+
		`<text x="0" y="1000" class="&#34;">&#39;&gt;&lt;script&gt;</text>`+
		`<g class="marker hollow"><circle cx="0" cy="0" r="5.4"/><title>&lt;/title&gt;</title></g></svg>`, string(d.end()))
}

func TestMarkersDiffer(t *testing.T) {
	seen := map[string]bool{}
	for style := range Markers {
		seen[string(Swatch(style*Colours, false))] = true // all of colour 0
	}
	assert.Len(t, seen, Markers)
}

func TestFit(t *testing.T) {
	assert.Equal(t, "rank 0", fit("rank 0", 80))
	long := fit("http://10.0.0.12:8000#rank1", 80)
	assert.LessOrEqual(t, width(long, fontSize), 80.0)
	assert.Regexp(t, "^….*#rank1$", long)
	assert.LessOrEqual(t, width(fit(strings.Repeat("x", 1<<20), 80), fontSize), 80.0)
	assert.Equal(t, "abc…", shorten("abcdef", 4))
}
