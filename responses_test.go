package warmroute_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
)

// responder answers /v1/responses with responses of its own, resp_1 and so on,
// as JSON or as a stream whose end waits for the request's context.
type responder struct {
	n      atomic.Int64
	stream bool
	sentTo string
}

func (e *responder) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	e.sentTo = r.URL.Host + "/" + r.Header.Get("X-Data-Parallel-Rank")
	id := fmt.Sprintf("resp_%d", e.n.Add(1))
	if !e.stream {
		resp := answer(200, io.NopCloser(strings.NewReader(`{"id":"`+id+`","object":"response","status":"completed","usage":{"input_tokens":10}}`)))
		resp.Header.Set("Content-Type", "application/json")
		return resp, nil
	}
	reader, writer := io.Pipe()
	go func() {
		_, err := io.WriteString(writer, "event: response.created\ndata: {\"response\":{\"id\":\""+id+"\"},\"type\":\"response.created\"}\n\n")
		if err == nil {
			<-r.Context().Done()
			err = r.Context().Err()
		}
		_ = writer.CloseWithError(err)
	}()
	resp := answer(200, reader)
	resp.Header.Set("Content-Type", "text/event-stream")
	return resp, nil
}

// continueFrom sends a turn that names the response before it, "" for none, and
// reads its answer.
func continueFrom(t *testing.T, router *warmroute.Router, e *responder, previous string, header http.Header) (id, sentTo string) {
	t.Helper()
	resp, err := router.Transport(e).RoundTrip(responsesRequest(t, previous, header))
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return fmt.Sprintf("resp_%d", e.n.Load()), e.sentTo
}

func responsesRequest(t *testing.T, previous string, header http.Header) *http.Request {
	t.Helper()
	body := `{"model":"m","input":"hello","previous_response_id":null}`
	if previous != "" {
		body = `{"model":"m","input":"more","previous_response_id":"` + previous + `"}`
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model/v1/responses", struct{ io.Reader }{strings.NewReader(body)})
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header[k] = v
	}
	return req
}

func TestResponsesOfAKeyedConversationBelongToIt(t *testing.T) {
	router, e := newRouter(t, four()), &responder{}
	type chat struct{ id, home string }
	chats := make([]chat, 8)
	for i := range chats {
		chats[i].id, chats[i].home = continueFrom(t, router, e, "", http.Header{"X-Session-Id": {fmt.Sprint("s", i)}})
	}
	for range 3 {
		for i := range chats {
			var sentTo string
			chats[i].id, sentTo = continueFrom(t, router, e, chats[i].id, nil)
			assert.Equal(t, chats[i].home, sentTo)
		}
	}
	// The key and the chain are one conversation.
	_, sentTo := continueFrom(t, router, e, "", http.Header{"X-Session-Id": {"s3"}})
	assert.Equal(t, chats[3].home, sentTo)
	s := router.Stats().Pools[0]
	assert.Equal(t, warmroute.RequestStats{Placed: 8, Sticky: 25}, s.Requests)
	assert.Equal(t, 8, s.Sessions)
}

func TestAChainWithoutAKeyIsAConversation(t *testing.T) {
	router, e := newRouter(t, four()), &responder{}
	last, home := make([]string, 8), make([]string, 8)
	for i := range last {
		last[i], home[i] = continueFrom(t, router, e, "", nil)
	}
	assert.Zero(t, router.Stats().Pools[0].Sessions, "an answer that is never continued is no conversation")
	for range 3 {
		for i := range last {
			var sentTo string
			last[i], sentTo = continueFrom(t, router, e, last[i], nil)
			assert.Equal(t, home[i], sentTo, "where the first response was produced")
		}
	}
	s := router.Stats().Pools[0]
	assert.Equal(t, warmroute.RequestStats{Unkeyed: 8, Sticky: 24}, s.Requests)
	assert.Equal(t, 8, s.Sessions)
}

// A prompt_cache_key may be that of many conversations; a response is one's own.
func TestAResponseComesBeforeThePromptCacheKey(t *testing.T) {
	router := newRouter(t, at("http://a", "http://b"))
	produced := func(req warmroute.Request, id string) string {
		lease := route(t, router, req)
		lease.Answered()
		lease.Produced(id)
		lease.Done(warmroute.Result{})
		return lease.Replica().Name()
	}
	shared := warmroute.Request{Session: "app", KeySource: affinity.PromptCacheKeySource}
	home := produced(warmroute.Request{Session: "s"}, "resp_1")
	shared.PreviousResponse = "resp_1"
	assert.Equal(t, home, produced(shared, "resp_2"))
	assert.Equal(t, 1, router.Stats().Pools[0].Sessions, "it is that of the response")
	shared.PreviousResponse = "resp_2"
	assert.Equal(t, home, produced(shared, "resp_3"))
	assert.Equal(t, 1, router.Stats().Pools[0].Sessions)

	shared.PreviousResponse = "resp_unknown"
	home = produced(shared, "resp_4")
	assert.Equal(t, 2, router.Stats().Pools[0].Sessions, "the key is better than nothing")
	shared.PreviousResponse = "resp_unknown too"
	assert.Equal(t, home, produced(shared, "resp_5"))

	// Any other key names the conversation.
	produced(warmroute.Request{Session: "other", KeySource: "body session_id", PreviousResponse: "resp_1"}, "resp_6")
	assert.Equal(t, 3, router.Stats().Pools[0].Sessions)
}

