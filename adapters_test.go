package warmroute_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
)

func TestAdaptersBelongToTheirModelsPool(t *testing.T) {
	endpoints := []warmroute.Endpoint{{URL: "http://a", Ranks: 4, Model: "base"}, {URL: "http://b", Model: "other"}}
	router := newRouter(t, endpoints, warmroute.WithPool("base", warmroute.WithAdapters("sql", "legal")))
	homes := map[string]string{}
	for n := range 3 {
		for _, model := range []string{"base", "sql", "legal"} {
			lease := route(t, router, warmroute.Request{Model: model, Session: "s"})
			assert.Equal(t, "base", lease.Model())
			lease.Answered()
			lease.Done(warmroute.Result{})
			if n == 0 {
				assert.Equal(t, warmroute.Placed, lease.Outcome(), "a conversation of its own: %s", model)
				homes[model] = lease.Replica().Name()
				continue
			}
			assert.Equal(t, warmroute.Sticky, lease.Outcome())
			assert.Equal(t, homes[model], lease.Replica().Name())
		}
	}
	assert.Equal(t, 3, router.Stats().Pools[0].Sessions)
	_, err := router.Route(t.Context(), warmroute.Request{Model: "unheard of"})
	require.ErrorIs(t, err, warmroute.ErrUnknownModel)

	// In a router of the default pool alone the body is read for them.
	single := newRouter(t, four(), warmroute.WithAdapters("sql"))
	base := &sink{t: t}
	for _, body := range []string{`{"model":"sql"}`, `{"model":"base"}`} {
		req := post(t, strings.NewReader(body))
		req.Header.Set("X-Session-Id", "s")
		_, err := single.Transport(base).RoundTrip(req)
		require.NoError(t, err)
	}
	assert.Equal(t, uint64(2), single.Stats().Pools[0].Requests.Placed)
	_, err = warmroute.New(four(), warmroute.WithAdapters(""))
	var refused *warmroute.ConfigError
	require.ErrorAs(t, err, &refused)
}

func TestSubAgentsOnAnAdapterFindTheirParent(t *testing.T) {
	router := newRouter(t, four(), warmroute.WithAdapters("sql"))
	for i := range 20 {
		parent := fmt.Sprint("p", i)
		lease := route(t, router, warmroute.Request{Model: "sql", Session: parent})
		lease.Answered()
		lease.Done(warmroute.Result{})
		child := route(t, router, warmroute.Request{Model: "sql", Session: parent + "/c", Parent: parent})
		assert.Equal(t, lease.Replica().Name(), child.Replica().Name())
		child.Done(warmroute.Result{})
	}
}

func TestLongKeysOnAnAdapterDoNotKeepTheOthersFromBeingSaved(t *testing.T) {
	router := newRouter(t, four(), warmroute.WithAdapters("sql"))
	long := strings.Repeat("k", affinity.MaxKeyLen)
	for _, model := range []string{"", "sql"} {
		lease := route(t, router, warmroute.Request{Model: model, Session: long})
		lease.Answered()
		lease.Done(warmroute.Result{})
	}
	assert.Equal(t, uint64(1), router.Stats().Pools[0].Requests.Unkeyed)
	require.NoError(t, router.Save(io.Discard))
}

func TestPickersAreToldOfAdapters(t *testing.T) {
	p := new(seen)
	page := idle(0) + `vllm:lora_requests_info{max_lora="4",running_lora_adapters="sql",waiting_lora_adapters="legal"} 1.7e9` + "\n"
	pages := newPages(map[string]string{"a": page, "b": idle(0)})
	opts := []warmroute.Option{warmroute.WithPicker(newSeen(p)), warmroute.WithAdapters("sql")}
	scraped(t, pages, at("http://a", "http://b"), opts, func(t *testing.T, r *warmroute.Router) {
		time.Sleep(2 * time.Second)
		route(t, r, warmroute.Request{Model: "sql"}).Done(warmroute.Result{})
		route(t, r, warmroute.Request{}).Done(warmroute.Result{})
		require.Len(t, p.requests, 2)
		assert.Equal(t, "sql", p.requests[0].Adapter)
		assert.Empty(t, p.requests[1].Adapter)
		assert.Equal(t, []string{"sql", "legal"}, p.candidates[0].Adapters)
		assert.Nil(t, p.candidates[1].Adapters, "none listed is not none loaded")
	})
}
