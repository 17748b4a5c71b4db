package metrics_test

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

func TestWriter(t *testing.T) {
	h, err := metrics.NewHistogram(0.005, 1)
	require.NoError(t, err)
	for _, v := range []float64{0.001, 0.5, 0.5, 7} {
		h.Observe(v)
	}
	var out strings.Builder
	w := metrics.NewWriter(&out)
	w.Family("requests_total", "Requests, by \"outcome\"\nand C:\\path.", metrics.KindCounter)
	w.Sample(1234567, "outcome", "sticky", "model", "a\"b\\c\nd")
	w.Sample(0.1)
	w.Family("load", "", metrics.KindGauge)
	w.Sample(math.Inf(1), "v", "1")
	w.Sample(math.Inf(-1), "v", "2")
	w.Sample(math.NaN(), "v", "bad \xff byte")
	w.Family("wait_seconds", "Wait.", metrics.KindHistogram)
	w.Histogram(h.Snapshot(), "pool", "p")
	w.Histogram(h.Snapshot())
	require.NoError(t, w.Err())
	assert.Equal(t, `# HELP requests_total Requests, by "outcome"\nand C:\\path.
# TYPE requests_total counter
requests_total{outcome="sticky",model="a\"b\\c\nd"} 1.234567e+06
requests_total 0.1
# HELP load 
# TYPE load gauge
load{v="1"} +Inf
load{v="2"} -Inf
load{v="bad `+"\ufffd"+` byte"} NaN
# HELP wait_seconds Wait.
# TYPE wait_seconds histogram
wait_seconds_bucket{pool="p",le="0.005"} 1
wait_seconds_bucket{pool="p",le="1"} 3
wait_seconds_bucket{pool="p",le="+Inf"} 4
wait_seconds_sum{pool="p"} 8.001
wait_seconds_count{pool="p"} 4
wait_seconds_bucket{le="0.005"} 1
wait_seconds_bucket{le="1"} 3
wait_seconds_bucket{le="+Inf"} 4
wait_seconds_sum 8.001
wait_seconds_count 4
`, out.String())

	// expfmt, which reads like Prometheus, reads the same values back.
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(out.String()))
	require.NoError(t, err)
	require.Len(t, families, 3)
	requests := families["requests_total"]
	assert.Equal(t, "COUNTER", requests.GetType().String())
	assert.Equal(t, "Requests, by \"outcome\"\nand C:\\path.", requests.GetHelp())
	require.Len(t, requests.GetMetric(), 2)
	assert.InDelta(t, 1234567, requests.GetMetric()[0].GetCounter().GetValue(), 0)
	assert.Equal(t, "a\"b\\c\nd", requests.GetMetric()[0].GetLabel()[1].GetValue())
	load := families["load"].GetMetric()
	require.Len(t, load, 3)
	assert.True(t, math.IsInf(load[0].GetGauge().GetValue(), 1))
	assert.True(t, math.IsInf(load[1].GetGauge().GetValue(), -1))
	assert.True(t, math.IsNaN(load[2].GetGauge().GetValue()))
	waits := families["wait_seconds"].GetMetric()
	require.Len(t, waits, 2)
	for _, m := range waits {
		read := m.GetHistogram()
		assert.EqualValues(t, 4, read.GetSampleCount())
		assert.InDelta(t, 8.001, read.GetSampleSum(), 0)
		require.Len(t, read.GetBucket(), 3)
		for i, want := range []uint64{1, 3, 4} {
			assert.Equal(t, want, read.GetBucket()[i].GetCumulativeCount())
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	snapshot := metrics.HistogramSnapshot{Bounds: []float64{1}, Counts: []uint64{1, 2}, Count: 3, Sum: 4}
	tests := []struct {
		name  string
		write func(*metrics.Writer)
		err   string
	}{
		{"sample before a family", func(w *metrics.Writer) { w.Sample(1) }, "outside a counter or gauge family"},
		{"histogram before a family", func(w *metrics.Writer) { w.Histogram(snapshot) }, "outside a histogram family"},
		{"sample in a histogram", func(w *metrics.Writer) { w.Family("a", "", metrics.KindHistogram); w.Sample(1) }, "outside a counter or gauge family"},
		{"histogram in a gauge", func(w *metrics.Writer) { w.Family("a", "", metrics.KindGauge); w.Histogram(snapshot) }, "outside a histogram family"},
		{"empty name", func(w *metrics.Writer) { w.Family("", "", metrics.KindGauge) }, "invalid metric name"},
		{"bad name", func(w *metrics.Writer) { w.Family("a b", "", metrics.KindGauge) }, "invalid metric name"},
		{"family twice", func(w *metrics.Writer) {
			for _, name := range []string{"a", "b", "a"} {
				w.Family(name, "", metrics.KindGauge)
			}
		}, "family a begun twice"},
		{"no kind", func(w *metrics.Writer) { w.Family("a", "", 0) }, "no valid kind: Kind(0)"},
		{"unknown kind", func(w *metrics.Writer) { w.Family("a", "", metrics.KindHistogram+1) }, "no valid kind: Kind(4)"},
		{"odd labels", func(w *metrics.Writer) { w.Family("a", "", metrics.KindGauge); w.Sample(1, "b") }, "odd number"},
		{"bad label", func(w *metrics.Writer) { w.Family("a", "", metrics.KindGauge); w.Sample(1, "b-c", "") }, "invalid label name"},
		{"reserved label", func(w *metrics.Writer) { w.Family("a", "", metrics.KindGauge); w.Sample(1, "__b", "") }, "invalid label name"},
		{"label twice", func(w *metrics.Writer) { w.Family("a", "", metrics.KindGauge); w.Sample(1, "b", "1", "b", "2") }, "given twice"},
		{"le in a histogram", func(w *metrics.Writer) { w.Family("a", "", metrics.KindHistogram); w.Histogram(snapshot, "le", "1") }, "invalid label name"},
		{"counts and bounds", func(w *metrics.Writer) {
			w.Family("a", "", metrics.KindHistogram)
			w.Histogram(metrics.HistogramSnapshot{Bounds: []float64{1}, Counts: []uint64{1}})
		}, "1 counts for 1 bounds"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			w := metrics.NewWriter(&out)
			tt.write(w)
			require.ErrorContains(t, w.Err(), tt.err)
			written, first := out.String(), w.Err()
			w.Family("later", "", metrics.KindGauge)
			w.Sample(1)
			w.Histogram(snapshot)
			assert.Equal(t, written, out.String(), "nothing is written after an error")
			assert.Equal(t, first, w.Err())
		})
	}
}