// A body that was read for something else tells of the response as well.
func TestAKeyedRequestGoesToTheResponseItContinues(t *testing.T) {
	one := at("http://a", "http://b")
	for name, router := range map[string]*warmroute.Router{
		"for the model":          newRouter(t, []warmroute.Endpoint{{URL: "http://a", Model: "m"}, {URL: "http://b", Model: "m"}}),
		"for what it shares":     newRouter(t, one, warmroute.WithSharedPrefix(true)),
		"to send it once more":   newRouter(t, one, warmroute.WithRetry(warmroute.RetryPolicy{RetrySent: true})),
		"for the tenant's field": newRouter(t, one, warmroute.WithTenant(affinity.JSONPath("user"))),
	} {
		t.Run(name, func(t *testing.T) {
			e := new(responder)
			first, home := continueFrom(t, router, e, "", nil)
			for i := range 4 {
				_, sentTo := continueFrom(t, router, e, first, http.Header{"X-Session-Id": {fmt.Sprint("another ", i)}})
				assert.Equal(t, home, sentTo)
			}
		})
	}
}

func TestAnUnknownResponseBeginsAConversation(t *testing.T) {
	router, e := newRouter(t, four()), &responder{}
	e.n.Store(100) // as after a restart of the gateway
	id, home := continueFrom(t, router, e, "resp_100", nil)
	_, sentTo := continueFrom(t, router, e, id, nil)
	assert.Equal(t, home, sentTo)
	assert.Equal(t, warmroute.RequestStats{Placed: 1, Sticky: 1}, router.Stats().Pools[0].Requests)

	_, _ = continueFrom(t, router, e, strings.Repeat("x", 200), nil)
	assert.Equal(t, uint64(1), router.Stats().Pools[0].Requests.Unkeyed, "no id of a response")
}

// A client may send its next turn as soon as it has the id, from another
// connection, while the first answer goes on.
func TestAResponseCountsAsSoonAsItsIDIsSeen(t *testing.T) {
	router, e := newRouter(t, four()), &responder{stream: true}
	transport := router.Transport(e)
	for range 4 {
		resp, err := transport.RoundTrip(responsesRequest(t, "", nil))
		require.NoError(t, err)
		home := e.sentTo
		var seen strings.Builder
		for b := make([]byte, 1); !strings.Contains(seen.String(), `"},`); {
			n, err := resp.Body.Read(b)
			require.NoError(t, err)
			seen.Write(b[:n])
		}
		next, err := transport.RoundTrip(responsesRequest(t, fmt.Sprintf("resp_%d", e.n.Load()), nil))
		require.NoError(t, err)
		assert.Equal(t, home, e.sentTo)
		require.NoError(t, next.Body.Close())
		require.NoError(t, resp.Body.Close())
	}
	assert.Zero(t, inFlight(t, router))
}

// vLLM keeps a response in the process that produced it.
func TestAContinuedResponseIsWhereItWasProduced(t *testing.T) {
	router, e := newRouter(t, at("http://a", "http://b"), warmroute.WithSpill(1)), &responder{}
	first, home := continueFrom(t, router, e, "", nil)
	for range 5 { // far over the threshold
		lease := route(t, router, warmroute.Request{PreviousResponse: first})
		assert.Equal(t, warmroute.Sticky, lease.Outcome())
		defer lease.Done(warmroute.Result{})
	}
	second, sentTo := continueFrom(t, router, e, first, nil)
	assert.Equal(t, home, sentTo)

	// A turn with a key of another conversation goes there as well, and stays.
	key := http.Header{"X-Session-Id": {"elsewhere"}}
	for {
		if _, sentTo = continueFrom(t, router, e, "", key); sentTo != home {
			break
		}
		key.Set("X-Session-Id", key.Get("X-Session-Id")+"!")
	}
	lease := route(t, router, warmroute.Request{Session: key.Get("X-Session-Id"), PreviousResponse: second})
	assert.Equal(t, home, lease.Replica().URL().Host+"/")
	lease.Done(warmroute.Result{})

	require.NoError(t, router.Remove("http://"+strings.TrimSuffix(home, "/")))
	_, sentTo = continueFrom(t, router, e, second, nil)
	assert.NotEqual(t, home, sentTo, "it is gone")
}

