package warmroute_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
)

// upgrade answers 101 and echoes until its read side ends.
func upgrade(w http.ResponseWriter, _ *http.Request) {
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	_ = rw.Flush()
	_, _ = io.Copy(conn, rw)
	_, _ = io.WriteString(conn, " bye")
}

func TestContractUpgrade(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(upgrade))
	defer engine.Close()
	router := newRouter(t, at(engine.URL))
	target, err := url.Parse("http://model")
	require.NoError(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: router.Transport(nil),
	})
	defer proxy.Close()

	for _, address := range []string{engine.URL, proxy.URL} { // alone, then through the proxy
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		require.NoError(t, err)
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		require.NoError(t, err)
		reader := bufio.NewReader(conn)
		resp, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
		_, err = io.WriteString(conn, "hello")
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		got, err := io.ReadAll(reader)
		require.NoError(t, err)
		assert.Equal(t, "hello bye", string(got), "half closed: the answer still comes, at %s", address)
		require.NoError(t, conn.Close())
	}
	assert.Eventually(t, func() bool { return inFlight(t, router) == 0 }, 5*time.Second, time.Millisecond)
}

// readWriter is a 101 body without CloseWrite.
type readWriter struct {
	bytes.Buffer
	fail error
}

func (w *readWriter) Write(p []byte) (int, error) {
	if w.fail != nil {
		return 0, w.fail
	}
	return w.Buffer.Write(p)
}

func (w *readWriter) Close() error { return nil }

func TestContractUpgradeBodies(t *testing.T) {
	upgradeTo := func(body io.ReadCloser) (*warmroute.Router, io.ReadCloser) {
		router := newRouter(t, at("http://a"))
		resp, err := router.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
			return answer(http.StatusSwitchingProtocols, body), nil
		})).RoundTrip(post(t, nil))
		require.NoError(t, err)
		return router, resp.Body
	}
	router, body := upgradeTo(&readWriter{})
	_, half := body.(interface{ CloseWrite() error })
	assert.False(t, half, "what the base's body cannot do is not promised")
	_, err := body.(io.Writer).Write([]byte("x"))
	require.NoError(t, err)
	assert.Equal(t, 1, inFlight(t, router))
	require.NoError(t, body.Close())
	assert.Zero(t, inFlight(t, router))

	router, body = upgradeTo(&readWriter{fail: io.ErrClosedPipe})
	_, err = body.(io.Writer).Write([]byte("x"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	assert.Zero(t, inFlight(t, router), "a write error ends it")

	_, body = upgradeTo(io.NopCloser(strings.NewReader("")))
	_, writes := body.(io.Writer)
	assert.False(t, writes)
}
