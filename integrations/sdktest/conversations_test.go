package sdktest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/internal/gatewaytest"
)

// read reads a stream to its end.
func read(s stream) (string, error) {
	var answer string
	for {
		piece, ok := s.next()
		if !ok {
			return answer, s.err()
		}
		answer += piece
	}
}

// TestConversationsStayHome has half the turns streamed.
func TestConversationsStayHome(t *testing.T) {
	const conversations, rounds, limit = 20, 4, 8
	each(t, quick, func(t *testing.T, _ sdk, f *fleet) {
		turn := func(ctx context.Context, session string, users []string) (string, error) {
			if len(users)%2 == 0 {
				return f.sdk.ask(ctx, session, users, limit)
			}
			s, err := f.sdk.stream(ctx, session, users, limit)
			if err != nil {
				return "", err
			}
			answer, err := read(s)
			if closeErr := s.close(); err == nil {
				err = closeErr
			}
			return answer, err
		}
		var wg sync.WaitGroup
		for c := range conversations {
			wg.Go(func() {
				session := fmt.Sprint("conversation ", c)
				var users []string
				for round := range rounds {
					users = append(users, text(session, round))
					answer, err := turn(t.Context(), session, users)
					assert.NoError(t, err)
					assert.Len(t, answer, 4*limit, "a token is four letters")
				}
			})
		}
		wg.Wait()
		gatewaytest.Eventually(t, "nothing is in flight", func() bool { return f.pool().InFlight == 0 })
		pool, counts := f.pool(), f.counts()
		assert.Equal(t, uint64(conversations), pool.Requests.Placed)
		assert.Equal(t, uint64(conversations*(rounds-1)), pool.Requests.Sticky)
		assert.Equal(t, uint64(conversations*(rounds-1)), pool.Turns.Verified, "by the engines' own counts: %+v", pool.Turns)
		assert.Zero(t, pool.Requests.Failed)
		assert.Zero(t, pool.Tokens.UnmeasuredRequests)
		assert.Equal(t, conversations*rounds, counts.Finished)
		assert.Equal(t, uint64(counts.CachedTokens), pool.Tokens.PromptCached)
		assert.Equal(t, uint64(counts.PromptTokens-counts.CachedTokens), pool.Tokens.PromptComputed)
		assert.Equal(t, uint64(conversations*rounds*limit), pool.Tokens.Completion)
	})
}
