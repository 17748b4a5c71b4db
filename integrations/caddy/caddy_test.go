package warmroutecaddy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	// The handlers that the tests' Caddyfiles name.
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/requestbody"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"
	_ "github.com/caddyserver/caddy/v2/modules/logging"
)

// server is Caddy, in this process: there is one at a time.
type server struct {
	addr    string
	storage string
	log     string // where to
}

// start runs Caddy until the test ends, with one site that has the directives.
func start(t *testing.T, directives string) *server {
	t.Helper()
	s := &server{addr: freeAddr(t), storage: t.TempDir(), log: "discard"}
	require.NoError(t, s.load(directives))
	t.Cleanup(func() { assert.NoError(t, caddy.Stop()) })
	return s
}

func (s *server) url() string { return "http://" + s.addr }

// load loads the site, in place of the one before, as a reload does.
func (s *server) load(directives string) error {
	config, err := adapt(fmt.Sprintf(`{
	admin off
	persist_config off
	auto_https off
	storage file_system %s
	log {
		output %s
	}
}
http://%s {
	bind 127.0.0.1
	%s
}`, s.storage, s.log, s.addr, directives))
	if err != nil {
		return err
	}
	// The old server closes idle connections, which a POST must not meet, and
	// with its socket those that it has not accepted (SO_REUSEPORT), maybe after
	// Load has returned.
	http.DefaultClient.CloseIdleConnections()
	if err := caddy.Load(config, true); err != nil {
		return err
	}
	return s.settled()
}

// settled returns when connections have been taken for a while.
func (s *server) settled() (err error) {
	for range 100 {
		for range 20 {
			var conn net.Conn
			if conn, err = net.Dial("tcp", s.addr); err != nil {
				break
			}
			if err = answers(conn); err != nil {
				break
			}
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// answers has a request that no site is for answered.
func answers(conn net.Conn) error {
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\nHost: nobody\r\n\r\n"); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, conn)
	return err
}

// adapt makes JSON of a Caddyfile.
func adapt(config string) ([]byte, error) {
	adapter := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}
	adapted, warnings, err := adapter.Adapt([]byte(config), map[string]any{"filename": "Caddyfile"})
	for _, w := range warnings {
		if w.Directive != "" || w.Message != formatted {
			return nil, fmt.Errorf("warning: %v", w)
		}
	}
	return adapted, err
}

const formatted = "Caddyfile input is not formatted; run 'caddy fmt --overwrite' to fix inconsistencies"

// freeAddr is an address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// handler serves what stands for an engine.
func handler(t *testing.T, serve http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	return server.URL
}
