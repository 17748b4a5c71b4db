package balance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestPrefillRateUnderLoad has one prefill in twenty that nothing is in the way
// of. What displaces a conversation costs is reckoned by the engine's speed, not
// by how long its queue is.
func TestPrefillRateUnderLoad(t *testing.T) {
	const rate = 2300
	a := &Admission{rate: firstRate}
	for i := range 1000 {
		took := 4 * time.Second
		if i%20 == 0 {
			took = time.Second
		}
		a.learnRate(&Turn{prefill: took}, Served{Prompt: rate + 500, Cached: 500})
	}
	assert.InEpsilon(t, rate, a.rate, 0.35)
	for range 20 {
		a.learnRate(&Turn{prefill: time.Second}, Served{Prompt: rate})
	}
	assert.InEpsilon(t, rate, a.rate, 0.02)
}
