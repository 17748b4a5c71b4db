package metrics_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

// runningSeries is one sample of each dialect: three requests are running.
var runningSeries = map[string]string{
	"vllm":         `vllm:num_requests_running{engine="0"} 3`,
	"sglang":       `sglang:num_running_reqs{tp_rank="0"} 3`,
	"tensorrt-llm": `trtllm_num_requests_running{engine_type="trtllm"} 3`,
	"triton":       `nv_trt_llm_request_metrics{model="",request_type="scheduled",version="1"} 3`,
	"llama.cpp":    `llamacpp:requests_processing 3`,
	"tgi":          `tgi_batch_current_size 3`,
	"nim":          `num_requests_running{model_name=""} 3`,
}

func TestDialects(t *testing.T) {
	all := metrics.Dialects()
	require.Len(t, all, len(runningSeries))
	for _, d := range all {
		t.Run(d.Name(), func(t *testing.T) {
			require.NotEmpty(t, d.Paths())
			for _, path := range d.Paths() {
				assert.True(t, strings.HasPrefix(path, "/"), path)
			}
			for name, line := range runningSeries {
				got, err := d.Parse([]byte(line))
				require.NoError(t, err)
				if name == d.Name() {
					require.Len(t, got.Engines, 1, "its own page")
					assert.Equal(t, num(3), got.Engines[0].Running)
				} else {
					assert.Equal(t, metrics.Page{}, got, "the page of %s", name)
				}
			}
		})
	}
}

// TestDialectPageShapes has every dialect's sample in shapes that say the same.
func TestDialectPageShapes(t *testing.T) {
	for _, d := range metrics.Dialects() {
		line := runningSeries[d.Name()]
		want, err := d.Parse([]byte(line))
		require.NoError(t, err)
		for shape, text := range map[string]string{
			"CRLF":            "# HELP x y\r\n" + line + "\r\n\r\n",
			"HELP twice":      "# HELP x y\n# HELP x y\n# TYPE x gauge\n# TYPE x gauge\n" + line,
			"OpenMetrics":     line + ` 1700000000.5 # {trace_id="a b"} 1.0 1700000000.1` + "\n# EOF",
			"timestamp":       line + " 1700000000000\n",
			"junk":            "<html>\n\x00\xff\nx{\n" + line + "\ny{a=\"\\x\"} 1\n",
			"as a number":     strings.TrimSuffix(line, "3") + "3.0e0\n",
			"NaN beside it":   line + "\nfoo NaN\nbar +Inf\n",
			"twice, the last": strings.TrimSuffix(line, "3") + "9\n" + line,
		} {
			t.Run(d.Name()+" "+shape, func(t *testing.T) {
				got, err := d.Parse([]byte(text))
				require.NoError(t, err)
				assert.Equal(t, want, got)
			})
		}
		t.Run(d.Name()+" bad line", func(t *testing.T) {
			got, err := d.Parse([]byte(line + "\n" + strings.TrimSuffix(line, "3") + "three\n"))
			require.ErrorContains(t, err, "1 unreadable lines, first line 2")
			assert.Equal(t, want, got)
		})
	}
}

func TestDialectByName(t *testing.T) {
	for _, d := range metrics.Dialects() {
		got, err := metrics.DialectByName(d.Name())
		require.NoError(t, err)
		assert.Equal(t, d, got)
	}
	for name, want := range map[string]string{
		"vLLM": "vllm", "SGLang": "sglang", "TensorRT-LLM": "tensorrt-llm", "trtllm": "tensorrt-llm", "TRT-LLM": "tensorrt-llm",
		"tensorrt_llm": "tensorrt-llm", "llamacpp": "llama.cpp", "llama-cpp": "llama.cpp", "TGI": "tgi", "NIM": "nim", "Triton": "triton",
	} {
		got, err := metrics.DialectByName(name)
		require.NoError(t, err, name)
		assert.Equal(t, want, got.Name())
	}
	for _, name := range []string{"", "vllm2", "openai"} {
		got, err := metrics.DialectByName(name)
		require.ErrorContains(t, err, "want one of vllm, sglang, tensorrt-llm, triton, llama.cpp, tgi, nim")
		assert.Nil(t, got)
	}
}
