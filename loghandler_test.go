package warmroute_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// inquisitive is a log handler that wants to know more.
type inquisitive struct {
	slog.Handler
	router *atomic.Pointer[warmroute.Router]
	said   *atomic.Int64
}

func (h inquisitive) Enabled(context.Context, slog.Level) bool { return true }

func (h inquisitive) Handle(_ context.Context, r slog.Record) error {
	if router := h.router.Load(); router != nil {
		router.Stats()
		if r.Message == "sessions restored" || strings.Contains(r.Message, "billing line") {
			h.said.Add(1)
		}
	}
	return nil
}

// Nothing is logged with a lock held that the statistics need.
func TestALogHandlerMayAskForTheStats(t *testing.T) {
	var router atomic.Pointer[warmroute.Router]
	var said atomic.Int64
	pages := newPages(map[string]string{})
	logger := slog.New(inquisitive{slog.DiscardHandler, &router, &said})
	scraped(t, pages, at("http://a"), []warmroute.Option{warmroute.WithLogger(logger)}, func(t *testing.T, r *warmroute.Router) {
		router.Store(r)
		before := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b"}})
		for i := range 6 {
			turn(t, before, fmt.Sprint(i))
		}
		var file strings.Builder
		require.NoError(t, before.Save(&file))
		_, err := r.Restore(strings.NewReader(file.String()))
		require.NoError(t, err)
		require.NoError(t, r.Add(warmroute.Endpoint{URL: "http://b"}))
		assert.Equal(t, int64(1), said.Load())
		pages.set("a", idle(0, 1))
		time.Sleep(10 * time.Second)
		assert.Equal(t, int64(3), said.Load(), "of both ranks, found by a page")
	})
}

func TestALogHandlerMayAskForTheStatsOfRewrittenTurns(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		var router atomic.Pointer[warmroute.Router]
		var said atomic.Int64
		logger := slog.New(inquisitive{slog.DiscardHandler, &router, &said})
		simulate(t, ranks, []warmroute.Option{warmroute.WithLogger(logger)}, func(t *testing.T, s *simulated) {
			router.Store(s.router)
			for n := range 30 {
				s.turn("s", -1, 1000+10*n, 0)
				time.Sleep(20 * time.Second)
			}
			require.Len(t, s.router.Stats().Pools[0].Problems, 1)
			assert.Equal(t, int64(1), said.Load())
		})
	}
}
