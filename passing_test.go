package warmroute_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// TestWhatNeverWaitsTakesUpRoom has turns that pass the queue by: no other is
// promised the room that they have.
func TestWhatNeverWaitsTakesUpRoom(t *testing.T) {
	t.Run("pinned", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := tight(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}})
			pinned := large("1")
			pinned.ClientRank = "1"
			lease, err := r.TryRoute(pinned)
			require.NoError(t, err)
			require.Equal(t, warmroute.Pinned, lease.Outcome())
			other, err := r.TryRoute(large("2"))
			require.NoError(t, err)
			assert.Equal(t, 0, other.Replica().Rank())
			waits := begin(t.Context(), t, r, large("3"))
			require.True(t, waits.waits(), "both are full")
			serve(lease, 0)
			assert.Equal(t, 1, waits.went().Replica().Rank(), "the room is free")
			serve(waits.went(), 0)
			serve(other, 0)
			idleAgain(t, r)
		})
	})
	t.Run("spilled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := tight(t, at("http://a", "http://b"), warmroute.WithSpill(3))
			var leases []warmroute.Lease
			for {
				lease, err := r.TryRoute(large("hot"))
				require.NoError(t, err)
				leases = append(leases, lease)
				if lease.Outcome() == warmroute.Spilled {
					break
				}
				require.Less(t, len(leases), 10)
			}
			_, err := r.TryRoute(large("other"))
			require.ErrorIs(t, err, warmroute.ErrOverloaded, "the spilled one has the other replica's room")
			for _, lease := range leases {
				serve(lease, 0)
			}
			time.Sleep(5 * time.Second)
			other, err := r.TryRoute(large("other"))
			require.NoError(t, err)
			serve(other, 0)
			idleAgain(t, r)
		})
	})
	t.Run("released after its bound", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := tight(t, at("http://a"), warmroute.WithMaxWait(2*time.Second))
			first := route(t, r, large("1"))
			second := begin(t.Context(), t, r, large("2"))
			time.Sleep(3 * time.Second)
			late := second.went()
			serve(first, 0)
			third := begin(t.Context(), t, r, large("3"))
			assert.True(t, third.waits())
			serve(late, 0)
			time.Sleep(time.Second)
			serve(third.went(), 0)
			idleAgain(t, r)
		})
	})
}

// TestPassingTurnsTeachNoSharedPrompt has pinned turns find their own caches: new
// conversations have nothing in common with them.
func TestPassingTurnsTeachNoSharedPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}})
		for i := range 100 {
			pinned := large(fmt.Sprint("p", i))
			pinned.ClientRank = fmt.Sprint(i % 2)
			lease, err := r.TryRoute(pinned)
			require.NoError(t, err)
			serve(lease, 890)
		}
		time.Sleep(time.Minute)
		for i := range 2 {
			route(t, r, large(fmt.Sprint(i)))
		}
		_, err := r.TryRoute(large("3"))
		assert.ErrorIs(t, err, warmroute.ErrOverloaded, "each needs a whole replica")
	})
}
