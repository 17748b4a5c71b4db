package extproc_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/integrations/extproc"
	"github.com/warmroute/warmroute/internal/gatewaytest"
)

// dial serves the processor in memory and returns a client of it.
func dial(t *testing.T, router *warmroute.Router, cfg extproc.Config) extprocv3.ExternalProcessorClient {
	t.Helper()
	processor, err := extproc.New(router, cfg)
	require.NoError(t, err)
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	processor.Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:processor", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, conn.Close())
		server.GracefulStop() // which waits for Process
		assert.NoError(t, <-served)
	})
	return extprocv3.NewExternalProcessorClient(conn)
}

// TestGateway holds an Envoy with this processor to what every gateway around a
// router must do, in each mode that a body may be sent in.
func TestGateway(t *testing.T) {
	for name, modes := range map[string][2]mode{
		"headers only": {filterv3.ProcessingMode_NONE, filterv3.ProcessingMode_STREAMED},
		"streamed":     {filterv3.ProcessingMode_STREAMED, filterv3.ProcessingMode_STREAMED},
		"buffered":     {filterv3.ProcessingMode_BUFFERED, filterv3.ProcessingMode_STREAMED},
		"full duplex":  {filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, filterv3.ProcessingMode_FULL_DUPLEX_STREAMED},
	} {
		t.Run(name, func(t *testing.T) {
			unseen := modes[0] == filterv3.ProcessingMode_NONE || modes[0] == filterv3.ProcessingMode_STREAMED
			serve := func(t *testing.T, router *warmroute.Router, maxBody int64) string {
				transport := &http.Transport{MaxIdleConnsPerHost: 100}
				server := httptest.NewServer(http.MaxBytesHandler(&envoy{
					client: dial(t, router, extproc.Config{}), transport: transport, request: modes[0], response: modes[1],
				}, maxBody))
				t.Cleanup(func() {
					server.Close()
					transport.CloseIdleConnections()
				})
				return server.URL
			}
			gatewaytest.Run(t, gatewaytest.Gateway{BodyUnseen: unseen, BreaksUnseen: true, Serve: serve})
		})
	}
}
