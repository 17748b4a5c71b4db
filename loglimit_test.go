package warmroute_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
)

// journal keeps what is logged.
type journal struct {
	mu      sync.Mutex
	records []slog.Record
}

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler       { return j }
func (j *journal) WithGroup(string) slog.Handler            { return j }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records = append(j.records, r)
	return nil
}

func (j *journal) all() []slog.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.records)
}

// count counts the records of a message, and sums up what they say was skipped.
func (j *journal) count(message string) (records, skipped int) {
	for _, r := range j.all() {
		if r.Message != message {
			continue
		}
		records++
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "skipped" {
				skipped += int(a.Value.Int64())
			}
			return true
		})
	}
	return records, skipped
}

func (j *journal) String() string {
	var b strings.Builder
	h := slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})
	for _, r := range j.all() {
		_ = h.Handle(context.Background(), r) // a strings.Builder takes all
	}
	return b.String()
}

// failing is a picker that always fails.
type failing struct{}

func (failing) Pick(*balance.Request, []balance.Candidate) (int, error) {
	return 0, errors.New("no idea")
}

// A fault that every request meets does not flood the log.
func TestLogIsNotFlooded(t *testing.T) {
	const seconds, perSecond = 60, 200
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		down := true
		r := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 8}, {URL: "http://b"}},
			warmroute.WithLogger(slog.New(j)), warmroute.WithPicker(func() balance.Picker { return failing{} }))
		transport := r.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
			if down {
				return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
			}
			return answer(200, tracked("{}")), nil
		}))
		for i := range seconds * perSecond {
			req := post(t, strings.NewReader("{}"))
			req.Header.Set("X-Session-Id", fmt.Sprint("secret-conversation-", i%1000))
			_, err := transport.RoundTrip(req)
			require.ErrorIs(t, err, warmroute.ErrNoReplica)
			time.Sleep(time.Second / perSecond)
		}
		unreachable, _ := j.count("replica unreachable")
		assert.GreaterOrEqual(t, unreachable, 2, "of either endpoint")
		assert.LessOrEqual(t, unreachable, 2*7, "after pauses of 1, 2, 4, 8, 16 and 30 seconds")
		failed, skipped := j.count("picker failed; the least loaded replica was taken")
		assert.Equal(t, seconds/10, failed)
		assert.Greater(t, skipped, seconds*perSecond/2)

		down = false
		for range 100 {
			resp, err := transport.RoundTrip(post(t, strings.NewReader("{}")))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			time.Sleep(time.Second)
		}
		again, _ := j.count("replica reached again")
		assert.Contains(t, []int{1, 2}, again, "once an endpoint")
		assert.NotContains(t, j.String(), "secret-conversation")
	})
}

// A picker that fails for turns that wait is logged too, and not with the lock
// held.
func TestAPickerThatFailsForResidentsIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		r := newRouter(t, at("http://a", "http://b"), warmroute.WithResidency(1000),
			warmroute.WithLogger(slog.New(j)), warmroute.WithPicker(func() balance.Picker { return failing{} }))
		learn(t, r)
		synctest.Wait()
		failed, _ := j.count("picker failed; the least loaded replica was taken")
		assert.Equal(t, 1, failed)
		assert.Positive(t, r.Stats().Pools[0].Requests.PickerErrors)
	})
}

// One that panics for a turn that is another's ends nobody's request, and what it
// panicked with is logged.
func TestAPickerThatPanicsForResidentsIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		r := newRouter(t, at("http://a", "http://b"), warmroute.WithResidency(1000),
			warmroute.WithLogger(slog.New(j)), warmroute.WithPicker(func() balance.Picker { return &brokenPicker{n: 2} }))
		route(t, r, large("")).Done(warmroute.Result{})
		synctest.Wait()
		assert.Contains(t, j.String(), `err="picker panicked: picker"`)
		assert.Equal(t, uint64(1), r.Stats().Pools[0].Requests.PickerErrors)
	})
}

// Pages that stay as they are say what is wrong with them once.
func TestAPageThatStaysBrokenIsLoggedOnce(t *testing.T) {
	for name, tc := range map[string]struct{ page, message string }{
		"in part":    {idle(0) + "vllm:num_requests_running{", "metrics page read in part"},
		"no engines": {"# TYPE a gauge\na 1\n", "metrics page says nothing of engines; routing by own counts (vLLM's --disable-log-stats?)"},
	} {
		t.Run(name, func(t *testing.T) {
			j := &journal{}
			pages := newPages(map[string]string{"a": tc.page})
			scraped(t, pages, at("http://a"), []warmroute.Option{warmroute.WithLogger(slog.New(j))}, func(t *testing.T, _ *warmroute.Router) {
				time.Sleep(time.Minute)
				n, _ := j.count(tc.message)
				assert.Equal(t, 1, n)
			})
		})
	}
}

// Records have the same names for the same things.
func TestLogKeys(t *testing.T) {
	j := &journal{}
	pages := newPages(map[string]string{})
	scraped(t, pages, at("http://a"), []warmroute.Option{warmroute.WithLogger(slog.New(j))}, func(t *testing.T, _ *warmroute.Router) {
		pages.set("a", idle(0, 1))
		time.Sleep(time.Minute)
		records := j.all()
		for _, r := range records {
			r.Attrs(func(a slog.Attr) bool {
				assert.Contains(t, []string{"url", "replica", "model", "err", "what", "ranks", "engines", "sessions", "problem", "skipped"}, a.Key, r.Message)
				return true
			})
		}
		assert.NotEmpty(t, records)
	})
}
