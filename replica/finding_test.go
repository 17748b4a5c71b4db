package replica_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/replica"
)

func TestFinding(t *testing.T) {
	now := time.Now()
	set, err := replica.NewSet(replica.Endpoint{URL: "http://a", Ranks: 2})
	require.NoError(t, err)
	r, sibling := set.Replicas()[0], set.Replicas()[1]
	assert.Equal(t, replica.Finding{State: replica.Up}, r.Finding())
	assert.True(t, r.Found(replica.Up))

	for _, state := range []replica.State{replica.Suspect, replica.Draining, replica.Down} {
		f := replica.Finding{State: state, Source: "dcgm", Reason: "dcgm: XID 79 on GPU 3", Since: now}
		r.Find(f)
		assert.Equal(t, f, r.Finding())
		assert.Equal(t, state, r.State(now))
		assert.True(t, r.Found(state))
		assert.False(t, r.Found(replica.Up))
		assert.Equal(t, state != replica.Down, r.Reachable(now))
		assert.False(t, r.Draining(), "which is the operator's alone")
		assert.Equal(t, replica.Up, sibling.State(now), "it is a rank's own")
	}

	// Worse things are known of it.
	r.Find(replica.Finding{State: replica.Suspect})
	r.Unreachable(now)
	assert.Equal(t, replica.Down, r.State(now))
	require.NoError(t, set.Drain(r.Name()))
	assert.Equal(t, replica.Draining, r.State(now))
	r.Find(replica.Finding{})
	assert.True(t, r.Draining(), "a drain outlasts what was found")
	assert.True(t, r.Found(replica.Up))
	require.NoError(t, set.Resume(r.Name()))
	r.Reached()
	assert.Equal(t, replica.Up, r.State(now))

	// What is no state that a watcher can find is no finding.
	r.Find(replica.Finding{State: replica.Removed})
	assert.True(t, r.Found(replica.Up))
}
