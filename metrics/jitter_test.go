package metrics_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }

func TestJitterVariesThePauseByATenth(t *testing.T) {
	for jitter, want := range map[float64]time.Duration{0: 900 * time.Millisecond, 0.5: time.Second, 1: 1100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s, err := metrics.NewScraper(metrics.Config{
				Client: &http.Client{Transport: refusing{}}, Jitter: func() float64 { return jitter },
			})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var at []time.Duration
			begun := time.Now()
			s.Watch(ctx, &url.URL{Scheme: "http", Host: "engine"}, func(metrics.Page, error) {
				if at = append(at, time.Since(begun)); len(at) == 2 {
					cancel()
				}
			})
			assert.InDelta(t, float64(want), float64(at[1]-at[0]), float64(time.Microsecond))
		})
	}
}
