package balance

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheQueueStaysInOrder has turns come, go and be cancelled, and compares with
// what is sorted anew each time.
func TestTheQueueStaysInOrder(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var q turnQueue
		in := map[*Turn]float64{} // those that wait, with their tags
		for range 500 {
			if rnd.IntN(3) > 0 {
				now = now.Add(time.Second) // else some come at the same time
			}
			switch op := rnd.IntN(10); {
			case op < 5:
				x := &Turn{Tenant: uint64(rnd.IntN(3)), Priority: rnd.IntN(2), arrived: now}
				if rnd.IntN(8) == 0 {
					x.Since = now
				}
				q.push(x)
				in[x] = x.tag
			case len(in) == 0:
			case op < 7:
				x := q.first()
				require.True(t, x.queued)
				q.remove(x)
				delete(in, x)
			case op < 8:
				x := q.turns[rnd.IntN(len(q.turns))]
				q.remove(x)
				delete(in, x)
			default:
				x := q.turns[rnd.IntN(len(q.turns))]
				gone := x.tag
				q.cancel(x)
				delete(in, x)
				for y, tag := range in {
					if x.Since.IsZero() && y.tenantAt() == x.tenantAt() && y.Since.IsZero() && tag > gone {
						in[y]--
					}
				}
			}
			require.Len(t, in, q.len())
			require.True(t, slices.IsSortedFunc(q.turns, goesBefore))
			for _, x := range q.turns {
				tag, ok := in[x]
				require.True(t, ok)
				require.Equal(t, tag, x.tag)
			}
			if q.len() > 0 {
				require.Same(t, q.turns[0], q.first())
			}
			require.Empty(t, q.spare)
			checkCounts(t, &q)
		}
	}
}

// TestTheQueueForgets has tenants and priorities that are never seen again.
func TestTheQueueForgets(t *testing.T) {
	var q turnQueue
	for i := range 10_000 {
		q.push(&Turn{Tenant: uint64(i), Priority: i})
		q.push(&Turn{Tenant: uint64(i)})
		q.push(&Turn{Tenant: uint64(i), Priority: -i})
		for q.len() > 10 {
			q.remove(q.first())
		}
	}
	require.LessOrEqual(t, len(q.tenants), 1100)
	require.LessOrEqual(t, len(q.virtual), 1100)
}

// BenchmarkAdmitOfALongQueue is a call of Admit where thousands wait, each of which
// takes up more than half of a replica, and none can go.
func BenchmarkAdmitOfALongQueue(b *testing.B) {
	a, err := NewAdmission(AdmissionConfig{})
	require.NoError(b, err)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 8 {
		a.Join().SetCapacity(10_000, true)
	}
	a.sizes.turns = knownAfter
	for s := range uint64(5000) {
		a.Arrive(&Turn{Session: s + 1, PromptTokens: 40_000 + int(s)}, now)
		if s < 8 {
			require.NotNil(b, a.Admit(now))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		if a.Admit(now) != nil {
			b.Fatal("there is no room")
		}
	}
}
