package report

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"
)

// WriteCSV writes all rows, the published ones last, under a header line. The
// columns are policy, sessions, published (true or false) and every figure of
// a [Row] under its JSON names, joined by dots: ttfb_seconds.p50. A missing
// value is empty. The load over time and what the failures were is left out: it
// is in the JSON alone.
//
// Names are written as they are: a spreadsheet may take one that begins with
// "=" for a formula.
//
// The error is the writer's.
func (t *Table) WriteCSV(w io.Writer) error {
	list := figures()
	out := csv.NewWriter(w)
	header := []string{"policy", "sessions", "published"}
	for _, f := range list {
		header = append(header, f.name)
	}
	records := [][]string{header}
	add := func(rows []Row, published bool) {
		for i := range rows {
			record := []string{rows[i].Policy, strconv.Itoa(rows[i].Sessions), strconv.FormatBool(published)}
			for _, f := range list {
				record = append(record, exact(*f.of(&rows[i])))
			}
			records = append(records, record)
		}
	}
	add(t.Rows, false)
	add(t.Published, true)
	return out.WriteAll(records)
}

// exact formats a value so that it can be read back without loss, with an
// exponent only where the digits would be many.
func exact(v Value) string {
	switch a := math.Abs(float64(v)); {
	case !v.Known():
		return ""
	case a != 0 && (a < 1e-6 || a >= 1e21):
		return strconv.FormatFloat(float64(v), 'e', -1, 64)
	}
	return strconv.FormatFloat(float64(v), 'f', -1, 64)
}
