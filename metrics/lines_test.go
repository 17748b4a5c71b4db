package metrics_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

// TestPageShapes has pages that are well read whatever their shape.
func TestPageShapes(t *testing.T) {
	const running = `vllm:num_requests_running{engine="0",model_name="m"} 3.0`
	three := []metrics.Snapshot{{Engine: "0", Model: "m", Running: num(3)}}
	tests := []struct {
		name string
		page string
		want []metrics.Snapshot
	}{
		{"empty", "", nil},
		{"blank", "\n\r\n \t\n", nil},
		{"HTML", "<!DOCTYPE html>\n<html><body>\n<h1>Sign in</h1>\n</body></html>\n", nil},
		{"JSON", `{"iterations": [{"num_requests_running": 3}]}`, nil},
		{"CRLF", "# HELP x y\r\n" + running + "\r\n\r\n", three},
		{"BOM", "\ufeff" + running + "\n", three},
		{"no final newline", running, three},
		{"final carriage return", running + "\r", three},
		{"blanks around", " \t" + running + " \t\n", three},
		{"blanks inside", "vllm:num_requests_running { engine = \"0\" , model_name=\"m\", }\t3\n", three},
		{"timestamp", running + " 1700000000000\n", three},
		{"timestamp of OpenMetrics", running + " 1700000000.123\n", three},
		{"exemplar", running + ` # {trace_id="a b"} 1.0 1700000000.1` + "\n# EOF", three},
		{"exemplar after a timestamp", running + ` 17.5 # {trace_id="a"} 1.0` + "\n", three},
		{"EOF without newline", running + "\n# EOF", three},
		{"HELP and TYPE twice", page("# TYPE vllm:num_requests_running gauge", running,
			"# TYPE vllm:num_requests_running counter", "# HELP vllm:num_requests_running x",
			"# HELP vllm:num_requests_running y"), three},
		{"unknown TYPE", page("# TYPE vllm:num_requests_running unknown", "# TYPE x info", running), three},
		{"junk elsewhere", page("%%%", "foo", "foo{", `bar{a="\x"} 1`, "baz 1 2 3", running, "\x00\xff"), three},
		{"cut mid-name", running + "\nvllm:num_requests_wai", three},
		{"hash and brace in a label", page(`vllm:num_requests_running{engine="0",model_name="a} 9 # \"b\\"} 3 1.5 # {a="b"} 1`),
			[]metrics.Snapshot{{Engine: "0", Model: `a} 9 # "b\`, Running: num(3)}}},
		{"sample line that panics expfmt elsewhere", page("# TYPE h histogram", "foo 1", `{"h",a="b"} 1`, running), three},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := metrics.VLLM().Parse([]byte(tt.page))
			require.NoError(t, err)
			assert.Equal(t, tt.want, got.Engines)
		})
	}
}

// TestBadLines has lines of wanted series that cannot be read: each costs only
// itself, and the error tells.
func TestBadLines(t *testing.T) {
	const (
		before = `vllm:num_requests_running{engine="0"} 3`
		after  = `vllm:kv_cache_usage_perc{engine="0"} 0.5`
	)
	want := []metrics.Snapshot{{Engine: "0", Running: num(3), KVUsage: num(0.5)}}
	lines := []string{
		`vllm:num_requests_waiting`,
		`vllm:num_requests_waiting{engine="0"}`,
		`vllm:num_requests_waiting{engine="0"`,
		`vllm:num_requests_waiting{engine="0`,
		`vllm:num_requests_waiting{engine="0\`,
		`vllm:num_requests_waiting{engine=0} 1`,
		`vllm:num_requests_waiting{engine="0"} one`,
		`vllm:num_requests_waiting{engine="0"} 1e999`,
		`vllm:num_requests_waiting{engine="0"} 1 2 3`,
		`vllm:num_requests_waiting{engine="0"} 1 later`,
		`vllm:num_requests_waiting{engine="0"} # {a="b"} 1`,
		`vllm:num_requests_waiting{engine="0",engine="1"} 1`,
		`vllm:num_requests_waiting{engine="\x"} 1`,
		`vllm:num_requests_waiting{__name__="x"} 1`,
		"vllm:num_requests_waiting{engine=\"\xff\"} 1",
	}
	for _, line := range lines {
		t.Run(line, func(t *testing.T) {
			got, err := metrics.VLLM().Parse([]byte(page("# a page", before, line, after)))
			require.ErrorContains(t, err, "1 unreadable lines, first line 3: ")
			assert.Equal(t, want, got.Engines)
		})
	}
	t.Run("all of them", func(t *testing.T) {
		got, err := metrics.VLLM().Parse([]byte(page(before, strings.Join(lines, "\n"), after)))
		require.ErrorContains(t, err, fmt.Sprintf("%d unreadable lines, first line 2: ", len(lines)))
		assert.Equal(t, want, got.Engines)
	})
	t.Run("the error is short", func(t *testing.T) {
		_, err := metrics.VLLM().Parse([]byte(page(`vllm:num_requests_waiting{engine="0"} ` + strings.Repeat("x", 1<<20))))
		require.Error(t, err)
		assert.Less(t, len(err.Error()), 300)
	})
}

func TestTooManyEngines(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "vllm:num_requests_running{engine=\"%d\"} 1\n", i)
	}
	got, err := metrics.VLLM().Parse([]byte(b.String()))
	require.ErrorContains(t, err, "more than 4096 engines")
	require.Len(t, got.Engines, 4096)
	assert.Equal(t, "4095", got.Engines[4095].Engine)
}
