package replica_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/replica"
)

func names(s *replica.Set) []string {
	var out []string
	for _, r := range s.Replicas() {
		out = append(out, r.Name())
	}
	return out
}

func TestSetNamesAndRanks(t *testing.T) {
	s, err := replica.NewSet(
		replica.Endpoint{URL: "http://A:8000/", Ranks: 2},
		replica.Endpoint{URL: "https://b"},
		replica.Endpoint{URL: "http://b"},
		replica.Endpoint{URL: "http://c/p/q/", Ranks: 1},
	)
	require.NoError(t, err)
	assert.Equal(t, []string{"a:8000@0", "a:8000@1", "b:443", "b:80", "c:80/p/q"}, names(s))
	r := s.Replicas()
	assert.Equal(t, []string{"1"}, r[1].RankHeaderValues())
	assert.True(t, r[0].SameEndpoint(r[1]))
	assert.False(t, r[2].SameEndpoint(r[3]))
	for _, single := range r[2:] {
		assert.Equal(t, replica.NoRank, single.Rank())
		assert.Nil(t, single.RankHeaderValues(), "a single rank gets no header")
	}
	assert.True(t, r[0].RanksKnown())
	assert.False(t, r[2].RanksKnown())
	assert.True(t, r[4].RanksKnown())
}

func TestSetRefusesTheSameEndpointTwice(t *testing.T) {
	for _, second := range []string{"http://a:80", "http://A", "http://a/", "http://a:", "http://a:80/"} {
		_, err := replica.NewSet(replica.Endpoint{URL: "http://a"}, replica.Endpoint{URL: second, Model: "m"})
		require.ErrorIs(t, err, replica.ErrDuplicate, second)
		assert.ErrorContains(t, err, "http://a")
	}
	_, err := replica.NewSet(replica.Endpoint{URL: "http://a", Ranks: -1})
	var refused *replica.ConfigError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "ranks", refused.Field)
	assert.Equal(t, "-1", refused.Value)
}

// ranks tells a set how many ranks there are, and finishes the change.
func ranks(t *testing.T, s *replica.Set, endpoint string, n int) (changed bool) {
	t.Helper()
	change, err := s.SetRanks(endpoint, n)
	require.NoError(t, err)
	change.Finish()
	return !change.Empty()
}

// ignoresRanks is ranks for an endpoint that ignores them.
func ignoresRanks(t *testing.T, s *replica.Set, endpoint string, on bool) (changed bool) {
	t.Helper()
	change, err := s.IgnoresRanks(endpoint, on)
	require.NoError(t, err)
	change.Finish()
	return !change.Empty()
}

func TestReplicasThatRanksReplaceAreThereUntilTheChangeIsFinished(t *testing.T) {
	s, err := replica.NewSet(replica.Endpoint{URL: "http://a"})
	require.NoError(t, err)
	lone := s.Replicas()[0]
	change, err := s.SetRanks("http://a", 2)
	require.NoError(t, err)
	assert.Len(t, change.Ranks, 1)
	assert.False(t, lone.Removed())
	change.Finish()
	assert.True(t, lone.Removed())
}

func TestRanksAppear(t *testing.T) {
	s, err := replica.NewSet(replica.Endpoint{URL: "http://a"}, replica.Endpoint{URL: "http://b", Ranks: 2})
	require.NoError(t, err)
	lone := s.Replicas()[0]

	assert.False(t, ranks(t, s, "http://a", 1), "one rank is what there was")
	assert.Same(t, lone, s.Replicas()[0])
	assert.True(t, lone.RanksKnown())

	require.NoError(t, s.Drain("http://a"))
	assert.True(t, ranks(t, s, "http://a", 2))
	assert.Equal(t, []string{"a:80@0", "a:80@1", "b:80@0", "b:80@1"}, names(s))
	assert.Equal(t, replica.Removed, lone.State(time.Now()))
	first := s.Replicas()[0]
	assert.Equal(t, replica.Draining, first.State(time.Now()), "a drained endpoint's ranks are drained")
	require.NoError(t, s.Resume("http://a"))

	ranks(t, s, "http://a", 3)
	assert.Same(t, first, s.Replicas()[0], "who was there stays the same instance")
	third := s.Replicas()[2]
	ranks(t, s, "http://a", 2)
	assert.Equal(t, []string{"a:80@0", "a:80@1", "b:80@0", "b:80@1"}, names(s))
	assert.Equal(t, replica.Removed, third.State(time.Now()))

	ranks(t, s, "http://a", 1)
	assert.Equal(t, []string{"a:80", "b:80@0", "b:80@1"}, names(s))
	assert.Equal(t, replica.Removed, first.State(time.Now()))

	assert.False(t, ranks(t, s, "http://b", 7), "configured ranks are left alone")
	_, err = s.SetRanks("http://c", 2)
	require.ErrorIs(t, err, replica.ErrUnknown)
	_, err = s.SetRanks("http://a", 0)
	require.Error(t, err)
}

