package balance

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checkCounts compares the counts of the tenants with the turns in the queue.
func checkCounts(t *testing.T, q *turnQueue) {
	t.Helper()
	of, most := map[uint64]int{}, 0
	for _, x := range q.turns {
		of[x.Tenant]++
		most = max(most, of[x.Tenant])
	}
	require.Equal(t, most, q.counts.most)
	require.Len(t, q.counts.of, len(of))
	with := slices.Clone(q.counts.with)
	clear(with)
	for tenant, n := range of {
		require.Equal(t, n, q.counts.of[tenant])
		with[n]++
	}
	require.Equal(t, with, q.counts.with)
}

// TestWhoMakesWay has a queue be full of the given turns, in the order of their
// arrival, and one more come.
func TestWhoMakesWay(t *testing.T) {
	again := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		queue []Turn // that wait, with their places in it as the sessions
		comes Turn
		want  uint64 // of the one that makes way, 0 if the one that comes is refused
	}{
		"the last":                       {[]Turn{{Tenant: 1}, {Tenant: 1}, {Tenant: 1}}, Turn{Tenant: 2}, 3},
		"two to none":                    {[]Turn{{Tenant: 1}, {Tenant: 1}}, Turn{Tenant: 2}, 2},
		"one to none":                    {[]Turn{{Tenant: 1}, {Tenant: 3}}, Turn{Tenant: 2}, 0},
		"two to one":                     {[]Turn{{Tenant: 1}, {Tenant: 1}, {Tenant: 2}}, Turn{Tenant: 2}, 0},
		"three to one":                   {[]Turn{{Tenant: 1}, {Tenant: 1}, {Tenant: 1}, {Tenant: 2}}, Turn{Tenant: 2}, 3},
		"its own":                        {[]Turn{{Tenant: 1}, {Tenant: 1}, {Tenant: 1}}, Turn{Tenant: 1}, 0},
		"no tenants":                     {[]Turn{{}, {}, {}}, Turn{}, 0},
		"no tenant is one":               {[]Turn{{}, {}, {}}, Turn{Tenant: 1}, 3},
		"the one with the most":          {[]Turn{{Tenant: 1}, {Tenant: 1}, {Tenant: 1}, {Tenant: 3}, {Tenant: 3}}, Turn{Tenant: 2}, 3},
		"the last of two with as many":   {[]Turn{{Tenant: 3}, {Tenant: 1}, {Tenant: 1}, {Tenant: 3}}, Turn{Tenant: 2}, 4},
		"the least urgent":               {[]Turn{{Tenant: 1, Priority: 5}, {Tenant: 1}, {Tenant: 1}}, Turn{Tenant: 2}, 1},
		"as urgent":                      {[]Turn{{Tenant: 1, Priority: 5}, {Tenant: 1, Priority: 5}}, Turn{Tenant: 2, Priority: 5}, 2},
		"none more urgent":               {[]Turn{{Tenant: 1}, {Tenant: 1}, {Tenant: 1}}, Turn{Tenant: 2, Priority: 1}, 0},
		"those more urgent count":        {[]Turn{{Tenant: 1}, {Tenant: 1}, {Tenant: 1, Priority: 5}}, Turn{Tenant: 2, Priority: 5}, 3},
		"the next if it is more urgent":  {[]Turn{{Tenant: 1}, {Tenant: 1}, {Tenant: 1}, {Tenant: 3, Priority: 1}, {Tenant: 3, Priority: 1}}, Turn{Tenant: 2, Priority: 1}, 5},
		"none that was sent before":      {[]Turn{{Tenant: 1, Since: again}, {Tenant: 1, Since: again}}, Turn{Tenant: 2}, 0},
		"another than was sent before":   {[]Turn{{Tenant: 1, Since: again}, {Tenant: 1}, {Tenant: 1, Priority: 1, Since: again}}, Turn{Tenant: 2}, 2},
		"for one that was sent before":   {[]Turn{{Tenant: 1}, {Tenant: 1}}, Turn{Tenant: 2, Since: again}, 2},
		"not for one of a tenant's many": {[]Turn{{Tenant: 1}, {Tenant: 1}}, Turn{Tenant: 1, Since: again}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := NewAdmission(AdmissionConfig{MaxQueue: len(tc.queue)})
			require.NoError(t, err)
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			a.Join().Open = false // nobody can go
			for i := range tc.queue {
				x := &tc.queue[i]
				x.Session = uint64(i + 1)
				now = now.Add(time.Second)
				require.True(t, a.Arrive(x, now))
				require.Nil(t, a.PushOut(x), "they may all wait")
			}
			now = now.Add(time.Second)
			tc.comes.Session = 100
			in := a.Arrive(&tc.comes, now)
			require.Equal(t, tc.want != 0, in)
			out := a.PushOut(&tc.comes)
			if in {
				require.NotNil(t, out)
				assert.Equal(t, tc.want, out.Session)
				assert.Nil(t, a.conversations[out.Session], "nothing of it is kept")
			} else {
				require.Nil(t, out)
			}
			require.Equal(t, len(tc.queue), a.Waiting())
			checkCounts(t, &a.queue)
			if in { // and does not push that one out in its turn
				back := &Turn{Session: out.Session, Tenant: out.Tenant, Priority: out.Priority}
				if a.Arrive(back, now) {
					assert.NotEqual(t, tc.comes.Tenant, a.PushOut(back).Tenant)
				}
			}
		})
	}
}

// TestWhoComesPastTheBoundIsOne has a turn be let in for which another has to
// make way, and others come before it has.
func TestWhoComesPastTheBoundIsOne(t *testing.T) {
	a, err := NewAdmission(AdmissionConfig{MaxQueue: 4})
	require.NoError(t, err)
	r := a.Join()
	r.Open = false
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 4 {
		require.True(t, a.Arrive(&Turn{Tenant: 1}, now))
	}
	comes := &Turn{Tenant: 2}
	require.True(t, a.Arrive(comes, now))
	require.Equal(t, 5, a.Waiting())
	require.False(t, a.Arrive(&Turn{Tenant: 3}, now))
	r.Open = true
	require.NotNil(t, a.Admit(now))
	require.Nil(t, a.PushOut(comes), "there is room for all")
	require.Equal(t, 4, a.Waiting())
	for a.Admit(now) != nil {
	}
	require.Nil(t, a.PushOut(comes), "it does not wait")
	checkCounts(t, &a.queue)
}

// BenchmarkArriveAtAFullQueue is a turn that is refused, as many a second as the
// tenant that has filled the queue cares to send.
func BenchmarkArriveAtAFullQueue(b *testing.B) {
	a, err := NewAdmission(AdmissionConfig{})
	require.NoError(b, err)
	a.Join().Open = false
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range DefaultMaxQueue {
		require.True(b, a.Arrive(&Turn{Tenant: uint64(i % 1000)}, now))
	}
	t := &Turn{Tenant: 1}
	b.ReportAllocs()
	for b.Loop() {
		if a.Arrive(t, now) {
			b.Fatal("it is full")
		}
	}
}
