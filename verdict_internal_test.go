package warmroute

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVerdict(t *testing.T) {
	for name, tc := range map[string]struct {
		turnEvidence
		want Verdict
	}{
		"all there":                          {turnEvidence{expected: 5125, prompt: 5500, cached: 5120, measured: true}, Verified},
		"with the answer":                    {turnEvidence{expected: 5125, prompt: 5500, cached: 5392, measured: true}, Verified},
		"rounded down to large blocks":       {turnEvidence{expected: 1000, prompt: 1100, cached: 960, measured: true}, Verified},
		"all but a block":                    {turnEvidence{expected: 1000, prompt: 1100, cached: 896, measured: true, written: -1}, Lost},
		"the same prompt again":              {turnEvidence{expected: 1000, prompt: 1000, cached: 992, measured: true}, Verified},
		"an undone turn, still there":        {turnEvidence{expected: 8000, prompt: 5000, cached: 4992, measured: true}, Verified},
		"compacted":                          {turnEvidence{expected: 80_000, prompt: 9000, cached: 3500, measured: true, written: 1, capacity: 1e6}, Rewritten},
		"evicted":                            {turnEvidence{expected: 5000, prompt: 5500, cached: 3000, measured: true, written: 30_000, capacity: 20_000}, Lost},
		"could not have been evicted":        {turnEvidence{expected: 5000, prompt: 5500, cached: 16, measured: true, written: 6000, capacity: 100_000}, Rewritten},
		"compacted to a twentieth":           {turnEvidence{expected: 150_000, prompt: 7000, cached: 0, measured: true}, Rewritten},
		"restarted":                          {turnEvidence{expected: 5000, prompt: 5500, cached: 0, measured: true, cold: true, written: 6000, capacity: 100_000}, Lost},
		"nothing known of the cache":         {turnEvidence{expected: 5000, prompt: 5500, cached: 0, measured: true, written: -1, capacity: 100_000}, Lost},
		"nothing known of its size":          {turnEvidence{expected: 5000, prompt: 5500, cached: 0, measured: true, written: 10}, Lost},
		"no cached count":                    {turnEvidence{expected: 5000, prompt: 5500}, Unmeasured},
		"no cached count after a restart":    {turnEvidence{expected: 5000, prompt: 5500, cold: true}, Unmeasured},
		"a short prompt, below one block":    {turnEvidence{expected: 11, prompt: 20, cached: 0, measured: true}, ""},
		"a short prompt after a long one":    {turnEvidence{expected: 5000, prompt: 40, cached: 0, measured: true}, ""},
		"a middling prompt after a long one": {turnEvidence{expected: 5000, prompt: 400, cached: 0, measured: true}, Rewritten},
	} {
		assert.Equal(t, tc.want, tc.verdict(), name)
	}
}

func TestVerifiedShare(t *testing.T) {
	assert.Nil(t, VerdictStats{Unmeasured: 3}.VerifiedShare())
	assert.InDelta(t, 0.5, *VerdictStats{Verified: 4, Lost: 2, Ignored: 1, Rewritten: 1, Unmeasured: 9}.VerifiedShare(), 1e-9)
}
