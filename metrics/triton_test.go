package metrics_test

import (
	"testing"

	"github.com/warmroute/warmroute/metrics"
)

// TestTriton has pages with the names and labels of the metrics section of the
// TensorRT-LLM backend's README.
func TestTriton(t *testing.T) {
	runPageTests(t, metrics.Triton(), []pageTest{
		{
			name: "all of it",
			page: page(
				`nv_inference_request_success{model="preprocessing",version="1"} 3`,
				`nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 1`,
				`nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="context",version="1"} 2`,
				`nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 4`,
				`nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512`,
				`nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 5`,
				`nv_trt_llm_runtime_memory_metrics{memory_type="gpu",model="tensorrt_llm",version="1"} 1610236`,
				`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.4875`,
				`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64`,
				`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 1`,
				`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="free",model="tensorrt_llm",version="1"} 6239`,
				`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 6239`,
			),
			want: one(metrics.Snapshot{
				Model: "tensorrt_llm", Running: num(4), Waiting: num(1), MaxNumSeqs: num(512), KVUsage: num(0.4875), KVTokens: num(399296), BlockTokens: num(64),
			}),
		},
		{
			name: "23.11, as recorded: no queue and no fraction",
			page: page(
				`nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="context",version="1"} 1`,
				`nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 1`,
				`nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512`,
				`nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 0`,
				`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64`,
				`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 1`,
				`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="free",model="tensorrt_llm",version="1"} 6239`,
				`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 6239`,
				`nv_trt_llm_inflight_batcher_metrics{inflight_batcher_specific_metric="generation_requests",model="tensorrt_llm",version="1"} 0`,
				`nv_trt_llm_general_metrics{general_type="iteration_counter",model="tensorrt_llm",version="1"} 0`,
				`nv_inference_pending_request_count{model="tensorrt_llm",version="1"} 0`,
			),
			want: one(metrics.Snapshot{
				Model: "tensorrt_llm", Running: num(1), MaxNumSeqs: num(512), KVUsage: num(1.0 / 6239), KVTokens: num(399296), BlockTokens: num(64),
			}),
		},
		{
			name: "no fraction, two models",
			page: page(
				`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="b",version="1"} 1`,
				`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="b",version="1"} 4`,
				`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="a",version="1"} 0`,
				`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="a",version="1"} 0`,
			),
			want: metrics.Page{Engines: []metrics.Snapshot{{Engine: "a", Model: "a"}, {Engine: "b", Model: "b", KVUsage: num(0.25)}}},
		},
		{name: "another backend's", page: page(`nv_inference_request_success{model="resnet",version="1"} 3`)},
	})
}
