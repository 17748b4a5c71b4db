package replica_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/replica"
)

func ranksWithBreaker(t *testing.T, ranks int) []*replica.Replica {
	t.Helper()
	s, err := replica.NewSetWithBreaker(replica.BreakerConfig{Consecutive: 2, Jitter: steady}, replica.Endpoint{URL: "http://a", Ranks: ranks})
	require.NoError(t, err)
	return s.Replicas()
}

func TestEvidenceOfRanks(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, tc := range []struct {
		name    string
		failure replica.Failure
		times   int
		first   replica.State
		other   replica.State
	}{
		{"one rank's own", replica.OwnFailure, 2, replica.Open, replica.Up},
		{"the endpoint's", replica.EndpointFailure, 2, replica.Open, replica.Open},
		{"too few", replica.EndpointFailure, 1, replica.Up, replica.Up},
		{"possible ones", replica.PossibleFailure, 10, replica.Up, replica.Up},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := ranksWithBreaker(t, 2)
			for range tc.times {
				p, _ := r[0].Admit(now)
				r[0].Failed(p, tc.failure, now)
			}
			assert.Equal(t, tc.first, r[0].State(now))
			assert.Equal(t, tc.other, r[1].State(now))
			assert.Equal(t, tc.first == replica.Up, r[0].Allows(now))
		})
	}
}

// Failures of both kinds, by turns: the endpoint's success is none of the rank's.
func TestAnEndpointsFailureBreaksNoRanksRow(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := ranksWithBreaker(t, 2)
	for _, failure := range []replica.Failure{replica.OwnFailure, replica.EndpointFailure, replica.OwnFailure} {
		p, _ := r[0].Admit(now)
		r[0].Failed(p, failure, now)
	}
	assert.Equal(t, replica.Open, r[0].State(now))
	assert.Equal(t, replica.Up, r[1].State(now))

	single := ranksWithBreaker(t, 1)
	for _, failure := range []replica.Failure{replica.OwnFailure, replica.EndpointFailure} {
		p, _ := single[0].Admit(now)
		single[0].Failed(p, failure, now)
	}
	assert.Equal(t, replica.Open, single[0].State(now), "without ranks there is but one breaker")
}

// A probe of the endpoint's breaker is not used up by a rank that takes nothing.
func TestProbesOfTwoBreakers(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := ranksWithBreaker(t, 2)
	for _, failure := range []replica.Failure{replica.EndpointFailure, replica.EndpointFailure} {
		p, _ := r[1].Admit(now)
		r[1].Failed(p, failure, now)
	}
	now = now.Add(900 * time.Millisecond)
	for range 2 {
		p, _ := r[0].Admit(now)
		r[0].Failed(p, replica.OwnFailure, now)
	}
	now = now.Add(200 * time.Millisecond) // the endpoint's is half-open, rank 0's open
	p, ok := r[0].Admit(now)
	assert.False(t, ok)
	assert.False(t, p.Probe())
	assert.Equal(t, replica.Open, r[0].State(now))
	assert.Equal(t, replica.Probing, r[1].State(now))
	p, ok = r[1].Admit(now)
	require.True(t, ok)
	assert.True(t, p.Probe())
	assert.True(t, r[1].Succeeded(p, now))
	assert.Equal(t, now.UnixNano(), r[1].Returned().UnixNano())
	now = now.Add(time.Second)
	p, ok = r[0].Admit(now)
	require.True(t, ok)
	assert.True(t, r[0].Succeeded(p, now))
	assert.Equal(t, uint64(2), r[0].BreakerOpens())
	assert.Equal(t, replica.BreakerClosed, r[0].Breaker(now))
}

func TestAnUnknownPassageSaysNothing(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := ranksWithBreaker(t, 1)[0]
	for range 10 {
		assert.False(t, r.Failed(replica.Passage{}, replica.OwnFailure, now))
	}
	r.Released(replica.Passage{})
	assert.False(t, r.Succeeded(replica.Passage{}, now))
	assert.Equal(t, replica.Up, r.State(now))
}

func TestHold(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := ranksWithBreaker(t, 2)
	assert.False(t, r[0].Held(now))
	r[0].Hold(now, 5*time.Second)
	r[0].Hold(now, time.Second)
	assert.True(t, r[1].Held(now.Add(5*time.Second-1)), "the whole endpoint, for the longer time")
	assert.Equal(t, replica.Held, r[1].State(now))
	assert.False(t, r[0].Held(now.Add(5*time.Second)))
	r[0].Hold(now, time.Hour)
	assert.False(t, r[0].Held(now.Add(30*time.Second)), "30 s at the most")
}

func TestReturned(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := ranksWithBreaker(t, 2)
	assert.True(t, r[0].Returned().IsZero())
	r[0].MarkReturned(now)
	assert.Equal(t, now.UnixNano(), r[0].Returned().UnixNano())
	assert.True(t, r[1].Returned().IsZero())
	r[0].MarkEndpointReturned(now.Add(1))
	assert.Equal(t, now.Add(1).UnixNano(), r[1].Returned().UnixNano())
}

func TestAPIKeyIsNotShown(t *testing.T) {
	e := replica.Endpoint{URL: "http://a", APIKey: "s3cret"}
	s, err := replica.NewSet(e)
	require.NoError(t, err)
	r := s.Replicas()[0]
	assert.Equal(t, []string{"Bearer s3cret"}, r.AuthorizationValues())
	encoded, err := json.Marshal(r.Endpoint())
	require.NoError(t, err)
	for _, text := range []string{
		string(encoded), e.String(), r.String(), fmt.Sprint(e), fmt.Sprintf("%+v", r.Endpoint()), fmt.Sprintf("%#v", e),
		fmt.Sprintf("%+v", s.Endpoints()), fmt.Sprintf("%v", struct{ E replica.Endpoint }{e}),
	} {
		assert.NotContains(t, text, "s3cret")
	}
	none, err := replica.NewSet(replica.Endpoint{URL: "http://a"})
	require.NoError(t, err)
	assert.Nil(t, none.Replicas()[0].AuthorizationValues())
	for _, key := range []string{"a\r\nX-Evil: 1", "a b", "é", "\x00"} {
		_, err := replica.NewSet(replica.Endpoint{URL: "http://a", APIKey: key})
		var refused *replica.ConfigError
		require.ErrorAs(t, err, &refused)
		assert.NotContains(t, err.Error(), key)
	}
}
