package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench/report"
)

// flatNames returns the JSON names of an object in their order, those of
// objects in it joined by dots.
func flatNames(t *testing.T, object []byte) []string {
	t.Helper()
	var (
		names []string
		walk  func(d *json.Decoder, prefix string)
	)
	walk = func(d *json.Decoder, prefix string) {
		_, err := d.Token() // {
		require.NoError(t, err)
		for d.More() {
			name, err := d.Token()
			require.NoError(t, err)
			var value json.RawMessage
			require.NoError(t, d.Decode(&value))
			if value[0] == '{' {
				walk(json.NewDecoder(bytes.NewReader(value)), prefix+name.(string)+".")
			} else {
				names = append(names, prefix+name.(string))
			}
		}
	}
	walk(json.NewDecoder(bytes.NewReader(object)), "")
	return names
}

func TestCSVHasTheNamesOfTheJSON(t *testing.T) {
	row, err := json.Marshal(report.NewRow("off", 4))
	require.NoError(t, err)
	names := flatNames(t, row)
	require.Equal(t, []string{"policy", "sessions"}, names[:2])

	records := readCSV(t, new(report.Table))
	assert.Equal(t, append([]string{"policy", "sessions", "published"}, names[2:]...), records[0])
}

func readCSV(t *testing.T, table *report.Table) [][]string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, table.WriteCSV(&b))
	records, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	require.NoError(t, err)
	return records
}

func TestCSVParsedBack(t *testing.T) {
	table := seedTable("off", `a "quoted", policy`)
	table.Rows[0].TTFB.P50, table.Rows[0].Busy, table.Rows[0].Preemptions = 1.0/3, 1e-9, 3e24
	records := readCSV(t, table)
	require.Len(t, records, 1+len(table.Rows)+len(table.Published))

	at := map[string]int{}
	for i, name := range records[0] {
		at[name] = i
	}
	check := func(record []string, row report.Row, published bool) {
		assert.Equal(t, row.Policy, record[at["policy"]])
		assert.Equal(t, strconv.Itoa(row.Sessions), record[at["sessions"]])
		assert.Equal(t, strconv.FormatBool(published), record[at["published"]])
		for name, want := range map[string]report.Value{
			"seconds": row.Seconds, "ttfb_seconds.p50": row.TTFB.P50, "completion_seconds.max": row.Completion.Max,
			"busy_replicas": row.Busy, "stayed_share": row.Stayed, "preemptions": row.Preemptions,
			"output_tokens_per_minute": row.OutputPerMinute, "failed": row.Failed,
		} {
			cell := record[at[name]]
			if !want.Known() {
				assert.Empty(t, cell, name)
				continue
			}
			got, err := strconv.ParseFloat(cell, 64)
			require.NoError(t, err, name)
			assert.Equal(t, want, report.Value(got), name)
		}
	}
	for i, row := range table.Rows {
		check(records[1+i], row, false)
	}
	for i, row := range table.Published {
		check(records[1+len(table.Rows)+i], row, true)
	}
}
