package metrics_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

// parseWith reads the 122 KB page of four ranks in vLLM's dialect.
func parseWith(t testing.TB, text []byte) {
	page, err := metrics.VLLM().Parse(text)
	if err != nil || len(page.Engines) != 4 {
		t.Fatal(fmt.Sprint(len(page.Engines), " engines, ", err))
	}
}

// parseWithExpfmt has expfmt read all of the page.
func parseWithExpfmt(t testing.TB, text []byte) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil || len(families) == 0 {
		t.Fatal(fmt.Sprint(len(families), " families, ", err))
	}
}

// BenchmarkParse and BenchmarkFullExpfmt read the same page: their ratio is what
// counts.
func BenchmarkParse(b *testing.B) {
	text := fixture(b, "vllm-0.26.0-4rank-busy.txt")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		parseWith(b, text)
	}
}

func BenchmarkFullExpfmt(b *testing.B) {
	text := fixture(b, "vllm-0.26.0-4rank-busy.txt")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		parseWithExpfmt(b, text)
	}
}

// BenchmarkScrape scrapes the page of four ranks through a transport without a
// network. 200 endpoints a second are under 5 % of one core if it takes less
// than 250 µs.
func BenchmarkScrape(b *testing.B) {
	text := fixture(b, "vllm-0.26.0-4rank-busy.txt")
	s := scraperOf(b, metrics.Config{}, func(*http.Request) (*http.Response, error) {
		return answer(http.StatusOK, bytes.NewReader(text)), nil
	})
	base := at(b, "http://h")
	b.ReportAllocs()
	for b.Loop() {
		page, err := s.Scrape(b.Context(), base)
		if err != nil || len(page.Engines) != 4 {
			b.Fatal(fmt.Sprint(len(page.Engines), " engines, ", err))
		}
	}
}

// TestParseAllocations compares what the benchmarks compare, where it does not
// depend on the machine.
func TestParseAllocations(t *testing.T) {
	text := fixture(t, "vllm-0.26.0-4rank-busy.txt")
	ours := testing.AllocsPerRun(10, func() { parseWith(t, text) })
	expfmts := testing.AllocsPerRun(10, func() { parseWithExpfmt(t, text) })
	assert.Less(t, ours, expfmts/100)
}

// TestUnwantedLinesDoNotAllocate has a page of lines that nobody wants.
func TestUnwantedLinesDoNotAllocate(t *testing.T) {
	var page bytes.Buffer
	for i := range 1000 {
		_, err := fmt.Fprintf(&page, "# HELP x y\nvllm:request_decode_time_seconds_bucket{engine=\"0\",le=\"%d\"} 1.0\r\n", i)
		require.NoError(t, err)
	}
	for _, d := range metrics.Dialects() {
		assert.LessOrEqual(t, testing.AllocsPerRun(10, func() {
			read, err := d.Parse(page.Bytes())
			if err != nil || len(read.Engines) > 0 {
				t.Error(read, err)
			}
		}), 10.0, d.Name())
	}
}
