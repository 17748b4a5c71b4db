package feed_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/feed"
)

// viewer is a response's writer that keeps what it was sent. One that stalls
// accepts nothing more, until its deadline.
type viewer struct {
	mu       sync.Mutex
	header   http.Header
	status   int
	text     strings.Builder
	deadline time.Time
	stalls   atomic.Bool
}

func newViewer() *viewer { return &viewer{header: http.Header{}} }

func (v *viewer) Header() http.Header    { return v.header }
func (v *viewer) WriteHeader(status int) { v.status = status }
func (v *viewer) FlushError() error      { return nil }

func (v *viewer) SetWriteDeadline(t time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.deadline = t
	return nil
}

func (v *viewer) Write(p []byte) (int, error) {
	if v.stalls.Load() {
		v.mu.Lock()
		wait := time.Until(v.deadline)
		v.mu.Unlock()
		time.Sleep(wait)
		return 0, os.ErrDeadlineExceeded
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.text.Write(p)
}

// events are the data of those it was sent.
func (v *viewer) events() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var data []string
	for line := range strings.Lines(v.text.String()) {
		if rest, ok := strings.CutPrefix(line, "data: "); ok {
			data = append(data, strings.TrimSpace(rest))
		}
	}
	return data
}

// watch lets a viewer watch until the returned function is called, or the feed
// ends it; done is closed then.
func watch(f *feed.Feed, v http.ResponseWriter) (leave func(), done <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.ServeHTTP(v, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	}()
	return cancel, ended
}

// counting counts the snapshots that are made.
func counting(t *testing.T, viewers int) (*feed.Feed, *atomic.Int64) {
	t.Helper()
	made := new(atomic.Int64)
	f, err := feed.New(feed.Config{
		Snapshot: func(number uint64) ([]byte, error) {
			made.Add(1)
			return fmt.Appendf(nil, "%d", number), nil
		},
		Interval: time.Second, MaxViewers: viewers, WriteTimeout: 10 * time.Second,
	})
	require.NoError(t, err)
	return f, made
}

func TestViewersShareSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, made := counting(t, 100)
		defer f.Close()
		var viewers []*viewer
		for range 100 {
			v := newViewer()
			viewers = append(viewers, v)
			leave, _ := watch(f, v)
			defer leave()
		}
		time.Sleep(3500 * time.Millisecond)
		assert.Equal(t, int64(4), made.Load(), "one at once and one a second, for all")
		for _, v := range viewers {
			assert.Equal(t, []string{"1", "2", "3", "4"}, v.events())
			assert.Equal(t, "text/event-stream", v.header.Get("Content-Type"))
			assert.Equal(t, "no-store", v.header.Get("Cache-Control"))
			assert.Equal(t, "no", v.header.Get("X-Accel-Buffering"))
			assert.True(t, strings.HasPrefix(v.text.String(), "retry: 2000\n\n"))
		}
		late := newViewer()
		leave, _ := watch(f, late)
		defer leave()
		synctest.Wait()
		assert.Equal(t, http.StatusServiceUnavailable, late.status, "the hundred and first")
		assert.Equal(t, "10", late.header.Get("Retry-After"))
	})
}

func TestLateViewerGetsTheLatestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := counting(t, 2)
		defer f.Close()
		leave, _ := watch(f, newViewer())
		defer leave()
		time.Sleep(1500 * time.Millisecond)
		late := newViewer()
		leaveLate, _ := watch(f, late)
		defer leaveLate()
		synctest.Wait()
		assert.Equal(t, []string{"2"}, late.events())
	})
}

func TestNothingIsMadeForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, made := counting(t, 2)
		time.Sleep(time.Minute)
		assert.Zero(t, made.Load())
		first, firstDone := watch(f, newViewer())
		second, secondDone := watch(f, newViewer())
		time.Sleep(2500 * time.Millisecond)
		first()
		<-firstDone
		time.Sleep(2 * time.Second)
		assert.Equal(t, int64(5), made.Load(), "the other one goes on")
		second()
		<-secondDone
		time.Sleep(time.Minute)
		assert.Equal(t, int64(5), made.Load())
		again := newViewer()
		leave, done := watch(f, again)
		time.Sleep(1500 * time.Millisecond)
		assert.Equal(t, []string{"6", "7"}, again.events(), "numbers go on")
		leave()
		<-done
		// The bubble ends, so no goroutine is left, though the feed is not closed.
	})
}

func TestStalledViewerIsDroppedAndDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := counting(t, 2)
		defer f.Close()
		stalled, quick := newViewer(), newViewer()
		_, done := watch(f, stalled)
		leave, _ := watch(f, quick)
		defer leave()
		synctest.Wait()
		stalled.stalls.Store(true)
		start := time.Now()
		<-done
		assert.Equal(t, 11*time.Second, time.Since(start), "the next event and its deadline")
		synctest.Wait()
		assert.Len(t, quick.events(), 12)
		third := newViewer()
		leaveThird, _ := watch(f, third)
		defer leaveThird()
		synctest.Wait()
		assert.Len(t, third.events(), 1, "the stalled one's place is free")
	})
}

func TestInterruptEndsRoundsOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, made := counting(t, 3)
		_, firstDone := watch(f, newViewer())
		stalled := newViewer()
		_, stalledDone := watch(f, stalled)
		synctest.Wait()
		stalled.stalls.Store(true)
		time.Sleep(time.Second) // it is stuck in its second event
		f.Interrupt()
		<-firstDone
		next := newViewer()
		leave, nextDone := watch(f, next)
		time.Sleep(1500 * time.Millisecond)
		assert.Len(t, next.events(), 2, "viewers may come again")
		leave()
		<-nextDone
		so := made.Load()
		<-stalledDone // later than the round that came after its own
		time.Sleep(time.Minute)
		assert.Equal(t, so, made.Load())
		f.Interrupt()
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, made := counting(t, 2)
		_, done := watch(f, newViewer())
		time.Sleep(1500 * time.Millisecond)
		f.Close()
		<-done
		refused := newViewer()
		_, done = watch(f, refused)
		<-done
		assert.Equal(t, http.StatusServiceUnavailable, refused.status)
		time.Sleep(time.Minute)
		assert.Equal(t, int64(2), made.Load())
		f.Close()
	})
}

func TestFailureIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		err  error
		want string
	}{
		"error":         {"", errors.New("no \"value\"\nhere"), `event: failure` + "\n" + `data: "no \"value\"\nhere"` + "\n\n"},
		"several lines": {"{\n}", nil, "event: failure\ndata: \"the snapshot has several lines\"\n\n"},
		"none":          {"{}", nil, "data: {}\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, err := feed.New(feed.Config{
					Snapshot: func(uint64) ([]byte, error) { return []byte(tc.text), tc.err },
					Interval: time.Second, MaxViewers: 1, WriteTimeout: time.Second,
				})
				require.NoError(t, err)
				defer f.Close()
				v := newViewer()
				leave, _ := watch(f, v)
				defer leave()
				synctest.Wait()
				assert.Equal(t, "retry: 2000\n\n"+tc.want, v.text.String())
			})
		})
	}
}

func TestMethods(t *testing.T) {
	f, made := counting(t, 1)
	defer f.Close()
	w := httptest.NewRecorder()
	f.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/", nil))
	assert.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	assert.Empty(t, w.Body.String())
	w = httptest.NewRecorder()
	f.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
	assert.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
	assert.Zero(t, made.Load())
}

// plain can neither flush nor keep a deadline.
type plain struct{ http.ResponseWriter }

func TestWriterThatCannotStream(t *testing.T) {
	f, _ := counting(t, 1)
	defer f.Close()
	w := httptest.NewRecorder()
	_, done := watch(f, plain{w})
	<-done // rather than hold events back for ever
	assert.Equal(t, http.StatusInternalServerError, w.Code)
	assert.NotEqual(t, "text/event-stream", w.Header().Get("Content-Type"))
}

func TestRealServer(t *testing.T) {
	f, _ := counting(t, 1)
	server := httptest.NewUnstartedServer(f)
	server.Config.WriteTimeout = 50 * time.Millisecond // of whole responses
	server.Start()
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	defer resp.Body.Close()
	b := make([]byte, len("retry: 2000\n\ndata: 1\n\ndata: 2\n\n"))
	_, err = io.ReadFull(resp.Body, b)
	require.NoError(t, err, "the server's own limit does not end it")
	assert.Equal(t, "retry: 2000\n\ndata: 1\n\ndata: 2\n\n", string(b))
	f.Close()
	rest, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Empty(t, rest)
}

func TestConfig(t *testing.T) {
	whole := feed.Config{
		Snapshot: func(uint64) ([]byte, error) { return nil, nil },
		Interval: time.Second, MaxViewers: 1, WriteTimeout: time.Second,
	}
	for field, change := range map[string]func(*feed.Config){
		"Snapshot":     func(c *feed.Config) { c.Snapshot = nil },
		"Interval":     func(c *feed.Config) { c.Interval = 0 },
		"MaxViewers":   func(c *feed.Config) { c.MaxViewers = 0 },
		"WriteTimeout": func(c *feed.Config) { c.WriteTimeout = -1 },
	} {
		cfg := whole
		change(&cfg)
		_, err := feed.New(cfg)
		assert.ErrorContains(t, err, field)
	}
}
