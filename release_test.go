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
)

// failAfter gives some bytes and then an error, together or not.
type failAfter struct {
	data   string
	err    error
	joined bool
	closed *atomic.Int32
}

func (f *failAfter) Read(p []byte) (int, error) {
	n := copy(p, f.data)
	f.data = f.data[n:]
	if f.data == "" && (n == 0 || f.joined) {
		return n, f.err
	}
	return n, nil
}

func (f *failAfter) Close() error {
	if f.closed != nil {
		f.closed.Add(1)
	}
	return nil
}

func TestContractReleasedOnce(t *testing.T) {
	broken := errors.New("reset")
	for name, tc := range map[string]struct {
		body   *failAfter
		end    func(*testing.T, *http.Response)
		failed uint64
	}{
		"at EOF": {body: &failAfter{data: "abc", err: io.EOF}, end: func(t *testing.T, r *http.Response) {
			got, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			assert.Equal(t, "abc", string(got))
		}},
		"at EOF with the last bytes": {body: &failAfter{data: "abc", err: io.EOF, joined: true}, end: func(t *testing.T, r *http.Response) {
			var p [8]byte
			n, err := r.Body.Read(p[:])
			assert.Equal(t, 3, n)
			assert.Equal(t, io.EOF, err)
		}},
		"at a read error": {body: &failAfter{data: "abc", err: broken}, failed: 1, end: func(t *testing.T, r *http.Response) {
			got, err := io.ReadAll(r.Body)
			assert.Same(t, broken, err, "as it is")
			assert.Equal(t, "abc", string(got))
		}},
		"at Close": {body: &failAfter{data: "abc", err: io.EOF}, end: func(*testing.T, *http.Response) {}},
	} {
		t.Run(name, func(t *testing.T) {
			router := newRouter(t, at("http://a"))
			tc.body.closed = new(atomic.Int32)
			resp, err := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
				return answer(200, tc.body), nil
			})).RoundTrip(post(t, nil))
			require.NoError(t, err)
			require.Equal(t, 1, inFlight(t, router))
			tc.end(t, resp)
			if name != "at Close" {
				assert.Zero(t, inFlight(t, router), "released before Close")
			}
			for range 2 {
				assert.NoError(t, resp.Body.Close())
				assert.Zero(t, inFlight(t, router))
			}
			_, _ = resp.Body.Read(make([]byte, 1))
			assert.Zero(t, inFlight(t, router))
			assert.Equal(t, int32(2), tc.body.closed.Load(), "every Close is passed on")
			assert.Equal(t, tc.failed, router.Stats().Pools[0].Requests.Failed)
		})
	}
}

// blockingBody blocks in Read and in Close until it is let go.
type blockingBody struct {
	reading chan struct{}
	release chan struct{}
}

func (b *blockingBody) Read([]byte) (int, error) {
	close(b.reading)
	<-b.release
	return 0, io.EOF
}

func (b *blockingBody) Close() error { <-b.release; return nil }

func TestContractReleasedBeforeABlockingClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router := newRouter(t, at("http://a"))
		body := &blockingBody{release: make(chan struct{})}
		resp, err := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
			return answer(200, body), nil
		})).RoundTrip(post(t, nil))
		require.NoError(t, err)
		go resp.Body.Close()
		synctest.Wait()
		assert.Zero(t, inFlight(t, router))
		close(body.release)
	})
}

func TestContractReleasedWhenTheContextEnds(t *testing.T) {
	for _, reading := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			router := newRouter(t, at("http://a"))
			body := &blockingBody{reading: make(chan struct{}), release: make(chan struct{})}
			ctx, cancel := context.WithCancel(t.Context())
			resp, err := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
				return answer(200, body), nil
			})).RoundTrip(post(t, nil).WithContext(ctx))
			require.NoError(t, err)
			if reading {
				go func() { _, _ = resp.Body.Read(make([]byte, 1)) }()
				<-body.reading
			}
			assert.Equal(t, 1, inFlight(t, router))
			cancel()
			synctest.Wait()
			assert.Zero(t, inFlight(t, router), "dropped without reading or closing")
			close(body.release)
			synctest.Wait()
			assert.NoError(t, resp.Body.Close())
			assert.Zero(t, inFlight(t, router))
			assert.Zero(t, router.Stats().Pools[0].Requests.Failed, "the caller's doing")
		})
	}
}

func TestContractCallerCancelIsNoFailure(t *testing.T) {
	router := newRouter(t, at("http://a"))
	ctx, cancel := context.WithCancel(t.Context())
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		cancel()
		return nil, r.Context().Err()
	})
	_, err := router.Transport(base).RoundTrip(post(t, nil).WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, router.Stats().Pools[0].Requests.Failed)
	assert.Zero(t, inFlight(t, router))
}

func TestContractAPanickingBaseLeavesNoCount(t *testing.T) {
	router := newRouter(t, at("http://a"))
	body := tracked("{}")
	base := roundTripper(func(*http.Request) (*http.Response, error) { panic("base") })
	assert.Panics(t, func() { _, _ = router.Transport(base).RoundTrip(post(t, body)) })
	assert.Zero(t, inFlight(t, router))
	assert.Equal(t, int32(1), body.closes.Load())
}

// A cancelled request leaves no goroutine behind, whatever its caller does.
func TestContractNoGoroutineIsLeft(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	router := newRouter(t, at(server.URL))
	transport := router.Transport(nil)
	before := runtime.NumGoroutine()
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := transport.RoundTrip(post(t, strings.NewReader("{}")).WithContext(ctx))
		require.NoError(t, err)
		cancel()
	}
	server.CloseClientConnections()
	server.Close()
	transport.CloseIdleConnections()
	assert.Eventually(t, func() bool {
		return runtime.NumGoroutine() <= before && router.Stats().Pools[0].InFlight == 0
	}, 10*time.Second, 5*time.Millisecond)
	assert.Zero(t, inFlight(t, router))
}
