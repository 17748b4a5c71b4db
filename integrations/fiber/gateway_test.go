package gateway_test

import (
	"net"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	gateway "github.com/warmroute/warmroute/integrations/fiber"
	"github.com/warmroute/warmroute/internal/gatewaytest"
)

func serve(t *testing.T, router *warmroute.Router, maxBody int64) string {
	t.Helper()
	app := gateway.New(router, int(maxBody))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		assert.NoError(t, app.ShutdownWithTimeout(5*time.Second))
		assert.NoError(t, <-served)
	})
	return "http://" + listener.Addr().String()
}

func TestGateway(t *testing.T) {
	gatewaytest.Run(t, gatewaytest.Gateway{Serve: serve, NoticesLate: true})
}

func TestPages(t *testing.T) { gatewaytest.Pages(t, gatewaytest.Gateway{Serve: serve}) }
