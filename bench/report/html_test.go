package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench/report"
)

func html(t testing.TB, table *report.Table) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, table.WriteHTML(&b))
	checkPage(t, b.Bytes())
	return b.String()
}

// has is Contains without a failure that prints the page.
func has(t *testing.T, page, want string) {
	t.Helper()
	assert.True(t, strings.Contains(page, want), "the page has no %q", want)
}

func hasNot(t *testing.T, page, unwanted string) {
	t.Helper()
	assert.False(t, strings.Contains(page, unwanted), "the page has %q", unwanted)
}

// names returns a set of the words.
func names(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// The page may have these elements and attributes and no others: none of them
// runs or loads anything.
var (
	elements = names(`html head meta title style body header h1 dl div dt dd nav ul li a fieldset legend label input
		span p main section h2 figure details summary table thead tbody tr th td br
		svg desc g line path circle rect text`)
	numeric    = names("d x y x1 x2 y1 y2 cx cy r width height viewBox")
	attributes = names(`class role lang charset http-equiv content name aria-label aria-hidden tabindex scope type checked
		open text-anchor`)
)

var (
	inCSS = regexp.MustCompile(`(?i)url\(|@import|expression|image`)
)

func notCoordinate(r rune) bool { return !strings.ContainsRune("-0123456789. MLZ", r) }

// checkPage checks that the page is well-formed, refers to nothing outside of
// itself, and that what is referred to is there.
func checkPage(t testing.TB, page []byte) {
	t.Helper()
	ids, wanted := map[string]bool{}, map[string]bool{}
	var open []string
	d := xml.NewDecoder(bytes.NewReader(page))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			open = append(open, token.Name.Local)
			if !elements[token.Name.Local] {
				require.Fail(t, "element", "%s", token.Name.Local)
			}
			for _, a := range token.Attr {
				switch name := a.Name.Local; {
				case name == "id":
					require.False(t, ids[a.Value], "second %s", a.Value)
					ids[a.Value] = true
				case name == "aria-labelledby":
					for id := range strings.FieldsSeq(a.Value) {
						wanted[id] = true
					}
				case name == "href":
					id, inside := strings.CutPrefix(a.Value, "#")
					require.True(t, inside, a.Value)
					wanted[id] = true
				case numeric[name]:
					if strings.ContainsFunc(a.Value, notCoordinate) {
						require.Fail(t, "coordinate", "%s of %s: %s", name, token.Name.Local, a.Value)
					}
				case !attributes[name]:
					require.Fail(t, "attribute", "%s of %s", name, token.Name.Local)
				}
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 && open[len(open)-1] == "style" {
				require.NotRegexp(t, inCSS, string(token))
			}
		case xml.Comment, xml.ProcInst:
			require.Fail(t, "unexpected", "%v", token)
		}
	}
	for id := range wanted {
		require.True(t, ids[id], "no element %q", id)
	}
}

func TestHTMLOfASeedTable(t *testing.T) {
	page := html(t, seedTable("off", "affinity"))
	for _, id := range []string{"chart-ttfb-p50", "chart-ttfb-p95", "chart-output", "chart-hits", "chart-busy", "chart-stayed", "load-0-0", "load-4-1", "table"} {
		has(t, page, `id="`+id+`"`)
	}
	hasNot(t, page, "frontier")
	has(t, page, "affinity (published)")
	has(t, page, "stroke dashed")
	has(t, page, "<td>26.24</td>")
	has(t, page, "off (published), 16 sessions at a time: 3.25 s</title>")
	assert.Equal(t, 5, strings.Count(page, ` open="open"><summary>`))
}

func TestHTMLIsTheSameForTheSameTable(t *testing.T) {
	first := html(t, seedTable("off", "affinity", "mine"))
	for range 5 {
		require.True(t, first == html(t, seedTable("off", "affinity", "mine")))
	}
}

func TestHTMLOfManyPolicies(t *testing.T) {
	page := html(t, seedTable("off", "round-robin", "least-loaded", "affinity"))
	assert.Len(t, regexp.MustCompile(`id="frontier-\d"`).FindAllString(page, -1), 5)
	assert.Equal(t, 1, strings.Count(page, ` open="open"><summary>`), "too many load charts to have all open")
}

func TestHTMLSaysWhoseLoadItIs(t *testing.T) {
	table := seedTable("off")
	hasNot(t, html(t, table), "first seed")
	table.Seeds = []uint64{7, 8}
	has(t, html(t, table), "of the first seed, 7")
}

func TestHTMLLeavesOutWhatIsMissing(t *testing.T) {
	page := html(t, small())
	has(t, page, `id="chart-ttfb-p50"`)
	hasNot(t, page, `id="chart-busy"`)
	hasNot(t, page, `id="load"`)
	hasNot(t, page, "fairness")

	page = html(t, new(report.Table))
	hasNot(t, page, "<svg")
	has(t, page, "<h1>Comparison of routing policies</h1>")
}

func TestHTMLEscapes(t *testing.T) {
	hostile := []string{
		`<script>alert(1)</script>`,
		`"><img src=x onerror=alert(1)>`,
		`' onload='alert(1)`,
		`</title></svg></style><script>`,
		`]]><!-- {{.Title}} ${x}`,
		"\x00\x1b\u202e\xff",
	}
	table := seedTable(hostile...)
	table.Title, table.Workload, table.Engines = hostile[0], hostile[1], hostile[3]
	for i := range table.Rows {
		for k := range table.Rows[i].Load {
			table.Rows[i].Load[k].Replica = hostile[k]
		}
	}
	table.Published[0].Policy = hostile[1]
	page := html(t, table) // checks elements and attributes
	has(t, page, "&lt;script&gt;alert(1)&lt;/script&gt;")
	has(t, page, "{{.Title}}")
	hasNot(t, page, "\u202e")
}

func TestHTMLOfDuplicateAndOddNumbers(t *testing.T) {
	a, b := report.NewRow("a", 0), report.NewRow("a", 0)
	a.TTFB.P50, b.TTFB.P50 = 0, -1
	c := report.NewRow("a", -5)
	c.OutputPerMinute, c.TTFB.P95 = 1e300, 1e-300
	c.Load = []report.Load{{Replica: "r", At: []report.Value{0, 5, 1}, Running: []report.Value{-1}, Waiting: []report.Value{2, 1e200, 3, 4}}}
	page := html(t, &report.Table{Rows: []report.Row{a, b, c}})
	hasNot(t, page, `id="chart-ttfb-p50"`)
	has(t, page, "<td>1e&#43;300</td>")
}
