package replica_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/replica"
)

func targets(urls ...string) []replica.Target {
	var out []replica.Target
	for _, u := range urls {
		out = append(out, replica.Target{Endpoint: replica.Endpoint{URL: u}})
	}
	return out
}

func replace(t *testing.T, s *replica.Set, targets []replica.Target) replica.Change {
	t.Helper()
	change, err := s.Replace(targets)
	require.NoError(t, err)
	change.Finish()
	return change
}

func replicaNames(s *replica.Set) []string {
	var out []string
	for _, r := range s.Replicas() {
		out = append(out, r.Name())
	}
	return out
}

func urls(endpoints []replica.Endpoint) []string {
	var out []string
	for _, e := range endpoints {
		out = append(out, e.URL)
	}
	return out
}

func TestReplace(t *testing.T) {
	set, err := replica.NewSet(replica.Endpoint{URL: "http://a"}, replica.Endpoint{URL: "http://b", Ranks: 2})
	require.NoError(t, err)
	before := set.Replicas()
	ids := set.Endpoints()

	change := replace(t, set, []replica.Target{
		{Endpoint: replica.Endpoint{URL: "HTTP://B:80/", Ranks: 2}}, {Endpoint: replica.Endpoint{URL: "http://c"}}})
	assert.Equal(t, []string{"http://c"}, urls(change.Added))
	assert.Equal(t, []string{"http://a"}, urls(change.Removed))
	assert.Equal(t, []string{"b:80@0", "b:80@1", "c:80"}, replicaNames(set))
	assert.Same(t, before[1], set.Replicas()[0], "who stays is the same instance")
	assert.Equal(t, ids[1].ID, set.Endpoints()[0].ID)
	assert.True(t, before[0].Removed())

	change = replace(t, set, []replica.Target{
		{Endpoint: replica.Endpoint{URL: "http://b", Ranks: 2}}, {Endpoint: replica.Endpoint{URL: "http://c"}}})
	assert.True(t, change.Empty())

	change = replace(t, set, targets("http://b", "http://c"))
	assert.Equal(t, []string{"http://b"}, urls(change.Added), "other ranks are another endpoint")
	assert.Equal(t, []string{"http://b"}, urls(change.Removed))
	assert.Equal(t, []string{"c:80", "b:80"}, replicaNames(set))

	change = replace(t, set, targets("http://a", "http://b", "http://c"))
	assert.Equal(t, []string{"http://a"}, urls(change.Added))
	i := slices.IndexFunc(set.Replicas(), func(r *replica.Replica) bool { return r.Name() == "a:80" })
	assert.NotSame(t, before[0], set.Replicas()[i], "who returns is new")

	replace(t, set, nil)
	assert.Empty(t, set.Replicas())
}

// Who adds what was added to a list of its own before it finishes the change is
// never left without a replica to use.
func TestReplaceTellsWhoGoesWhenFinished(t *testing.T) {
	set, err := replica.NewSet(replica.Endpoint{URL: "http://a"}, replica.Endpoint{URL: "http://b"})
	require.NoError(t, err)
	before := set.Replicas()
	next := targets("http://b", "http://c")
	next[0].Draining = true
	change, err := set.Replace(next)
	require.NoError(t, err)
	assert.Equal(t, []string{"b:80", "c:80"}, replicaNames(set))
	assert.False(t, before[0].Removed())
	assert.False(t, before[1].Draining())
	change.Finish()
	assert.True(t, before[0].Removed())
	assert.True(t, before[1].Draining())
}