func TestAnEndpointThatIgnoresRanksIsOneReplica(t *testing.T) {
	s, err := replica.NewSet(replica.Endpoint{URL: "http://a"}, replica.Endpoint{URL: "http://b", Ranks: 3}, replica.Endpoint{URL: "http://c"})
	require.NoError(t, err)
	ranks(t, s, "http://a", 2)
	for _, url := range []string{"http://a", "http://b"} {
		assert.True(t, ignoresRanks(t, s, url, true))
		assert.False(t, ignoresRanks(t, s, url, true))
	}
	assert.Equal(t, []string{"a:80", "b:80", "c:80"}, names(s))
	assert.True(t, s.Replicas()[0].RanksKnown())
	ranks(t, s, "http://a", 4)
	assert.Equal(t, []string{"a:80", "b:80", "c:80"}, names(s), "however many it has")
	for _, url := range []string{"http://a", "http://b", "http://c"} {
		ignoresRanks(t, s, url, false)
	}
	assert.Equal(t, []string{"a:80@0", "a:80@1", "a:80@2", "a:80@3", "b:80@0", "b:80@1", "b:80@2", "c:80"}, names(s))
	_, err = s.IgnoresRanks("http://z", true)
	require.ErrorIs(t, err, replica.ErrUnknown)
}

func TestDrainAndRemove(t *testing.T) {
	s, err := replica.NewSet(replica.Endpoint{URL: "http://a", Ranks: 2}, replica.Endpoint{URL: "http://b"})
	require.NoError(t, err)
	now := time.Now()
	r := s.Replicas()
	require.NoError(t, s.Drain("a:80@1"))
	assert.Equal(t, replica.Up, r[0].State(now))
	assert.Equal(t, replica.Draining, r[1].State(now))
	require.NoError(t, s.Drain("http://a/"))
	assert.Equal(t, replica.Draining, r[0].State(now))
	require.NoError(t, s.Resume("a:80"))
	assert.Equal(t, replica.Up, r[0].State(now))
	require.ErrorIs(t, s.Drain("a:80@2"), replica.ErrUnknown)
	require.ErrorIs(t, s.Remove("http://c"), replica.ErrUnknown)

	snapshot := s.Replicas()
	r[0].Begin()
	require.NoError(t, s.Remove("http://a"))
	assert.Len(t, snapshot, 3, "a snapshot does not change")
	assert.Equal(t, []string{"b:80"}, names(s))
	assert.Equal(t, replica.Removed, r[0].State(now))
	require.NoError(t, s.Add(replica.Endpoint{URL: "http://a", Ranks: 2}))
	back := s.Replicas()[1]
	assert.Equal(t, "a:80@0", back.Name())
	assert.Zero(t, back.InFlight(), "who comes back starts at zero")
	r[0].End()
	assert.Zero(t, back.InFlight())
	assert.Zero(t, r[0].InFlight())
}

func TestSetConcurrently(t *testing.T) {
	s, err := replica.NewSet(replica.Endpoint{URL: "http://a"})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 200 {
				e := replica.Endpoint{URL: fmt.Sprintf("http://x%d", i)}
				assert.NoError(t, s.Add(e))
				change, err := s.SetRanks(e.URL, 3)
				assert.NoError(t, err)
				change.Finish()
				assert.NoError(t, s.Drain(e.URL))
				for _, r := range s.Replicas() {
					r.Begin()
					r.State(time.Now())
					r.End()
				}
				assert.NoError(t, s.Remove(e.URL))
			}
		})
	}
	wg.Wait()
	assert.Equal(t, []string{"a:80"}, names(s))
}

func ExampleSet() {
	set, _ := replica.NewSet(replica.Endpoint{URL: "http://10.0.0.1:8000"})
	change, _ := set.SetRanks("http://10.0.0.1:8000", 2) // two engine labels were seen
	change.Finish()
	for _, r := range set.Replicas() {
		fmt.Println(r, r.Rank(), r.InFlight())
	}
	// Output:
	// 10.0.0.1:8000@0 0 0
	// 10.0.0.1:8000@1 1 0
}
