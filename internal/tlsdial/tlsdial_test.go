package tlsdial_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/tlsdial"
)

// The certificate is one that nobody trusts, so that the handshake fails after
// the name has been asked for.
func TestAsksForTheName(t *testing.T) {
	asked := make(chan *tls.ClientHelloInfo, 1)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		asked <- hello
		return nil, nil
	}}
	server.StartTLS()
	defer server.Close()
	address := server.Listener.Addr().String()
	dial := tlsdial.Func((&net.Dialer{}).DialContext, time.Minute, func(a string) string {
		assert.Equal(t, address, a)
		return "llm.example"
	})
	_, err := dial(t.Context(), "tcp", address)
	var refused *tls.CertificateVerificationError
	require.ErrorAs(t, err, &refused)
	hello := <-asked
	assert.Equal(t, "llm.example", hello.ServerName)
	assert.Equal(t, []string{"h2", "http/1.1"}, hello.SupportedProtos)
}

func TestHandshakeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		dial := tlsdial.Func(func(context.Context, string, string) (net.Conn, error) { return here, nil }, 5*time.Second,
			func(string) string { return "a" })
		start := time.Now()
		_, err := dial(t.Context(), "tcp", "a:443")
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
		assert.Equal(t, 5*time.Second, time.Since(start))
		_, err = here.Write([]byte("x"))
		require.ErrorIs(t, err, io.ErrClosedPipe, "the connection is closed")
	})
}

func TestDialErrorIsReturnedAsItIs(t *testing.T) {
	want := &net.OpError{Op: "dial", Err: io.EOF}
	dial := tlsdial.Func(func(context.Context, string, string) (net.Conn, error) { return nil, want }, time.Second,
		func(string) string { return "a" })
	_, err := dial(t.Context(), "tcp", "a:443")
	assert.Same(t, want, err)
}
