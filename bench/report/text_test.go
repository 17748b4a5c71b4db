package report_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench/report"
)

// small returns a table of two steps, one of them with a published row.
func small() *report.Table {
	off, affinity, later := report.NewRow("off", 4), report.NewRow("affinity", 4), report.NewRow("affinity", 16)
	off.OutputPerMinute, off.TTFB.P50, off.HitShare, off.Preemptions = 5904.4, 2.046, .5621, 0
	affinity.OutputPerMinute, affinity.TTFB.P50, affinity.HitShare, affinity.Preemptions = 16744, 14.384, 1, 2.5
	later.OutputPerMinute = 12204
	theirs, unmatched := report.NewRow("off", 4), report.NewRow("off", 64)
	theirs.TTFB.P50 = 2.05
	unmatched.Busy = 4
	return &report.Table{
		Title: "Small", Engines: "4 ranks", Seeds: []uint64{1, 22},
		Rows:      []report.Row{off, affinity, later},
		Published: []report.Row{theirs, unmatched},
	}
}

func text(t *testing.T, table *report.Table) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, table.WriteText(&b))
	return b.String()
}

func TestWriteText(t *testing.T) {
	assert.Equal(t, `Small
engines   4 ranks
seeds     1, 22

                            output   TTFB  prefix
sessions  policy           tok/min  p50 s  hits %  preemptions
       4  off                 5904   2.05    56.2            0
       4  affinity           16744  14.38   100.0          2.5
       4  off (published)        -   2.05       -            -

      16  affinity           12204      -       -            -
`, text(t, small()))
}

func TestWriteTextWithoutMuchToSay(t *testing.T) {
	assert.Equal(t, "\nsessions  policy\n", text(t, new(report.Table)))

	row := report.NewRow("off", 4)
	row.Failed = 0
	assert.Equal(t, `
sessions  policy  failed
       4  off          0
`, text(t, &report.Table{Rows: []report.Row{row}}))
}

func TestWriteTextKeepsTheOrderOfSteps(t *testing.T) {
	table := &report.Table{Rows: []report.Row{report.NewRow("b", 26), report.NewRow("b", 16), report.NewRow("a", 26)}}
	assert.Equal(t, `
sessions  policy
      26  b
      26  a

      16  b
`, text(t, table))
}

func TestWriteTextCannotSteerTheTerminal(t *testing.T) {
	row := report.NewRow("\x1b[2Joff\r\n\xff", 4)
	row.FirstFailure = "502\x1b[2J"
	got := text(t, &report.Table{Title: "a\x07b", Rows: []report.Row{row}})
	assert.Equal(t, "a\uFFFDb\n\n\nsessions  policy\n       4  \uFFFD[2Joff\uFFFD\uFFFD\uFFFD\n"+
		"\n\uFFFD[2Joff\uFFFD\uFFFD\uFFFD, 4 sessions, first failed request: 502\uFFFD[2J\n", got)
}

func TestFirstFailuresAreSaid(t *testing.T) {
	off, on := report.NewRow("off", 1), report.NewRow("on", 1)
	off.Failed, off.FirstFailure, on.Failed = 2, `404 "no model" <b>`, 0
	table := &report.Table{Rows: []report.Row{off, on}}
	assert.Equal(t, `
sessions  policy  failed
       1  off          2
       1  on           0

off, 1 session, first failed request: 404 "no model" <b>
`, text(t, table))
	has(t, html(t, table), `<p class="failure">off, 1 session, first failed request: 404 &#34;no model&#34; &lt;b&gt;</p>`)
}

// broken is a writer that takes so many bytes and then fails.
type broken struct{ left int }

var errFull = errors.New("disk full")

func (b *broken) Write(p []byte) (int, error) {
	if len(p) > b.left {
		n := b.left
		b.left = 0
		return n, errFull
	}
	b.left -= len(p)
	return len(p), nil
}

func TestWriterErrors(t *testing.T) {
	table := small()
	for _, left := range []int{0, 100} {
		assert.ErrorIs(t, table.WriteText(&broken{left}), errFull)
		assert.ErrorIs(t, table.WriteJSON(&broken{left}), errFull)
		assert.ErrorIs(t, table.WriteCSV(&broken{left}), errFull)
		assert.ErrorIs(t, table.WriteHTML(&broken{left}), errFull)
	}
}
