package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/discovery"
)

func target(url string) warmroute.Target {
	return warmroute.Target{Endpoint: warmroute.Endpoint{URL: url}}
}

// finder is a Discoverer made of a function that ends with its context.
type finder func(ctx context.Context, report discovery.Report) error

func (f finder) Watch(ctx context.Context, report discovery.Report) error { return f(ctx, report) }

// heard is the first URLs of what was reported.
type heard struct {
	mu   sync.Mutex
	urls []string
}

func (h *heard) report(targets []warmroute.Target, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.urls = append(h.urls, targets[0].URL)
}

func (h *heard) all() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.urls)
}

func last(s []string) string { return s[len(s)-1] }

func accept() error { return nil }

func TestSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got heard
		firstEnded := false
		s := newSource(finder(func(ctx context.Context, report discovery.Report) error {
			defer func() { firstEnded = true }()
			for i := 0; ; i++ {
				report([]warmroute.Target{target("http://first")}, nil)
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(time.Minute):
				}
			}
		}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- s.Watch(ctx, got.report)
		}()
		assert.Equal(t, []string{"http://first"}, got.all())

		for want, next := range map[string]discovery.Discoverer{
			"no such host": finder(func(ctx context.Context, report discovery.Report) error {
				report(nil, errors.New("no such host"))
				<-ctx.Done()
				return nil
			}),
			"found nothing in 10s": finder(func(ctx context.Context, _ discovery.Report) error {
				<-ctx.Done()
				return nil
			}),
			"gone":            finder(func(context.Context, discovery.Report) error { return errors.New("gone") }),
			"nonsense":        discovery.Static(target("nonsense")),
			"already":         discovery.Static(target("http://a"), target("http://a")),
			`"steam" refused`: discovery.Static(warmroute.Target{Endpoint: warmroute.Endpoint{URL: "http://a", Engine: "steam"}}),
		} {
			err := s.use(ctx, next, func() error { t.Error("accepted: ", want); return nil })
			require.ErrorContains(t, err, want)
		}
		refused := errors.New("refused")
		require.ErrorIs(t, s.use(ctx, discovery.Static(target("http://second")), func() error { return refused }), refused)
		assert.NotContains(t, got.all(), "http://second")
		assert.False(t, firstEnded)
		before := len(got.all())
		time.Sleep(time.Minute)
		assert.Len(t, got.all(), before+1, "the first goes on")

		require.NoError(t, s.use(ctx, discovery.Static(target("http://second")), accept))
		assert.True(t, firstEnded)
		assert.Equal(t, "http://second", last(got.all()), "in force when use returns")
		before = len(got.all())
		time.Sleep(time.Hour)
		assert.Len(t, got.all(), before)
		require.NoError(t, s.use(ctx, discovery.Static(target("http://third")), accept))
		assert.Equal(t, "http://third", last(got.all()))
		cancel()
		require.NoError(t, <-ended)
		require.ErrorIs(t, s.use(ctx, discovery.Static(target("http://late")), accept), context.Canceled)
	})
}

func TestSourceEndsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(discovery.Static(target("http://first")))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Watch(ctx, func([]warmroute.Target, error) {}) }()
		time.AfterFunc(time.Second, cancel)
		err := s.use(ctx, finder(func(ctx context.Context, _ discovery.Report) error {
			<-ctx.Done()
			return nil
		}), accept)
		require.ErrorContains(t, err, "shutting down")
		require.NoError(t, <-ended)
	})
}

func TestSourceTellsOfItsEnd(t *testing.T) {
	gone := errors.New("gone")
	s := newSource(finder(func(context.Context, discovery.Report) error { return gone }))
	require.ErrorIs(t, s.Watch(t.Context(), func([]warmroute.Target, error) {}), gone)
}
