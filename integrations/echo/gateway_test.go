package gateway_test

import (
	"net/http"
	"testing"

	"github.com/warmroute/warmroute"
	gateway "github.com/warmroute/warmroute/integrations/echo"
	"github.com/warmroute/warmroute/internal/gatewaytest"
)

var served = gatewaytest.Gateway{Serve: gatewaytest.Handler(func(router *warmroute.Router, maxBody int64) http.Handler {
	return gateway.New(router, maxBody)
})}

func TestGateway(t *testing.T) { gatewaytest.Run(t, served) }

func TestPages(t *testing.T) { gatewaytest.Pages(t, served) }
