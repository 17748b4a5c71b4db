package metrics_test

import (
	"bytes"
	"math"
	"net/http"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

func FuzzVLLMParse(f *testing.F) {
	for _, name := range []string{"vllm-0.26.0-1rank.txt", "vllm-0.26.0-4rank-busy.txt"} {
		text := fixture(f, name)
		f.Add(text[:4000])
		for _, series := range []string{"vllm:kv_cache_usage_perc{", "vllm:prefix_cache_hits", "vllm:cache_config_info{", "vllm:iteration_tokens_total_count", "vllm:engine_sleep_state{"} {
			start := bytes.Index(text, []byte(series))
			f.Add(text[start:min(start+1200, len(text))])
		}
	}
	f.Add([]byte("\ufeff" + runningLine[:20] + "\r\n# EOF"))
	f.Add([]byte("# TYPE h histogram\nfoo 1\n{\"h\",a=\"b\"} 1\n" + runningLine))
	f.Add([]byte(`vllm:kv_cache_usage_perc{engine="0"} 1e300 17.5 # {a="b"} 1` + "\n" + `ray_vllm_gpu_cache_usage_perc NaN`))
	f.Add([]byte(`vllm:lora_requests_info{max_lora="4",running_lora_adapters="a,,b ,",waiting_lora_adapters=","} 1.7e+09`))
	fuzzDialect(f, metrics.VLLM())
}

func FuzzSGLangParse(f *testing.F) {
	f.Add([]byte(`sglang:num_running_reqs{dp_rank="0",priority="",tp_rank="1"} 3.0` + "\n" + `sglang:cuda_graph_passes_total{dp_rank="1",mode="x",pp_rank="99999999999"} 3`))
	f.Add([]byte(`sglang:realtime_tokens_total{dp_rank="0",mode="decode"} 1e308` + "\n" + `sglang:prompt_tokens_total 1e308` + "\n" + `sglang:prompt_tokens_total 1e308`))
	fuzzDialect(f, metrics.SGLang())
}

func FuzzTensorRTLLMParse(f *testing.F) {
	f.Add([]byte("trtllm_kv_cache_max_blocks 1e300\ntrtllm_kv_cache_tokens_per_block 1e300\ntrtllm_kv_cache_reused_blocks_total 3"))
	f.Add([]byte(`trtllm:request_success_total{finished_reason="stop"} 5.0` + "\ntrtllm_max_batch_size_runtime 1"))
	fuzzDialect(f, metrics.TensorRTLLM())
}

func FuzzTritonParse(f *testing.F) {
	f.Add([]byte(`nv_trt_llm_request_metrics{model="a",request_type="max",version="1"} 512` + "\n" +
		`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="b"} 1` + "\n" + `nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="b"} 0`))
	fuzzDialect(f, metrics.Triton())
}

func FuzzNIMParse(f *testing.F) {
	f.Add([]byte("process_start_time_seconds 1\nnum_request_max 3\nnum_requests_running 2\nrequest_finish_total 4\n"))
	f.Add([]byte(`gpu_cache_usage_perc{engine="1"} -1` + "\nprompt_tokens_total 7"))
	fuzzDialect(f, metrics.NIM())
}

func FuzzLlamaCPPParse(f *testing.F) {
	f.Add([]byte("llamacpp:requests_processing 4\nllamacpp:kv_cache_usage_ratio 7\nllamacpp:n_decode_total nan"))
	fuzzDialect(f, metrics.LlamaCPP())
}

func FuzzTGIParse(f *testing.F) {
	f.Add([]byte(`tgi_batch_inference_count{method="decode"} 1e308` + "\n" + `tgi_batch_inference_count{method="prefill"} 1e308` + "\ntgi_queue_size 1"))
	fuzzDialect(f, metrics.TGI())
}

// fuzzDialect checks what holds for every page in every dialect.
func fuzzDialect(f *testing.F, d metrics.Dialect) {
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		page, err := d.Parse(text)
		require.Equal(t, before, text)
		seen := make(map[string]bool)
		for _, e := range page.Engines {
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
		// What is read does not point into the page.
		for i := range text {
			text[i] = 'x'
		}
		// A page reads the same every time, and with junk in front.
		again, errAgain := d.Parse(append([]byte("{junk\n"), bytes.TrimPrefix(before, []byte("\ufeff"))...))
		require.Equal(t, page, again)
		require.Equal(t, err == nil, errAgain == nil)
	})
}

func FuzzModels(f *testing.F) {
	f.Add([]byte(`{"data":[{"id":"base","parent":null},{"id":"sql","parent":"base"}]}`))
	f.Add([]byte(`{"data":[{},null,{"id":""}]}`))
	f.Add([]byte(`{"data":{"id":7}}`))
	f.Add([]byte(`<html>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := scraperOf(t, metrics.Config{Dialect: metrics.VLLM()}, func(*http.Request) (*http.Response, error) {
			return answer(http.StatusOK, bytes.NewReader(body)), nil
		})
		models, err := s.Models(t.Context(), at(t, "http://h"))
		require.Equal(t, err != nil, len(models) == 0)
		for _, m := range models {
			require.NotEmpty(t, m.ID)
		}
	})
}
