package report_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench/report"
)

func TestValue(t *testing.T) {
	for name, c := range map[string]struct {
		value report.Value
		known bool
		json  string
	}{
		"zero":     {0, true, "0"},
		"fraction": {.25, true, "0.25"},
		"missing":  {report.Missing(), false, "null"},
		"infinite": {report.Value(math.Inf(1)), false, "null"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.known, c.value.Known())
			b, err := json.Marshal(c.value)
			require.NoError(t, err)
			assert.Equal(t, c.json, string(b))

			back := report.Value(7)
			require.NoError(t, json.Unmarshal(b, &back))
			assert.Equal(t, c.known, back.Known())
			if c.known {
				assert.Equal(t, c.value, back)
			}
		})
	}
	var v report.Value
	assert.Error(t, json.Unmarshal([]byte(`"fast"`), &v))
	assert.Error(t, json.Unmarshal([]byte(`1e999`), &v))
}
