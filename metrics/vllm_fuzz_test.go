package metrics_test

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

func FuzzVLLMParse(f *testing.F) {
	for _, name := range []string{"vllm-0.26.0-1rank.txt", "vllm-0.26.0-4rank-busy.txt"} {
		text := fixture(f, name)
		f.Add(text[:4000])
		for _, series := range []string{"vllm:kv_cache_usage_perc{", "vllm:prefix_cache_hits", "vllm:cache_config_info{", "vllm:iteration_tokens_total_count"} {
			start := bytes.Index(text, []byte(series))
			f.Add(text[start:min(start+1200, len(text))])
		}
	}
	f.Add([]byte("\ufeff" + runningLine[:20] + "\r\n# EOF"))
	f.Add([]byte("# TYPE h histogram\nfoo 1\n{\"h\",a=\"b\"} 1\n" + runningLine))
	f.Add([]byte(`vllm:kv_cache_usage_perc{engine="0"} 1e300 17.5 # {a="b"} 1` + "\n" + `ray_vllm_gpu_cache_usage_perc NaN`))
	f.Fuzz(func(t *testing.T, text []byte) {
		engines, err := metrics.VLLM().Parse(text)
		seen := make(map[string]bool)
		for _, e := range engines {
			require.False(t, seen[e.Engine], "engine %q twice", e.Engine)
			seen[e.Engine] = true
			for field, v := range reflect.ValueOf(e).Fields() {
				n, ok := v.Interface().(metrics.Number)
				if !ok {
					continue
				}
				require.False(t, math.IsNaN(n.Value) || math.IsInf(n.Value, 0) || n.Value < 0, "%s %v", field.Name, n)
				require.True(t, n.OK || n.Value == 0, "%s %v", field.Name, n)
			}
			require.LessOrEqual(t, e.KVUsage.Value, 1.0)
		}
		// A page reads the same every time, and with junk in front.
		again, errAgain := metrics.VLLM().Parse(append([]byte("{junk\n"), bytes.TrimPrefix(text, []byte("\ufeff"))...))
		require.Equal(t, engines, again)
		require.Equal(t, err == nil, errAgain == nil)
	})
}

// BenchmarkVLLMParse has the 122 KB page of four ranks, and beside it expfmt
// reading all of it.
func BenchmarkVLLMParse(b *testing.B) {
	text := fixture(b, "vllm-0.26.0-4rank-busy.txt")
	b.Run("warmroute", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			engines, err := metrics.VLLM().Parse(text)
			if err != nil || len(engines) != 4 {
				b.Fatal(fmt.Sprint(len(engines), " engines, ", err))
			}
		}
	})
	b.Run("expfmt", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		parser := expfmt.NewTextParser(model.UTF8Validation)
		for b.Loop() {
			families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
			if err != nil || len(families) == 0 {
				b.Fatal(fmt.Sprint(len(families), " families, ", err))
			}
		}
	})
}
