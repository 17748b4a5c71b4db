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

func TestOpenEndsWhenTheClockIsSetBack(t *testing.T) {
	b, err := replica.NewBreaker(replica.BreakerConfig{Consecutive: 1})
	require.NoError(t, err)
	now := time.Now()
	p, _ := b.Begin(now)
	require.True(t, b.Failed(p, now))
	require.Equal(t, replica.BreakerOpen, b.State(now))
	back := now.Add(-time.Hour)
	assert.Equal(t, replica.BreakerHalfOpen, b.State(back))
	assert.True(t, b.Allows(back))
	p, ok := b.Begin(back)
	assert.True(t, ok)
	assert.True(t, p.Probe())
	assert.True(t, b.Succeeded(p, back))
	assert.Equal(t, replica.BreakerClosed, b.State(back))

	set, err := replica.NewSet(replica.Endpoint{URL: "http://a"})
	require.NoError(t, err)
	r := set.Replicas()[0]
	r.Hold(now, time.Hour)
	assert.True(t, r.Held(now.Add(29*time.Second)))
	assert.False(t, r.Held(now.Add(31*time.Second)))
	assert.False(t, r.Held(back))
	r.Hold(back, time.Second)
	assert.True(t, r.Held(back), "and what it asks for then counts")
	assert.False(t, r.Held(back.Add(2*time.Second)))
}
