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
	lora := func(running, waiting, at string) string {
		return `vllm:lora_requests_info{max_lora="4",running_lora_adapters="` + running + `",waiting_lora_adapters="` + waiting + `"} ` + at + "\n"
	}
	pages := newPages(map[string]string{
		"a": idle(0) + lora("sql,legal", "legal,sql", "1.7e9"), // vLLM lists each under both
		"b": idle(0) + lora("sql", "", "1.7e9") + lora("", "", "1.8e9"),
		"c": idle(0),
	})
	opts := []warmroute.Option{warmroute.WithPicker(newSeen(p)), warmroute.WithAdapters("sql")}
	scraped(t, pages, at("http://a", "http://b", "http://c"), opts, func(t *testing.T, r *warmroute.Router) {
		time.Sleep(2 * time.Second)
		route(t, r, warmroute.Request{Model: "sql"}).Done(warmroute.Result{})
		route(t, r, warmroute.Request{}).Done(warmroute.Result{})
		require.Len(t, p.requests, 2)
		assert.Equal(t, "sql", p.requests[0].Adapter)
		assert.Empty(t, p.requests[1].Adapter)
		assert.Equal(t, []string{"sql", "legal"}, p.candidates[0].Adapters)
		assert.Equal(t, 4, p.candidates[0].MaxAdapters)
		assert.Equal(t, []string{}, p.candidates[1].Adapters, "none in use now")
		assert.Equal(t, 4, p.candidates[1].MaxAdapters)
		assert.Nil(t, p.candidates[2].Adapters, "nothing said is not none in use")
		assert.Zero(t, p.candidates[2].MaxAdapters)
	})
}

// models is an engine's list of its base model and adapters of it.
func models(base string, adapters ...string) string {
	list := `{"object":"list","data":[{"id":"` + base + `","root":"/m","parent":null}`
	for _, a := range adapters {
		list += `,{"id":"` + a + `","root":"/l/` + a + `","parent":"` + base + `"}`
	}
	return list + "]}"
}

func TestAdaptersAreDiscovered(t *testing.T) {
	pages := newPages(map[string]string{
		"a": idle(0, 1), "a/v1/models": models("base", "sql", "legal"),
		"b": idle(0), "b/v1/models": models("base", "sql"),
		"c": idle(0), "c/v1/models": models("other", "sql", "other-chat"),
		"d": idle(0), // does not tell
	})
	endpoints := []warmroute.Endpoint{
		{URL: "http://a", Model: "base"}, {URL: "http://b", Model: "base"}, {URL: "http://c", Model: "other"}, {URL: "http://d", Model: "base"},
	}
	scraped(t, pages, endpoints, nil, func(t *testing.T, r *warmroute.Router) {
		time.Sleep(2 * time.Second)
		went := func(model string) map[string]bool {
			hosts := map[string]bool{}
			for i := range 12 {
				lease := route(t, r, warmroute.Request{Model: model, Session: fmt.Sprint(i)})
				lease.Answered()
				lease.Done(warmroute.Result{})
				hosts[lease.Model()+" "+lease.Replica().URL().Host] = true
			}
			return hosts
		}
		assert.Equal(t, map[string]bool{"base a": true, "base b": true, "base d": true}, went("sql"), "the first pool that has it; one that does not tell may have it")
		assert.Equal(t, map[string]bool{"base a": true, "base d": true}, went("legal"), "b would answer 404")
		assert.Equal(t, map[string]bool{"other c": true}, went("other-chat"))
		assert.Equal(t, map[string]bool{"base a": true, "base b": true, "base d": true}, went("base"))
		_, err := r.Route(t.Context(), warmroute.Request{Model: "new"})
		require.ErrorIs(t, err, warmroute.ErrUnknownModel)

		// Adapters come and go.
		pages.set("b/v1/models", models("base", "sql", "new"))
		pages.set("a/v1/models", models("base", "sql"))
		require.NoError(t, r.Remove("http://d"))
		time.Sleep(70 * time.Second)
		assert.Equal(t, map[string]bool{"base b": true}, went("new"))
		_, err = r.Route(t.Context(), warmroute.Request{Model: "legal"})
		require.ErrorIs(t, err, warmroute.ErrUnknownModel)
		assert.Equal(t, map[string]bool{"base a": true, "base b": true}, went("sql"))

		// A conversation leaves a home that has unloaded its adapter.
		pages.set("b/v1/models", models("base"))
		pages.set("a/v1/models", models("base", "sql", "new"))
		time.Sleep(70 * time.Second)
		assert.Equal(t, map[string]bool{"base a": true}, went("new"))

		require.NoError(t, r.Remove("http://a"))
		_, err = r.Route(t.Context(), warmroute.Request{Model: "new"})
		require.ErrorIs(t, err, warmroute.ErrUnknownModel, "nobody has it any more")
	})
}

