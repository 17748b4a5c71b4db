package extproc

import (
	"errors"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/warmroute/warmroute"
)

// Defaults of [Config].
const (
	// DefaultDestinationHeader is the header of the Gateway API inference
	// extension's endpoint picker protocol.
	DefaultDestinationHeader = "x-gateway-destination-endpoint"
	// DefaultMessageTimeout is Envoy's own.
	DefaultMessageTimeout = 200 * time.Millisecond
)

// Config is what the processor must know of the filter in Envoy.
type Config struct {
	// DestinationHeader is the request header that the replica's address is
	// written to, as IP:port; what the client sent there is overwritten. It is
	// http_header_name of the cluster's original_dst_lb_config. Default
	// [DefaultDestinationHeader].
	DestinationHeader string

	// MessageTimeout is the filter's message_timeout. A turn that waits for room
	// is answered with 429 after three quarters of it; it does not matter with
	// FULL_DUPLEX_STREAMED. 4 ms at the least. Default [DefaultMessageTimeout].
	MessageTimeout time.Duration

	// MaxMessageTimeout is the filter's max_message_timeout. If it is set, more
	// than MessageTimeout, a turn that has waited for a quarter of MessageTimeout
	// has Envoy extend its patience to it (override_message_timeout), and is
	// answered with 429 after so long. If the filter has less, Envoy ignores that.
	// Default 0: Envoy's patience is not extended.
	MaxMessageTimeout time.Duration
}

// Server is the external processor: one gRPC stream is one HTTP request. Its
// methods are safe for concurrent use.
type Server struct {
	extprocv3.UnimplementedExternalProcessorServer
	router *warmroute.Router
	cfg    Config
}

// New returns a processor that asks the router, which the program runs and
// closes. It returns a [*warmroute.ConfigError] for a setting that is refused.
func New(router *warmroute.Router, cfg Config) (*Server, error) {
	if router == nil {
		return nil, &warmroute.ConfigError{Field: "router", Value: "nil", Allowed: "a *warmroute.Router"}
	}
	if cfg.DestinationHeader == "" {
		cfg.DestinationHeader = DefaultDestinationHeader
	}
	if !httpguts.ValidHeaderFieldName(cfg.DestinationHeader) {
		return nil, &warmroute.ConfigError{Field: "destination header", Value: cfg.DestinationHeader, Allowed: "a header's name"}
	}
	if cfg.MessageTimeout == 0 {
		cfg.MessageTimeout = DefaultMessageTimeout
	}
	if cfg.MessageTimeout < 4*time.Millisecond {
		return nil, &warmroute.ConfigError{Field: "message timeout", Value: cfg.MessageTimeout.String(), Allowed: "4ms or more"}
	}
	if cfg.MaxMessageTimeout != 0 && cfg.MaxMessageTimeout <= cfg.MessageTimeout {
		return nil, &warmroute.ConfigError{Field: "max message timeout", Value: cfg.MaxMessageTimeout.String(),
			Allowed: "more than the message timeout of " + cfg.MessageTimeout.String() + ", or 0"}
	}
	return &Server{router: router, cfg: cfg}, nil
}

// Register registers the processor with a gRPC server. That must take messages
// as large as the filter may send: gRPC's default of 4 MiB is less than a long
// conversation that is BUFFERED ([grpc.MaxRecvMsgSize]).
func (s *Server) Register(server grpc.ServiceRegistrar) {
	extprocv3.RegisterExternalProcessorServer(server, s)
}

// errMode is for a filter that does not listen to its processor.
var errMode = errors.New("observability_mode is set: no request can be routed")

// Process serves one HTTP request. It returns when Envoy is done with it, with
// the request's lease ended; an error only where Envoy breaks the protocol or
// the stream fails.
func (s *Server) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	e := newExchange(s, stream)
	defer e.end()
	for {
		m, err := e.next()
		switch {
		case err != nil:
			return err
		case m == nil: // Envoy is done
			return nil
		case m.GetObservabilityMode():
			return status.Error(codes.FailedPrecondition, errMode.Error())
		}
		done, err := e.handle(m)
		if err != nil || done {
			return err
		}
	}
}
