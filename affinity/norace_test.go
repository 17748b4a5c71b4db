//go:build !race

package affinity_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/affinity"
)

// The race detector has a sync.Pool forget at random.
func TestFingerprintAllocations(t *testing.T) {
	body := []byte(`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"hello"}]}`)
	r := affinity.NewRequest(nil, nil).WithBody(func() []byte { return body })
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { affinity.Fingerprint(r) }), 1.0)
}