func TestResponseChainsAreBounded(t *testing.T) {
	router, e := newRouter(t, four(), warmroute.WithResponseChains(2)), &responder{}
	first, _ := continueFrom(t, router, e, "", http.Header{"X-Session-Id": {"s"}})
	for range 2 {
		continueFrom(t, router, e, "", nil)
	}
	continueFrom(t, router, e, first, nil)
	assert.Equal(t, warmroute.RequestStats{Placed: 2, Unkeyed: 2}, router.Stats().Pools[0].Requests, "the first is forgotten")

	off := newRouter(t, four(), warmroute.WithResponseChains(0))
	id, _ := continueFrom(t, off, e, "", http.Header{"X-Session-Id": {"s"}})
	continueFrom(t, off, e, id, nil)
	assert.Equal(t, warmroute.RequestStats{Placed: 1, Unkeyed: 1}, off.Stats().Pools[0].Requests)

	_, err := warmroute.New(four(), warmroute.WithResponseChains(-1))
	var refused *warmroute.ConfigError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "response-chains", refused.Field)
}

func TestResponseChainsEndWithTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router, e := newRouter(t, four(), warmroute.WithSessionTTL(time.Hour)), &responder{}
		id, home := continueFrom(t, router, e, "", nil)
		time.Sleep(59 * time.Minute)
		id, sentTo := continueFrom(t, router, e, id, nil)
		assert.Equal(t, home, sentTo)
		time.Sleep(time.Hour)
		continueFrom(t, router, e, id, nil)
		assert.Equal(t, warmroute.RequestStats{Unkeyed: 1, Sticky: 1, Placed: 1}, router.Stats().Pools[0].Requests)
	})
}

// The same by sockets, with an answer that comes in pieces.
func TestResponseChainOverHTTP(t *testing.T) {
	var served [2]atomic.Int64
	var urls []string
	for i := range served {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, piece := range []string{"event: response.created\ndata: {\"response\":{\"id\":\"resp_", fmt.Sprint(i, "-", served[i].Add(1)), "\"}}\n\n",
				"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n"} {
				_, _ = io.WriteString(w, piece)
				w.(http.Flusher).Flush()
			}
		}))
		t.Cleanup(server.Close)
		urls = append(urls, server.URL)
	}
	router := newRouter(t, at(urls...))
	client := &http.Client{Transport: router.Transport(nil)}
	previous := ""
	for range 6 {
		resp, err := client.Do(responsesRequest(t, previous, nil))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		_, rest, _ := strings.Cut(string(body), `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		require.True(t, previous == "" || id[:7] == previous[:7], "%s continues %s", id, previous)
		previous = id
	}
}

// A turn that can be answered in one place only must not wait for room in
// another.
func TestAContinuedResponseWaitsForNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := tight(t, at("http://a", "http://b"))
		turn := large("") // so that its conversation has no place of its own
		first := begin(t.Context(), t, router, turn).went()
		first.Produced("resp_1")
		serve(first, 0)
		var busy []warmroute.Lease
		for _, other := range []string{"x", "y"} { // both replicas are full
			busy = append(busy, begin(t.Context(), t, router, large(other)).went())
		}
		_, err := router.TryRoute(large("new"))
		require.ErrorIs(t, err, warmroute.ErrOverloaded, "anybody else would have to wait")

		turn.PreviousResponse = "resp_1"
		lease, err := router.TryRoute(turn)
		require.NoError(t, err)
		assert.Equal(t, first.Replica(), lease.Replica())
		lease.Done(warmroute.Result{})
		for _, l := range busy {
			l.Done(warmroute.Result{})
		}
		assert.Zero(t, inFlight(t, router))
	})
}

// A request that goes where its response is kept waits for nothing, and takes up
// room there like others.
func TestContinuedResponsesTakeUpRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := tight(t, at("http://a"))
		first := route(t, r, large("s"))
		first.Produced("resp_1")
		serve(first, 0)
		next := large("")
		next.PreviousResponse = "resp_1"
		kept, err := r.TryRoute(next)
		require.NoError(t, err)
		assert.Equal(t, warmroute.Sticky, kept.Outcome())
		time.Sleep(5 * time.Second)
		w := begin(t.Context(), t, r, large("other"))
		require.True(t, w.waits(), "there is no room beside it")
		parallel, err := r.TryRoute(next)
		require.NoError(t, err)
		serve(kept, 900)
		serve(parallel, 900)
		time.Sleep(time.Second)
		serve(w.went(), 0)
		idleAgain(t, r)
	})
}
