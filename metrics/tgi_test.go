package metrics_test

import (
	"testing"

	"github.com/warmroute/warmroute/metrics"
)

// TestTGI has pages with the names of the chapter "Metrics" of TGI's
// documentation.
func TestTGI(t *testing.T) {
	runPageTests(t, metrics.TGI(), []pageTest{
		{
			name: "all of it",
			page: page(
				`# TYPE tgi_queue_size gauge`,
				`tgi_queue_size 5`,
				`tgi_batch_current_size 8`,
				`tgi_batch_current_max_tokens 2048`,
				`tgi_request_count 253`,
				`tgi_request_success 250`,
				`tgi_request_failure{err="overloaded"} 3`,
				`tgi_request_input_length_sum 5000`,
				`tgi_request_input_length_count 250`,
				`tgi_request_generated_tokens_sum 1000`,
				`tgi_batch_inference_count{method="prefill"} 90`,
				`tgi_batch_inference_count{method="decode"} 900`,
				`tgi_batch_inference_duration_bucket{method="decode",le="0.1"} 7`,
			),
			want: one(metrics.Snapshot{
				Running: num(8), Waiting: num(5), PromptTokens: num(5000), GenerationTokens: num(1000), RequestsFinished: num(250), Steps: num(990),
			}),
		},
		{
			name: "counters by method, as recorded after the first request",
			page: page(
				`# TYPE tgi_request_count counter`,
				`tgi_request_count 1.0`,
				`# TYPE tgi_batch_inference_count counter`,
				`tgi_batch_inference_count{method="decode"} 292`,
				`tgi_batch_inference_count{method="prefill"} 1`,
			),
			want: one(metrics.Snapshot{Steps: num(293)}),
		},
		{
			name: "counters named as OpenMetrics has them",
			page: page(`tgi_request_success_total 3 # {trace_id="a"} 1`, `tgi_batch_inference_count_total{method="prefill"} 2 17.5`, `# EOF`),
			want: one(metrics.Snapshot{RequestsFinished: num(3), Steps: num(2)}),
		},
		{name: "nobody's", page: page(`tgi_request_count 4`, `te_queue_size 4`)},
	})
}
