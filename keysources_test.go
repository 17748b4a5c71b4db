package warmroute_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// history is a request's body of some 2,500 tokens.
var history = `{"messages":["` + strings.Repeat("x", 10_000) + `"]}`

func TestKeysThatNeverReturnAreAProblem(t *testing.T) {
	for name, tc := range map[string]struct {
		key     func(i int) string
		body    string
		pause   time.Duration
		err     error
		status  int // 200 if 0
		problem string
	}{
		"one for each request": {key: func(i int) string { return fmt.Sprint(i) }, body: history, pause: time.Second,
			problem: "session keys from header X-Session-Id were never used twice in 500 requests (8m19s, prompts of 2504 tokens on average)"},
		"a few return": {key: func(i int) string { return fmt.Sprint(max(i, 400) + i/499) }, body: history, pause: time.Second, problem: ""},
		"one in two hundred returns": {key: func(i int) string { return fmt.Sprint(i - i%200/199) }, body: history, pause: time.Second,
			problem: "were used before in 2 of 500 requests only"},
		"conversations":               {key: func(i int) string { return fmt.Sprint(i % 100) }, body: history, pause: time.Second},
		"many that begin together":    {key: func(i int) string { return fmt.Sprint(i) }, body: history, pause: time.Millisecond},
		"questions of a few words":    {key: func(i int) string { return fmt.Sprint(i) }, body: `{}`, pause: time.Second},
		"requests that are no prompt": {key: func(i int) string { return fmt.Sprint(i) }, body: history, pause: time.Second, err: errors.New("no answer")},
		"requests that are refused":   {key: func(i int) string { return fmt.Sprint(i % 100) }, body: history, pause: time.Second, status: 401},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				router := newRouter(t, four(), warmroute.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
				transport := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
					return answer(cmp.Or(tc.status, 200), http.NoBody), errors.Join(r.Body.Close(), tc.err)
				}))
				for i := range 500 {
					req := post(t, strings.NewReader(tc.body))
					req.Header.Set("X-Session-Id", tc.key(i))
					_, err := transport.RoundTrip(req)
					require.ErrorIs(t, err, tc.err)
					time.Sleep(tc.pause)
				}
				problems := router.Stats().Pools[0].Problems
				if tc.problem == "" {
					assert.Empty(t, problems)
					assert.NotContains(t, log.String(), "session keys from")
					return
				}
				require.Len(t, problems, 1)
				assert.Contains(t, problems[0], tc.problem)
				assert.Equal(t, 1, strings.Count(log.String(), "session keys from"), "said once")
			})
		})
	}
}

func TestAProblemWithKeysEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, four())
		send := func(n int, key func(i int) string) {
			for i := range n {
				lease := route(t, router, warmroute.Request{Session: key(i), KeySource: "header X-Turn", PromptTokens: 5000})
				lease.Answered()
				lease.Done(warmroute.Result{})
				time.Sleep(time.Second)
			}
		}
		send(1000, func(i int) string { return fmt.Sprint(i) })
		require.Len(t, router.Stats().Pools[0].Problems, 1)
		assert.Contains(t, router.Stats().Pools[0].Problems[0], "header X-Turn")
		send(500, func(int) string { return "the same" })
		assert.Empty(t, router.Stats().Pools[0].Problems)
	})
}

// Sources are told apart, and their number is bounded.
func TestSourcesOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, four())
		for i := range 40 * 500 {
			source := fmt.Sprintf("header X-%d", i%40)
			session := fmt.Sprint(i)
			if i%40 == 3 {
				session = "good"
			}
			lease := route(t, router, warmroute.Request{Session: session, KeySource: source, PromptTokens: 5000})
			lease.Answered()
			lease.Done(warmroute.Result{})
			time.Sleep(100 * time.Millisecond)
		}
		problems := router.Stats().Pools[0].Problems
		assert.Len(t, problems, 31, "of 32 that are counted one is good")
		for _, p := range problems {
			assert.NotContains(t, p, "header X-3 ")
		}
	})
}
