package warmroute_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

func replicaNamed(r *warmroute.Router, name string) *warmroute.Replica {
	for _, m := range r.Replicas() {
		if m.Name() == name {
			return m
		}
	}
	return nil
}

// A turn that no replica takes any more waits no longer, whoever is before it in
// the queue.
func TestATurnThatNoReplicaTakesIsReleasedAtOnce(t *testing.T) {
	refused := errors.New("refused")
	for name, tc := range map[string]struct {
		away func(*testing.T, *warmroute.Router, warmroute.Lease)
		want error
	}{
		"removed": {func(t *testing.T, r *warmroute.Router, _ warmroute.Lease) {
			require.NoError(t, r.Remove("http://b"))
		}, warmroute.ErrNoReplica},
		"drained": {func(t *testing.T, r *warmroute.Router, _ warmroute.Lease) {
			require.NoError(t, r.Drain("b:80"))
		}, warmroute.ErrNoReplica},
		"unreachable": {func(_ *testing.T, _ *warmroute.Router, onB warmroute.Lease) {
			onB.Done(warmroute.Result{Err: refused, Unreachable: true})
		}, nil}, // trying is better than refusing
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := tight(t, at("http://a", "http://b"))
				onA, onB := route(t, r, large("1")), route(t, r, large("2"))
				if onA.Replica().Name() != "a:80" {
					onA, onB = onB, onA
				}
				first := begin(t.Context(), t, r, large("first"))
				req := large("second")
				req.Tried = []*warmroute.Replica{replicaNamed(r, "a:80")}
				second, third := begin(t.Context(), t, r, req), begin(t.Context(), t, r, large("third"))
				require.True(t, second.waits())
				start := time.Now()
				tc.away(t, r, onB)
				if tc.want != nil {
					require.ErrorIs(t, second.failed(), tc.want)
				} else {
					lease := second.went()
					assert.Equal(t, "b:80", lease.Replica().Name())
					lease.Done(warmroute.Result{Err: refused, Unreachable: true})
				}
				assert.Zero(t, time.Since(start))
				require.True(t, first.waits())
				require.True(t, third.waits())
				serve(onA, 0)
				for _, w := range []*routing{first, third} {
					time.Sleep(300 * time.Millisecond)
					serve(w.went(), 0)
				}
				serve(onB, 0)
				idleAgain(t, r)
			})
		})
	}
}

// One that comes when it is so does not begin to wait.
func TestATurnThatNoReplicaTakesDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a", "http://b"))
		require.NoError(t, r.Drain("a:80"))
		parent := route(t, r, large("parent"))
		require.Equal(t, "b:80", parent.Replica().Name())
		first := begin(t.Context(), t, r, large("first"))
		require.True(t, first.waits())
		req := large("child")
		req.Parent, req.Tried = "parent", []*warmroute.Replica{parent.Replica()}
		require.ErrorIs(t, begin(t.Context(), t, r, req).failed(), warmroute.ErrNoReplica)
		serve(parent, 0)
		time.Sleep(time.Second)
		serve(first.went(), 0)
		idleAgain(t, r)
	})
}

// An engine that asks to be left alone is not sent the whole queue for want of
// others.
func TestTheOnlyReplicaThatAsksToBeLeftAloneKeepsItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a"))
		first := route(t, r, large("first"))
		var all []*routing
		for i := range 5 {
			all = append(all, begin(t.Context(), t, r, large(fmt.Sprint(i))))
		}
		first.Done(warmroute.Result{StatusCode: 429, RetryAfter: 20 * time.Second})
		late := begin(t.Context(), t, r, large("late"))
		for _, w := range append(all, late) {
			time.Sleep(300 * time.Millisecond)
			lease := w.went()
			assert.Equal(t, 1, inFlight(t, r), "one at a time")
			serve(lease, 0)
		}
		idleAgain(t, r)
	})
}

// A replica that comes while turns wait is sent no more of them than the others
// take, though its page has not told yet how many there is room for.
func TestANewReplicaIsNotSentTheWholeQueue(t *testing.T) {
	pages := newPages(map[string]string{"a": capacity("1000")})
	scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
		learn(t, r)
		first := route(t, r, large("first"))
		var all []*routing
		for i := range 6 {
			all = append(all, begin(t.Context(), t, r, large(fmt.Sprint(i))))
		}
		require.Equal(t, 6, queue(r).Waiting)
		require.NoError(t, r.Add(warmroute.Endpoint{URL: "http://b"}))
		synctest.Wait()
		assert.Equal(t, 5, queue(r).Waiting, "one goes there at once")
		time.Sleep(5 * time.Second)
		assert.Equal(t, 5, queue(r).Waiting)
		pages.set("b", capacity("3000"))
		time.Sleep(5 * time.Second)
		assert.Equal(t, 3, queue(r).Waiting, "it has told")
		serve(first, 0)
		for _, w := range all {
			time.Sleep(time.Second)
			serve(w.went(), 0)
		}
		idleAgain(t, r)
	})
}

// Adapters are loaded and unloaded while turns for them wait: they go to replicas
// that have them now.
func TestTurnsThatWaitFollowTheirAdapter(t *testing.T) {
	page := capacity("1000")
	list := func(adapters ...string) string { return models("base", adapters...) }
	pages := newPages(map[string]string{"a": page, "a/v1/models": list(), "b": page, "b/v1/models": list("sql")})
	endpoints := []warmroute.Endpoint{{URL: "http://a", Model: "base"}, {URL: "http://b", Model: "base"}}
	scraped(t, pages, endpoints, nil, func(t *testing.T, r *warmroute.Router) {
		time.Sleep(2 * time.Second)
		of := func(model, session string) warmroute.Request {
			req := large(session)
			req.Model = model
			return req
		}
		for range learned {
			serve(route(t, r, of("base", "")), 0)
		}
		onA, onB := route(t, r, of("base", "1")), route(t, r, of("base", "2"))
		if onA.Replica().Name() != "a:80" {
			onA, onB = onB, onA
		}
		loaded := begin(t.Context(), t, r, of("sql", "loaded"))
		serve(onA, 0)
		time.Sleep(5 * time.Second)
		require.True(t, loaded.waits(), "there is room on a alone")
		pages.set("a/v1/models", list("sql"))
		time.Sleep(70 * time.Second) // the lists are read every minute
		lease := loaded.went()
		assert.Equal(t, "a:80", lease.Replica().Name())
		unloaded := begin(t.Context(), t, r, of("sql", "unloaded"))
		require.True(t, unloaded.waits())
		pages.set("b/v1/models", list())
		time.Sleep(70 * time.Second)
		serve(onB, 0)
		time.Sleep(5 * time.Second)
		require.True(t, unloaded.waits(), "there is room on b alone")
		pages.set("a/v1/models", list())
		time.Sleep(70 * time.Second)
		require.Error(t, unloaded.failed(), "nobody has it any more")
		serve(lease, 0)
		idleAgain(t, r)
	})
}
