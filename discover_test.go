package warmroute_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/discovery"
)

// told is a Discoverer that says what a test has it say.
type told chan func(discovery.Report)

func (d told) Watch(ctx context.Context, report discovery.Report) error {
	for {
		select {
		case <-ctx.Done():
			report(wanted("http://late"), nil) // as one that does not look would
			return nil
		case say, ok := <-d:
			if !ok {
				return errors.New("gone for good")
			}
			say(report)
		}
	}
}

func (d told) says(err error, urls ...string) {
	d <- func(report discovery.Report) {
		targets := wanted(urls...)
		if targets == nil && err == nil {
			targets = []warmroute.Target{}
		}
		report(targets, err)
	}
	synctest.Wait()
}

// nobody answers scrapes.
var nobody = &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("nobody") })}

func TestDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		d := make(told)
		router, err := warmroute.New(nil, warmroute.WithDiscovery(d), warmroute.WithScrapeClient(nobody),
			warmroute.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
		require.NoError(t, err)
		assert.Nil(t, router.Stats().Discovery, "nobody looks yet")
		_, err = router.Route(t.Context(), warmroute.Request{Model: "m"})
		require.ErrorIs(t, err, warmroute.ErrNoReplica)
		assert.Zero(t, router.Stats().UnknownModel)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- router.Run(ctx) }()
		synctest.Wait()
		require.ErrorIs(t, router.Discover(t.Context(), d), warmroute.ErrDiscovering)

		began := time.Now()
		d.says(errors.New("no such host"))
		time.Sleep(time.Minute)
		d.says(errors.New("no such host"))
		s := router.Stats().Discovery
		assert.Equal(t, "no such host", s.Problem)
		assert.Equal(t, began, *s.Failing)
		assert.Equal(t, 1, bytes.Count(logged.Bytes(), []byte("endpoints not updated")), "once, though it fails twice")

		d.says(nil, "http://a", "http://b")
		assert.Equal(t, []string{"a:80", "b:80"}, replicaNames(router))
		assert.Equal(t, &warmroute.DiscoveryStats{Found: 2, Updated: time.Now()}, router.Stats().Discovery)
		assert.Contains(t, logged.String(), "discovery works again")
		lease, err := router.Route(t.Context(), warmroute.Request{Model: "m"})
		require.NoError(t, err)
		lease.Done(warmroute.Result{})

		d.says(nil, "http://c", "nonsense")
		assert.Equal(t, []string{"a:80", "b:80"}, replicaNames(router), "a list that is refused changes nothing")
		assert.Contains(t, router.Stats().Discovery.Problem, "nonsense")
		assert.Equal(t, 2, router.Stats().Discovery.Found)
		d.says(errors.New("half of it is away"), "http://c")
		assert.Equal(t, []string{"c:80"}, replicaNames(router), "a list beside a problem is taken")
		assert.Equal(t, "half of it is away", router.Stats().Discovery.Problem)
		text, err := json.Marshal(router.Stats())
		require.NoError(t, err)
		assert.Contains(t, string(text), `"problem":"half of it is away"`)
		d.says(nil)
		assert.Empty(t, replicaNames(router), "an empty list is a list")
		d.says(nil, "http://c")

		cancel()
		require.NoError(t, <-ended)
		assert.Equal(t, []string{"c:80"}, replicaNames(router), "they stay, and what comes late is not heard")

		ended = make(chan error)
		go func() { ended <- router.Discover(t.Context(), d) }()
		d.says(nil, "http://d")
		assert.Equal(t, []string{"d:80"}, replicaNames(router), "another may follow")
		require.NoError(t, router.Close())
		require.NoError(t, <-ended)
		require.ErrorIs(t, router.Discover(t.Context(), d), warmroute.ErrClosed)
	})
}

func TestDiscoveryThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		d := make(told)
		router, err := warmroute.New(at("http://first"), warmroute.WithDiscovery(d), warmroute.WithScrapeClient(nobody),
			warmroute.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
		require.NoError(t, err)
		ended := make(chan error)
		go func() { ended <- router.Run(t.Context()) }()
		close(d)
		synctest.Wait()
		assert.Contains(t, logged.String(), "gone for good")
		assert.Equal(t, "gone for good", router.Stats().Discovery.Problem)
		assert.Equal(t, []string{"first:80"}, replicaNames(router))
		lease, err := router.Route(t.Context(), warmroute.Request{})
		require.NoError(t, err, "routing goes on")
		lease.Done(warmroute.Result{})
		require.NoError(t, router.Close())
		require.NoError(t, <-ended)
	})
}

func TestNoDiscovererIsRefused(t *testing.T) {
	var refused *warmroute.ConfigError
	_, err := warmroute.New(nil, warmroute.WithDiscovery(nil))
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "discovery", refused.Field)
	router := newRouter(t, at("http://a"))
	require.ErrorAs(t, router.Discover(t.Context(), nil), &refused)
}
