package warmroute_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
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

func TestBodyIsNotReadForAHeaderKey(t *testing.T) {
	router := newRouter(t, four())
	unread := &trackedBody{Reader: readerFunc(func([]byte) (int, error) {
		t.Error("body read")
		return 0, io.EOF
	})}
	req := post(t, unread)
	req.Header.Set("X-Session-Id", "s")
	_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		return answer(200, nil), r.Body.Close()
	})).RoundTrip(req)
	require.NoError(t, err)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A connection that the engine had closed before anything was written to it
// makes http.Transport send the request on another, for which it needs GetBody.
func TestGetBodyIsKeptOrRebuilt(t *testing.T) {
	router := newRouter(t, four())
	const text = `{"a":1}`
	whole := func() *http.Request {
		req := post(t, struct{ io.Reader }{strings.NewReader(text)}) // hides GetBody
		req.ContentLength = int64(len(text))                         // as a server's request has it
		return req
	}
	for name, req := range map[string]*http.Request{"kept": post(t, strings.NewReader(text)), "rebuilt": whole()} {
		var getBody func() (io.ReadCloser, error)
		_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
			require.NotNil(t, r.GetBody, name)
			getBody = r.GetBody
			for range 2 {
				body, err := r.GetBody()
				require.NoError(t, err)
				got, err := io.ReadAll(body)
				require.NoError(t, err)
				assert.Equal(t, text, string(got), name)
			}
			return answer(200, nil), r.Body.Close()
		})).RoundTrip(req)
		require.NoError(t, err)
		_, err = getBody()
		assert.Equal(t, name == "kept", err == nil, "ours is let go of when the answer has begun")
	}

	base := &sink{t: t}
	long := post(t, struct{ io.Reader }{strings.NewReader(`{"a":"` + strings.Repeat("x", 1<<20))})
	_, err := newRouter(t, four(), warmroute.WithPeekLimit(10)).Transport(base).RoundTrip(long)
	require.NoError(t, err)
	assert.Nil(t, base.last.GetBody, "not all of it is there")
	assert.Len(t, base.body, 1<<20+6)

	// It takes an idempotency key for leave to send what was sent in part.
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		for _, req := range []*http.Request{whole(), post(t, strings.NewReader(text))} {
			req.Header.Set(header, "k")
			_, err := router.Transport(base).RoundTrip(req)
			require.NoError(t, err)
			assert.Nil(t, base.last.GetBody)
			assert.Equal(t, "k", base.last.Header.Get(header), "the engine's to see")
		}
	}
}

func TestAnEngineNeverSeesAPostTwice(t *testing.T) {
	var seen atomic.Int64
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if seen.Add(1) == 2 { // on a connection that was used before
			conn, _, err := w.(http.Hijacker).Hijack()
			assert.NoError(t, err)
			assert.NoError(t, conn.Close())
		}
	}))
	defer engine.Close()
	router := newRouter(t, at(engine.URL))
	client := &http.Client{Transport: router.Transport(nil)}
	for i := range 2 {
		req, err := http.NewRequest(http.MethodPost, "http://model/v1/completions", strings.NewReader(`{"a":1}`))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "k")
		resp, err := client.Do(req)
		if i == 0 {
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			continue
		}
		require.Error(t, err)
	}
	assert.Equal(t, int64(2), seen.Load())
}

func TestAnErrorInTheBodyComesWhereItWas(t *testing.T) {
	broken := errors.New("client went away")
	router := newRouter(t, four())
	once := false
	failing := readerFunc(func([]byte) (int, error) {
		if once {
			return 0, io.EOF // an error that does not stay
		}
		once = true
		return 0, broken
	})
	_, err := router.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		got, err := io.ReadAll(r.Body)
		assert.Equal(t, `{"model":"x","mess`, string(got))
		return nil, errors.Join(err, r.Body.Close())
	})).RoundTrip(post(t, io.MultiReader(strings.NewReader(`{"model":"x","mess`), failing)))
	require.ErrorIs(t, err, broken)
	assert.Zero(t, router.Stats().Pools[0].Requests.Failed, "that is the client's doing")
}

func TestPeekingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, four())
		cause := errors.New("too slow")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		reader, writer := io.Pipe()
		req := post(t, reader).WithContext(ctx)
		start := time.Now()
		_, err := router.Transport(roundTripper(nil)).RoundTrip(req)
		require.ErrorIs(t, err, cause)
		assert.Equal(t, time.Second, time.Since(start))
		synctest.Wait()
		_, err = writer.Write([]byte("x"))
		require.ErrorIs(t, err, io.ErrClosedPipe, "the body is closed")
		assert.Zero(t, inFlight(t, router))
	})
}

// A key function may ask for whatever it likes, in any order.
func TestKeyThatAsksForTheModelFirst(t *testing.T) {
	var got []string
	key := func(r *affinity.Request) affinity.Key {
		got = []string{r.Field("model"), r.Field("metadata.chat"), r.Field("model"), r.Field("none"), r.Field("last")}
		return affinity.Key{Session: r.Field("model") + "/" + r.Field("metadata.chat")}
	}
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Model: "m"}}, warmroute.WithKey(key))
	base := &sink{t: t}
	body := `{"model":"m","messages":["` + strings.Repeat("x", 100_000) + `"],"metadata":{"chat":"c1"},"last":"l"}`
	_, err := router.Transport(base).RoundTrip(post(t, struct{ io.Reader }{strings.NewReader(body)}))
	require.NoError(t, err)
	assert.Equal(t, []string{"m", "c1", "m", "", "l"}, got)
	assert.True(t, body == base.body, "byte for byte")
}

// A body that was looked into must not be held for as long as the answer takes.
func TestBodiesAreNotHeldDuringTheAnswer(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	router := newRouter(t, at(server.URL))
	transport := router.Transport(nil)
	before := heap()
	const streams, size = 20, 1 << 20
	for range streams {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		xs := readerFunc(func(p []byte) (int, error) { // holds nothing itself
			for i := range p {
				p[i] = 'x'
			}
			return len(p), nil
		})
		body := io.MultiReader(strings.NewReader(`{"p":"`), io.LimitReader(xs, size), strings.NewReader(`"}`))
		req := post(t, body).WithContext(ctx)
		req.ContentLength = size + 8
		_, err := transport.RoundTrip(req)
		require.NoError(t, err)
	}
	assert.Less(t, int64(heap())-int64(before), int64(streams*size/4))
	assert.Equal(t, streams, inFlight(t, router))
}