func TestReplaceChangesNothingAfterAnError(t *testing.T) {
	set, err := replica.NewSet(replica.Endpoint{URL: "http://a"})
	require.NoError(t, err)
	before := set.Replicas()
	var refused *replica.ConfigError
	_, err = set.Replace(targets("http://b", "ftp://c"))
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "URL", refused.Field)
	_, err = set.Replace(targets("http://b", "http://B:80"))
	require.ErrorIs(t, err, replica.ErrDuplicate)
	_, err = set.Replace([]replica.Target{{Endpoint: replica.Endpoint{URL: "http://b", Host: "x/y"}}})
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "host", refused.Field)
	assert.Equal(t, before, set.Replicas())
	assert.False(t, before[0].Removed())
}

func TestReplaceDrains(t *testing.T) {
	set, err := replica.NewSet()
	require.NoError(t, err)
	one := targets("http://a")
	replace(t, set, one)
	a := set.Replicas()[0]
	require.NoError(t, set.Drain("a:80"))
	change := replace(t, set, one)
	assert.True(t, change.Empty())
	assert.True(t, a.Draining(), "an operator's drain is not undone by hearing the same again")

	one[0].Draining = true
	change = replace(t, set, one)
	assert.Equal(t, []string{"http://a"}, urls(change.Drained))
	one[0].Draining = false
	change = replace(t, set, one)
	assert.Equal(t, []string{"http://a"}, urls(change.Resumed))
	assert.False(t, a.Draining())
	assert.Same(t, a, set.Replicas()[0])

	two := append(one, replica.Target{Endpoint: replica.Endpoint{URL: "http://b"}, Draining: true})
	replace(t, set, two)
	ranks(t, set, "http://b", 2)
	for _, r := range set.Replicas()[1:] {
		assert.True(t, r.Draining(), "ranks that are found later drain too")
	}
}

// Readers see the endpoints of one call or of the other, never a mixture.
func TestReplaceIsOneStep(t *testing.T) {
	set, err := replica.NewSet()
	require.NoError(t, err)
	lists := [][]replica.Target{targets("http://a", "http://b"), targets("http://c", "http://d")}
	replace(t, set, lists[0])
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got := replicaNames(set)
				if !slices.Equal(got, []string{"a:80", "b:80"}) && !slices.Equal(got, []string{"c:80", "d:80"}) {
					t.Errorf("mixed: %v", got)
					return
				}
			}
		})
	}
	for i := range 500 {
		replace(t, set, lists[i%2])
	}
	close(stop)
	wait.Wait()
}

func TestServerName(t *testing.T) {
	set, err := replica.NewSet(
		replica.Endpoint{URL: "https://10.0.0.1", Host: "llm.example:8443"},
		replica.Endpoint{URL: "https://[2001:db8::1]:8443/x", Host: "six.example"},
		replica.Endpoint{URL: "https://own.example"},
		replica.Endpoint{URL: "http://10.0.0.2:443", Host: "plain.example"})
	require.NoError(t, err)
	for address, want := range map[string]string{
		"10.0.0.1:443": "llm.example", "[2001:db8::1]:8443": "six.example", "own.example:443": "own.example",
		"10.0.0.1:444": "10.0.0.1", "10.0.0.2:443": "10.0.0.2", "[2001:db8::2]:443": "2001:db8::2",
	} {
		assert.Equal(t, want, set.ServerName(address), address)
	}
}

func TestEndpointHost(t *testing.T) {
	e, err := replica.ParseEndpoint("https://10.0.0.1,host=llm.example:8443")
	require.NoError(t, err)
	assert.Equal(t, "llm.example:8443", e.Host)
	again, err := replica.ParseEndpoint(e.String())
	require.NoError(t, err)
	assert.Equal(t, e, again)
	name, err := e.Name()
	require.NoError(t, err)
	assert.Equal(t, "10.0.0.1:443", name)
	for _, bad := range []string{"", "a b", "a/b", "u@a", "a:", "a?x", ":80", "http://a"} {
		_, err := replica.ParseEndpoint("https://10.0.0.1,host=" + bad)
		var refused *replica.ConfigError
		require.ErrorAs(t, err, &refused, bad)
		assert.Equal(t, "host", refused.Field)
	}
}