// failing is a writer whose nth write fails.
type failing struct{ n int }

func (f *failing) Write(p []byte) (int, error) {
	if f.n--; f.n == 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestWriterError(t *testing.T) {
	for n := 1; n <= 4; n++ {
		w := metrics.NewWriter(&failing{n: n})
		w.Family("a", "", metrics.KindGauge)
		w.Sample(1)
		w.Family("b", "", metrics.KindHistogram)
		w.Histogram(metrics.HistogramSnapshot{Bounds: []float64{1}, Counts: []uint64{1, 2}})
		require.ErrorIs(t, w.Err(), io.ErrClosedPipe)
		require.True(t, errors.Is(w.Err(), io.ErrClosedPipe))
	}
}

// FuzzWriter has labels and values of any kind read back by expfmt.
func FuzzWriter(f *testing.F) {
	f.Add("help", "value", 1.5)
	f.Add("\\\n\"", "\xff\\\"\n}", math.Inf(1))
	f.Fuzz(func(t *testing.T, help, value string, number float64) {
		var out strings.Builder
		w := metrics.NewWriter(&out)
		w.Family("a", help, metrics.KindGauge)
		w.Sample(number, "b", value)
		require.NoError(t, w.Err())
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(out.String()))
		require.NoError(t, err, out.String())
		require.Len(t, families["a"].GetMetric(), 1)
		m := families["a"].GetMetric()[0]
		assert.Equal(t, strings.ToValidUTF8(value, "\ufffd"), m.GetLabel()[0].GetValue())
		if read := m.GetGauge().GetValue(); read != number {
			assert.True(t, math.IsNaN(read) && math.IsNaN(number), "%v read as %v", number, read)
		}
	})
}
