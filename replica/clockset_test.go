package replica_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/replica"
)

// A clock that is set back must not keep a replica out until it has caught up.
func TestDownEndsWhenTheClockIsSetBack(t *testing.T) {
	set, err := replica.NewSet(replica.Endpoint{URL: "http://a"})
	require.NoError(t, err)
	r := set.Replicas()[0]
	now := time.Now()
	r.Unreachable(now)
	assert.False(t, r.Reachable(now.Add(time.Second/2)))
	assert.True(t, r.Reachable(now.Add(2*time.Second)))
	assert.True(t, r.Reachable(now.Add(-time.Hour)))
	r.Unreachable(now.Add(-time.Hour))
	assert.False(t, r.Reachable(now.Add(-time.Hour)), "and what happens then counts")
}
