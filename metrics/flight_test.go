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

func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 50
		var requests atomic.Int32
		s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
			requests.Add(1)
			time.Sleep(100 * time.Millisecond)
			return answer(http.StatusOK, strings.NewReader(runningLine)), nil
		})
		pages := make([]metrics.Page, callers)
		var wait sync.WaitGroup
		for i := range callers {
			wait.Go(func() {
				var err error
				pages[i], err = s.Scrape(t.Context(), at(t, "http://h"))
				assert.NoError(t, err)
			})
		}
		wait.Wait()
		assert.EqualValues(t, 1, requests.Load())
		pages[0].Engines[0].Running = num(99)
		for i := 1; i < callers; i++ {
			assert.Equal(t, runningThree, pages[i].Engines, "no caller shares memory with another")
		}

		_, err := s.Scrape(t.Context(), at(t, "http://h"))
		require.NoError(t, err)
		assert.EqualValues(t, 2, requests.Load(), "a later call asks again")
	})
}

func TestFlightsOfEndpointsAreTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "slow" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return answer(http.StatusOK, strings.NewReader(runningLine)), nil
		})
		var wait sync.WaitGroup
		wait.Go(func() {
			_, err := s.Scrape(t.Context(), at(t, "http://slow"))
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
		synctest.Wait()
		start := time.Now()
		_, err := s.Scrape(t.Context(), at(t, "http://fast"))
		require.NoError(t, err)
		assert.Zero(t, time.Since(start))
		wait.Wait()
	})
}

func TestCallersEndTheirOwnWaitOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(500 * time.Millisecond):
				return answer(http.StatusOK, strings.NewReader(runningLine)), nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
		gone := errors.New("gone")
		first, cancel := context.WithCancelCause(t.Context())
		firstDone := make(chan error, 1)
		go func() {
			_, err := s.Scrape(first, at(t, "http://h"))
			firstDone <- err
		}()
		synctest.Wait()
		secondDone := make(chan error, 1)
		go func() {
			got, err := s.Scrape(t.Context(), at(t, "http://h"))
			assert.Equal(t, runningThree, got.Engines)
			secondDone <- err
		}()
		synctest.Wait()
		start := time.Now()
		cancel(gone)
		require.ErrorIs(t, <-firstDone, gone)
		assert.Zero(t, time.Since(start))
		require.NoError(t, <-secondDone, "the request went on for the other caller")
	})
}

func TestRequestNobodyWaitsForIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests, cancelled atomic.Int32
		s := scraperOf(t, metrics.Config{Timeout: time.Hour}, func(r *http.Request) (*http.Response, error) {
			if requests.Add(1) > 1 {
				return answer(http.StatusOK, strings.NewReader(runningLine)), nil
			}
			<-r.Context().Done()
			cancelled.Add(1)
			time.Sleep(time.Minute) // a transport that is slow to give up
			return nil, r.Context().Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Scrape(ctx, at(t, "http://h"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		assert.EqualValues(t, 1, cancelled.Load())

		got, err := s.Scrape(t.Context(), at(t, "http://h"))
		require.NoError(t, err, "a new caller does not join the cancelled request")
		assert.Equal(t, runningThree, got.Engines)

		_, err = s.Scrape(ctx, at(t, "http://h"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualValues(t, 2, requests.Load(), "a context that has ended sends nothing")
		time.Sleep(2 * time.Minute) // until the slow transport has given up
	})
}

// TestCallersShareNoMemory has adapters changed by one of two callers.
func TestCallersShareNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := runningLine + `vllm:lora_requests_info{max_lora="1",running_lora_adapters="a",waiting_lora_adapters="b"} 1` + "\n"
		s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Millisecond)
			return answer(http.StatusOK, strings.NewReader(text)), nil
		})
		pages := make(chan metrics.Page, 2)
		for range 2 {
			go func() {
				got, err := s.Scrape(t.Context(), at(t, "http://h"))
				assert.NoError(t, err)
				pages <- got
			}()
		}
		one, other := <-pages, <-pages
		one.LoRA.Running[0], one.LoRA.Waiting[0], one.LoRA.Max = "x", "x", num(9)
		assert.Equal(t, &metrics.LoRA{Max: num(1), Running: []string{"a"}, Waiting: []string{"b"}}, other.LoRA)
		assert.Equal(t, runningThree, other.Engines)
	})
}

// TestCancelledRequestEndsLate has a cancelled request end while the next one
// for the same page is under way: that one is still shared.
func TestCancelledRequestEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int32
		s := scraperOf(t, metrics.Config{Timeout: time.Hour}, func(r *http.Request) (*http.Response, error) {
			if requests.Add(1) == 1 {
				time.Sleep(2 * time.Second) // deaf to its context
			} else {
				time.Sleep(10 * time.Second)
			}
			return answer(http.StatusOK, strings.NewReader(runningLine)), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Scrape(ctx, at(t, "http://h"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() {
				_, err := s.Scrape(t.Context(), at(t, "http://h"))
				assert.NoError(t, err)
			})
			time.Sleep(5 * time.Second)
		}
		wait.Wait()
		assert.EqualValues(t, 2, requests.Load())
	})
}

func TestRequestHasTheCallersValues(t *testing.T) {
	type key struct{}
	s := scraperOf(t, metrics.Config{}, func(r *http.Request) (*http.Response, error) {
		assert.Equal(t, "trace", r.Context().Value(key{}))
		return answer(http.StatusOK, strings.NewReader(runningLine)), nil
	})
	_, err := s.Scrape(context.WithValue(t.Context(), key{}, "trace"), at(t, "http://h"))
	require.NoError(t, err)
}