func TestAdaptersAreSeenInUse(t *testing.T) {
	lora := `vllm:lora_requests_info{max_lora="4",running_lora_adapters="sql",waiting_lora_adapters="sql"} 1.7e9` + "\n"
	t.Run("by an endpoint that does not list its models", func(t *testing.T) {
		pages := newPages(map[string]string{"a": idle(0) + lora, "b": idle(0)})
		endpoints := []warmroute.Endpoint{{URL: "http://a", Model: "base"}, {URL: "http://b", Model: "other"}}
		scraped(t, pages, endpoints, nil, func(t *testing.T, r *warmroute.Router) {
			time.Sleep(2 * time.Second)
			assert.Equal(t, "base", route(t, r, warmroute.Request{Model: "sql"}).Model())
			pages.set("a", idle(0))
			time.Sleep(5 * time.Second)
			assert.Equal(t, "base", route(t, r, warmroute.Request{Model: "sql"}).Model(), "not in use is not gone")
		})
	})
	t.Run("before it is listed", func(t *testing.T) {
		pages := newPages(map[string]string{"a": idle(0), "a/v1/models": models("base", "legal"), "b": idle(0)})
		endpoints := []warmroute.Endpoint{{URL: "http://a", Model: "base"}, {URL: "http://b", Model: "other"}}
		scraped(t, pages, endpoints, nil, func(t *testing.T, r *warmroute.Router) {
			time.Sleep(2 * time.Second)
			pages.set("a", idle(0)+lora)
			time.Sleep(2 * time.Second)
			for _, model := range []string{"sql", "legal"} {
				assert.Equal(t, "base", route(t, r, warmroute.Request{Model: model}).Model())
			}
		})
	})
}

// In a router of the default pool alone the body is read for adapters that were
// discovered: each has conversations of its own.
func TestDiscoveredAdaptersOfTheDefaultPool(t *testing.T) {
	pages := newPages(map[string]string{"a": idle(0, 1), "a/v1/models": models("base", "sql")})
	scraped(t, pages, at("http://a"), nil, func(t *testing.T, r *warmroute.Router) {
		time.Sleep(2 * time.Second)
		base := &sink{t: t}
		for _, body := range []string{`{"model":"sql"}`, `{"model":"base"}`, `{"model":"sql"}`} {
			req := post(t, strings.NewReader(body))
			req.Header.Set("X-Session-Id", "s")
			_, err := r.Transport(base).RoundTrip(req)
			require.NoError(t, err)
		}
		assert.Equal(t, uint64(2), r.Stats().Pools[0].Requests.Placed)
		assert.Equal(t, uint64(1), r.Stats().Pools[0].Requests.Sticky)
	})
}

// Engines that load an adapter when they are first asked for it list it only then.
func TestConfiguredAdaptersGoAnywhere(t *testing.T) {
	pages := newPages(map[string]string{"a": idle(0), "a/v1/models": models("base", "sql"), "b": idle(0), "b/v1/models": models("base")})
	scraped(t, pages, at("http://a", "http://b"), []warmroute.Option{warmroute.WithAdapters("sql")}, func(t *testing.T, r *warmroute.Router) {
		time.Sleep(2 * time.Second)
		hosts := map[string]bool{}
		for range 4 {
			hosts[route(t, r, warmroute.Request{Model: "sql"}).Replica().Name()] = true
		}
		assert.Len(t, hosts, 2)
	})
}
