package warmroute_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/replica"
)

func TestSetPools(t *testing.T) {
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Model: "a"}, {URL: "http://b", Model: "b"}},
		warmroute.WithSpill(5), warmroute.WithPool("a", warmroute.WithAffinity(false)))
	settings := func() map[string][2]any {
		out := map[string][2]any{}
		for _, p := range router.Stats().Pools {
			out[p.Model] = [2]any{p.Affinity, p.Spill.Value}
		}
		return out
	}
	assert.Equal(t, map[string][2]any{"a": {false, 5}, "b": {true, 5}}, settings())
	require.NoError(t, router.SetPools([]warmroute.PoolOption{warmroute.WithSpill(7), nil}, map[string][]warmroute.PoolOption{
		"b": {warmroute.WithSpill(9), warmroute.WithAffinity(false)}, "c": {warmroute.WithSpill(11), warmroute.WithPicker(balance.RoundRobin)}}))
	assert.Equal(t, map[string][2]any{"a": {true, 7}, "b": {false, 9}}, settings(), "what is not said any more is as by default")
	require.NoError(t, router.Add(warmroute.Endpoint{URL: "http://c", Model: "c"}))
	require.NoError(t, router.Add(warmroute.Endpoint{URL: "http://d", Model: "d"}))
	assert.Equal(t, map[string][2]any{"a": {true, 7}, "b": {false, 9}, "c": {true, 11}, "d": {true, 7}}, settings(), "and later pools have it")

	var refused *warmroute.ConfigError
	before := settings()
	require.ErrorAs(t, router.SetPools([]warmroute.PoolOption{warmroute.WithSpill(1), warmroute.WithMaxNumSeqs(0)}, nil), &refused)
	require.ErrorAs(t, router.SetPools([]warmroute.PoolOption{warmroute.WithSpill(1)},
		map[string][]warmroute.PoolOption{"z": {warmroute.WithSpill(0)}}), &refused)
	assert.Equal(t, before, settings(), "nothing changes after an error")
}

func TestSetPoolsWhileEndpointsCome(t *testing.T) {
	router := newRouter(t, at("http://a"))
	var all sync.WaitGroup
	all.Go(func() {
		for i := range 100 {
			assert.NoError(t, router.SetPools([]warmroute.PoolOption{warmroute.WithSpill(warmroute.Spill(i + 1))}, nil))
		}
	})
	all.Go(func() {
		for range 100 {
			assert.NoError(t, router.Add(warmroute.Endpoint{URL: "http://b", Model: "b"}))
			assert.NoError(t, router.Remove("http://b"))
		}
	})
	all.Wait()
	for _, p := range router.Stats().Pools {
		assert.Equal(t, 100, p.Spill.Value, p.Model)
	}
}

func TestCheckOptions(t *testing.T) {
	require.NoError(t, warmroute.CheckOptions(warmroute.WithSpill(3), nil))
	for field, option := range map[string]warmroute.Option{
		"spill": warmroute.WithPool("m", warmroute.WithSpill(0)), "turnover": warmroute.WithTurnover(2),
		"session-ttl": warmroute.WithSessionTTL(0), "breaker probes": warmroute.WithBreaker(replica.BreakerConfig{Probes: -1}),
	} {
		var refused *warmroute.ConfigError
		require.ErrorAs(t, warmroute.CheckOptions(option), &refused)
		assert.Equal(t, field, refused.Field)
	}
}
