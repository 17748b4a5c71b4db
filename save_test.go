package warmroute_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
)

func TestSaveAndRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endpoints := []warmroute.Endpoint{{URL: "http://a", Ranks: 3}, {URL: "http://b"}, {URL: "http://c", Model: "other"}}
		ttl := warmroute.WithSessionTTL(time.Hour)
		before := newRouter(t, endpoints, ttl)
		homes := map[string]string{}
		for i := range 40 {
			s := fmt.Sprint("s", i)
			homes[s], _ = turn(t, before, s)
		}
		other := route(t, before, warmroute.Request{Session: "s0", Model: "other"})
		other.Answered()
		cold := route(t, before, warmroute.Request{Session: "not answered"})
		time.Sleep(20 * time.Minute)
		turn(t, before, "s7")
		var file bytes.Buffer
		require.NoError(t, before.Save(&file))
		cold.Done(warmroute.Result{})
		other.Done(warmroute.Result{})

		time.Sleep(10 * time.Minute)
		after := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b"}, {URL: "http://c", Model: "other"}}, ttl)
		there, _ := turn(t, after, "s9")
		n, err := after.Restore(bytes.NewReader(file.Bytes()))
		require.NoError(t, err)
		kept := 0
		for s, home := range homes {
			if home == "a:80@2" || s == "s9" {
				continue // is not there any more; has come back on its own
			}
			kept++
			lease := route(t, after, warmroute.Request{Session: s})
			assert.Equal(t, warmroute.Sticky, lease.Outcome(), s)
			assert.Equal(t, home, lease.Replica().Name())
			lease.Done(warmroute.Result{})
		}
		assert.Equal(t, kept+1, n, "and the one of the other model")
		name, _ := turn(t, after, "s9")
		assert.Equal(t, there, name)
		assert.Equal(t, warmroute.Sticky, route(t, after, warmroute.Request{Session: "s0", Model: "other"}).Outcome())
		_, outcome := turn(t, after, "not answered")
		assert.Equal(t, warmroute.Placed, outcome)

		late := newRouter(t, endpoints, ttl)
		time.Sleep(45 * time.Minute)
		n, err = late.Restore(bytes.NewReader(file.Bytes()))
		require.NoError(t, err)
		assert.Equal(t, 2, n, "the time in between counts as idle: s7, and what was in flight")
	})
}

// The engines may come up after the gateway: their ranks are discovered then,
// and with them the homes of what was saved.
func TestRestoreBeforeTheReplicasAreThere(t *testing.T) {
	pages := newPages(map[string]string{})
	scraped(t, pages, at("http://a"), []warmroute.Option{warmroute.WithSessionTTL(time.Hour)}, func(t *testing.T, r *warmroute.Router) {
		before := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b"}}, warmroute.WithSessionTTL(time.Hour))
		homes := map[string]string{}
		for i := range 12 {
			s := fmt.Sprint("s", i)
			homes[s], _ = turn(t, before, s)
		}
		var file bytes.Buffer
		require.NoError(t, before.Save(&file))
		n, err := r.Restore(bytes.NewReader(file.Bytes()))
		require.NoError(t, err)
		assert.Zero(t, n, "nobody is there yet")
		time.Sleep(20 * time.Minute)

		file.Reset()
		require.NoError(t, r.Save(&file), "a second restart meanwhile loses nothing")
		again := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2}, {URL: "http://b"}}, warmroute.WithSessionTTL(time.Hour))
		n, err = again.Restore(bytes.NewReader(file.Bytes()))
		require.NoError(t, err)
		assert.Equal(t, 12, n)

		pages.set("a", idle(0, 1))
		time.Sleep(10 * time.Second)
		require.NoError(t, r.Add(warmroute.Endpoint{URL: "http://b"}))
		for s, home := range homes {
			name, outcome := turn(t, r, s)
			assert.Equal(t, warmroute.Sticky, outcome)
			assert.Equal(t, home, name)
		}
	})
}

func TestWhatWasRestoredOfNobodyIsForgottenInTheEnd(t *testing.T) {
	scraped(t, newPages(map[string]string{}), at("http://z"), []warmroute.Option{warmroute.WithSessionTTL(time.Hour)}, func(t *testing.T, r *warmroute.Router) {
		before := newRouter(t, four())
		turn(t, before, "s")
		var file, empty, again bytes.Buffer
		require.NoError(t, before.Save(&file))
		require.NoError(t, r.Save(&empty))
		for range 3 {
			_, err := r.Restore(bytes.NewReader(file.Bytes()))
			require.NoError(t, err)
		}
		require.NoError(t, r.Save(&again))
		assert.Less(t, again.Len(), file.Len()+empty.Len(), "once")
		time.Sleep(time.Hour + 2*time.Second)
		again.Reset()
		require.NoError(t, r.Save(&again))
		assert.Equal(t, empty.Len(), again.Len())
	})
}

func TestADamagedFileChangesNothing(t *testing.T) {
	router := newRouter(t, four())
	for i := range 40 {
		turn(t, router, fmt.Sprint(i))
	}
	var file bytes.Buffer
	require.NoError(t, router.Save(&file))
	fresh := newRouter(t, four())
	for _, damaged := range []string{file.String()[:file.Len()-9], file.String() + "x", strings.Replace(file.String(), "a:80@1", "a:80@2", 1), ""} {
		n, err := fresh.Restore(strings.NewReader(damaged))
		require.ErrorIs(t, err, affinity.ErrSnapshot)
		assert.Zero(t, n)
		assert.Zero(t, fresh.Stats().Pools[0].Sessions)
	}
}

func ExampleRouter_Save() {
	endpoints := []warmroute.Endpoint{{URL: "http://10.0.0.1:8000", Ranks: 4}}
	before, _ := warmroute.New(endpoints)
	lease, _ := before.Route(context.Background(), warmroute.Request{Session: "my-conversation"})
	lease.Answered()
	lease.Done(warmroute.Result{})
	var file bytes.Buffer
	_ = before.Save(&file)
	_ = before.Close()

	after, _ := warmroute.New(endpoints)
	defer after.Close()
	n, err := after.Restore(&file)
	fmt.Println(n, err)
	lease, _ = after.Route(context.Background(), warmroute.Request{Session: "my-conversation"})
	fmt.Println(lease.Outcome())
	// Output:
	// 1 <nil>
	// sticky
}
