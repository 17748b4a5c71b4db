package metrics_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

// assertPause checks a pause against its length in intervals of a second, give
// or take a tenth.
func assertPause(t *testing.T, intervals float64, pause time.Duration, what ...any) {
	t.Helper()
	assert.GreaterOrEqual(t, pause.Seconds(), 0.9*intervals-1e-9, what...)
	assert.LessOrEqual(t, pause.Seconds(), 1.1*intervals+1e-9, what...)
}

func TestWatchInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scrapes, took = 200, 300 * time.Millisecond
		s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
			time.Sleep(took)
			return answer(http.StatusOK, strings.NewReader(runningLine)), nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var ends []time.Time
		s.Watch(ctx, at(t, "http://h"), func(got metrics.Page, err error) {
			assert.NoError(t, err)
			assert.Equal(t, runningThree, got.Engines)
			assert.Equal(t, time.Now(), got.Time)
			if ends = append(ends, time.Now()); len(ends) == scrapes {
				cancel()
			}
		})
		require.Len(t, ends, scrapes)
		assert.Equal(t, took, ends[0].Sub(start), "the first scrape is at once")
		different := make(map[time.Duration]bool)
		for i := 1; i < len(ends); i++ {
			pause := ends[i].Sub(ends[i-1]) - took
			assertPause(t, 1, pause)
			different[pause] = true
		}
		assert.Greater(t, len(different), scrapes/2, "pauses are random")
		assert.Equal(t, ends[scrapes-1], time.Now(), "Watch returns when ctx ends, not after a pause")
	})
}

func TestWatchBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		outcomes := []error{down, down, down, down, down, down, nil, down, down, nil, nil}
		// pauses[i] is the pause after outcomes[i], in intervals.
		pauses := []float64{1, 2, 4, 8, 8, 8, 1, 1, 2, 1}
		requests := 0
		s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
			requests++
			if err := outcomes[requests-1]; err != nil {
				return nil, err
			}
			return answer(http.StatusOK, strings.NewReader(runningLine)), nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		var times []time.Time
		s.Watch(ctx, at(t, "http://h"), func(_ metrics.Page, err error) {
			assert.ErrorIs(t, err, outcomes[len(times)])
			if times = append(times, time.Now()); len(times) == len(outcomes) {
				cancel()
			}
		})
		require.Len(t, times, len(outcomes))
		for i, intervals := range pauses {
			assertPause(t, intervals, times[i+1].Sub(times[i]), "after scrape %d", i)
		}
	})
}

// TestWatchPartialPage has pages of which a part can be read: no reason to
// back off.
func TestWatchPartialPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
			return answer(http.StatusOK, strings.NewReader(runningLine+"vllm:num_requests_waiting x\n")), nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		var times []time.Time
		s.Watch(ctx, at(t, "http://h"), func(got metrics.Page, err error) {
			assert.NoError(t, err)
			assert.Error(t, got.Err)
			if times = append(times, time.Now()); len(times) == 6 {
				cancel()
			}
		})
		for i := 1; i < len(times); i++ {
			assertPause(t, 1, times[i].Sub(times[i-1]))
		}
	})
}

func TestWatchEnds(t *testing.T) {
	tests := []struct {
		name    string
		after   time.Duration // when ctx ends
		reports int
	}{
		{"before the first scrape", 0, 0},
		{"in the first scrape", 100 * time.Millisecond, 0},
		{"in a pause", 800 * time.Millisecond, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// synctest.Test fails if Watch leaves a goroutine behind.
			synctest.Test(t, func(t *testing.T) {
				s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
					select {
					case <-time.After(500 * time.Millisecond):
						return answer(http.StatusOK, strings.NewReader(runningLine)), nil
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), tt.after)
				defer cancel()
				start, reports := time.Now(), 0
				s.Watch(ctx, at(t, "http://h"), func(metrics.Page, error) { reports++ })
				assert.Equal(t, tt.reports, reports)
				assert.Equal(t, tt.after, time.Since(start))
			})
		})
	}
}

// TestWatchOverHTTP runs watchers against a server that hangs and one that
// answers, through net/http's own client and server.
func TestWatchOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, metrics.Config{}, func(w http.ResponseWriter, r *http.Request) {
			if r.Host == "hangs" {
				<-r.Context().Done()
				return
			}
			_, err := w.Write([]byte(runningLine))
			assert.NoError(t, err)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var failed, good int
		hangs := make(chan struct{})
		go func() {
			defer close(hangs)
			s.Watch(ctx, at(t, "http://hangs"), func(_ metrics.Page, err error) {
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				failed++
			})
		}()
		s.Watch(ctx, at(t, "http://answers"), func(_ metrics.Page, err error) {
			assert.NoError(t, err)
			good++
		})
		<-hangs
		assert.GreaterOrEqual(t, good, 54, "one a second, give or take a tenth")
		assert.LessOrEqual(t, good, 68)
		assert.GreaterOrEqual(t, failed, 8, "one every nine seconds in the end")
		assert.LessOrEqual(t, failed, 12)
	})
}

func TestHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count atomic.Int64
		s := scraperOf(t, metrics.Config{}, func(*http.Request) (*http.Response, error) {
			count.Add(1)
			return nil, errors.New("down")
		})
		s.Hurry(at(t, "http://h"))
		s.Hurry(nil)
		ctx, cancel := context.WithCancel(t.Context())
		var watches sync.WaitGroup
		for _, base := range []string{"http://h", "http://h/"} {
			watches.Go(func() { s.Watch(ctx, at(t, base), func(metrics.Page, error) {}) })
		}
		time.Sleep(16 * time.Second) // at the longest pauses
		synctest.Wait()
		before := count.Load()
		s.Hurry(at(t, "http://other"))
		synctest.Wait()
		assert.Equal(t, before, count.Load(), "nobody watches that one")
		s.Hurry(at(t, "http://h"))
		synctest.Wait()
		assert.Equal(t, before+1, count.Load(), "one of the watches is enough")
		start := time.Now()
		for count.Load() == before+1 {
			time.Sleep(100 * time.Millisecond)
		}
		assert.Greater(t, time.Since(start), time.Second, "and pauses again")
		cancel()
		watches.Wait()
		before = count.Load()
		s.Hurry(at(t, "http://h"))
		synctest.Wait()
		assert.Equal(t, before, count.Load())
	})
}
