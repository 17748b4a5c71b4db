package report_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench/report"
)

func TestJSONRoundTrip(t *testing.T) {
	table := seedTable("off", "affinity")
	table.Rows[0].Load[1].Running[3] = report.Missing()
	var first, second bytes.Buffer
	require.NoError(t, table.WriteJSON(&first))
	back, err := report.ReadJSON(bytes.NewReader(first.Bytes()))
	require.NoError(t, err)
	require.NoError(t, back.WriteJSON(&second))
	assert.Equal(t, first.String(), second.String())

	assert.Equal(t, table.Rows[3], back.Rows[3])
	assert.Equal(t, table.Seeds, back.Seeds)
	assert.False(t, back.Rows[0].Load[1].Running[3].Known())
	assert.False(t, back.Published[0].Stayed.Known())
	assert.True(t, strings.HasSuffix(first.String(), "}\n"))
}

func TestReadJSONTakesWhatIsNotThereAsMissing(t *testing.T) {
	table, err := report.ReadJSON(strings.NewReader(
		`{"rows": [{"policy": "off", "sessions": 4, "failed": 0, "ttfb_seconds": {"p50": 1.5, "p95": null}, "later": true}]}`))
	require.NoError(t, err)
	row := table.Rows[0]
	assert.Equal(t, "off", row.Policy)
	assert.Equal(t, 4, row.Sessions)
	assert.Equal(t, report.Value(0), row.Failed)
	assert.Equal(t, report.Value(1.5), row.TTFB.P50)
	for _, v := range []report.Value{row.TTFB.P95, row.TTFB.Max, row.Completion.P50, row.Busy, row.Seconds} {
		assert.False(t, v.Known())
	}
}

func TestReadJSONErrors(t *testing.T) {
	for _, in := range []string{"{}", "null", `{"title": "x", "rows": null}`} {
		_, err := report.ReadJSON(strings.NewReader(in))
		assert.ErrorIs(t, err, report.ErrNoRows, in)
	}
	for _, in := range []string{"", "[]", `{"rows": [`, `{"rows": []} {}`, `{"rows": [{"failed": "no"}]}`, `{"rows": [{"sessions": 1.5}]}`} {
		_, err := report.ReadJSON(strings.NewReader(in))
		assert.Error(t, err, in)
	}
	_, err := report.ReadJSON(iotest.ErrReader(errFull))
	assert.ErrorIs(t, err, errFull)
}

func TestJSONOfAnEmptyTableCanBeRead(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, new(report.Table).WriteJSON(&b))
	_, err := report.ReadJSON(&b)
	assert.NoError(t, err)
}

func FuzzReadJSON(f *testing.F) {
	var seed bytes.Buffer
	require.NoError(f, small().WriteJSON(&seed))
	f.Add(seed.Bytes())
	f.Add([]byte(`{"rows": [{"policy": "<a>\u0000", "sessions": -4, "ttfb_seconds": {"p50": 1e300, "p95": 5e-324},
		"busy_replicas": -1, "load": [{"replica": "r", "at_seconds": [0, 1e20, null], "running": [1]}]},
		{"policy": "b", "sessions": 9223372036854775807, "ttfb_seconds": {"p50": 0.1, "p95": 2}, "hit_share": 1e14}],
		"published": [{"policy": "b", "sessions": -4, "stayed_share": 0.5}]}`))
	f.Add([]byte(`{"rows": [{"policy": "a", "ttfb_seconds": {"p50": 1, "p95": 2}}, {"policy": "b", "ttfb_seconds": {"p50": 2, "p95": 1}},
		{"policy": "c", "ttfb_seconds": {"p50": 1e-6, "p95": 1e15}}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		table, err := report.ReadJSON(bytes.NewReader(in))
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		require.NoError(t, table.WriteJSON(&first))
		back, err := report.ReadJSON(bytes.NewReader(first.Bytes()))
		require.NoError(t, err)
		require.NoError(t, back.WriteJSON(&second))
		require.Equal(t, first.String(), second.String())

		require.NoError(t, table.WriteText(io.Discard))
		require.NoError(t, table.WriteCSV(io.Discard))
		var page bytes.Buffer
		require.NoError(t, table.WriteHTML(&page))
		checkPage(t, page.Bytes())
	})
}
