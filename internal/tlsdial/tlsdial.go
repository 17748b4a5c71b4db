// Package tlsdial makes TLS connections to servers whose name is not the host that
// is dialed.
package tlsdial

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// Dial is [net.Dialer.DialContext].
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Func returns an [net/http.Transport.DialTLSContext] that asks the server at an
// address for the certificate of serverName(address) and checks it against that.
// It offers HTTP/2. The handshake takes timeout at the most.
func Func(dial Dial, timeout time.Duration, serverName func(address string) string) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		plain, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(plain, &tls.Config{ServerName: serverName(address), NextProtos: []string{"h2", "http/1.1"}})
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, errHandshake)
		defer cancel()
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = plain.Close() // it has failed already
			if cause := context.Cause(ctx); errors.Is(cause, errHandshake) {
				err = cause
			}
			return nil, err
		}
		return conn, nil
	}
}

var errHandshake error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string   { return "TLS handshake timeout" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }
