package sdktest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRetries has turns of a conversation fail twice before they succeed, by
// the SDK's own retries or, where it has none, by its user's.
func TestRetries(t *testing.T) {
	each(t, quick, func(t *testing.T, s sdk, f *fleet) {
		users := []string{text("s", 0)}
		_, err := f.sdk.ask(t.Context(), "s", users, 8)
		require.NoError(t, err)
		home := f.faults.tried()
		require.Len(t, home, 1)
		requests, failed := uint64(1), uint64(0)
		for _, fault := range []struct {
			name   string
			status int
			failed uint64 // of the replica's
		}{
			{"429", http.StatusTooManyRequests, 0},
			{"500", http.StatusInternalServerError, 2},
			{"503", http.StatusServiceUnavailable, 2},
			{"reset", 0, 2},
		} {
			for _, streamed := range []bool{false, true} {
				users = append(users, text("s", len(users)))
				f.faults.have(fault.status, fault.status)
				once := func() (string, error) {
					if !streamed {
						return f.sdk.ask(t.Context(), "s", users, 8)
					}
					st, err := f.sdk.stream(t.Context(), "s", users, 8)
					if err != nil {
						return "", err
					}
					answer, err := read(st)
					require.NoError(t, st.close())
					return answer, err
				}
				answer, err := once()
				for range 2 {
					if !s.retries {
						assert.Error(t, err)
						answer, err = once()
					}
				}
				require.NoError(t, err, fault.name)
				assert.Len(t, answer, 32)

				requests += 3
				failed += fault.failed
				assert.Equal(t, []string{home[0], home[0], home[0]}, f.faults.tried(), "%s: the session stays, and no attempt is made twice", fault.name)
				counted := f.pool().Requests
				assert.Equal(t, requests, counted.Placed+counted.Sticky, "%s: each attempt is counted once", fault.name)
				assert.Equal(t, failed, counted.Failed, fault.name)
				assert.Zero(t, counted.Refused)
			}
		}
		assert.Equal(t, 1+4*2, f.counts().Requests, "the engines ran each turn once")
		assert.Zero(t, f.pool().Turns.Lost, "by the engines' own counts")
	})
}

// TestNobodyToReach has every engine gone.
func TestNobodyToReach(t *testing.T) {
	each(t, quick, func(t *testing.T, _ sdk, f *fleet) {
		for _, replica := range f.router.Replicas() {
			if replica.Rank() == 0 {
				require.NoError(t, f.router.Remove(replica.URL().String()))
			}
		}
		_, err := f.sdk.ask(t.Context(), "s", []string{"hello"}, 8)
		require.Error(t, err)
		assert.Empty(t, f.faults.tried())
		assert.NotZero(t, f.pool().Requests.Refused)
	})
}
