package extproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/warmroute/warmroute"
)

// pieces is how many messages are received ahead, so that the end of the stream
// is noticed while a turn waits for room and its body comes in.
const pieces = 256

// exchange is one HTTP request and its answer.
type exchange struct {
	server *Server
	stream extprocv3.ExternalProcessor_ProcessServer
	in     chan *extprocv3.ProcessingRequest // closed after failed is set
	failed error                             // nil if Envoy closed the stream
	ctx    context.Context                   // ends with the stream, before all of in is read
	cancel context.CancelCauseFunc

	modes    *extprocv3.ProtocolConfiguration
	req      *http.Request                  // nil before its headers
	held     []*extprocv3.ProcessingRequest // read while the request was inspected
	lease    warmroute.Lease                // the zero one if it was not routed
	observer *warmroute.Observer            // nil before the answer
}

func newExchange(s *Server, stream extprocv3.ExternalProcessor_ProcessServer) *exchange {
	e := &exchange{server: s, stream: stream, in: make(chan *extprocv3.ProcessingRequest, pieces)}
	e.ctx, e.cancel = context.WithCancelCause(stream.Context())
	go e.receive()
	return e
}

// receive ends with the gRPC stream, which ends with Process.
func (e *exchange) receive() {
	defer close(e.in)
	for {
		m, err := e.stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				e.failed = err
			}
			e.cancel(context.Canceled) // the client is gone, or the answer complete
			return
		}
		select {
		case e.in <- m:
		case <-e.stream.Context().Done():
			e.failed = e.stream.Context().Err()
			e.cancel(context.Canceled)
			return
		}
	}
}

// next is the next message, nil if Envoy has closed the stream.
func (e *exchange) next() (*extprocv3.ProcessingRequest, error) {
	if len(e.held) > 0 {
		m := e.held[0]
		e.held = e.held[1:]
		return m, nil
	}
	if m, ok := <-e.in; ok {
		return m, nil
	}
	return nil, e.failed
}

// end ends the lease, if nothing has yet. Without the answer's end that is
// nobody's failure: from here an engine that broke off cannot be told from a
// client that left.
func (e *exchange) end() {
	e.cancel(context.Canceled)
	switch {
	case e.observer == nil:
		e.lease.Done(warmroute.Result{NoTokens: true})
	case e.modes.GetResponseBodyMode() == filterv3.ProcessingMode_NONE:
		e.observer.End(nil) // its end is not shown
	default:
		e.observer.End(context.Canceled)
	}
}

// handle answers one message. done says that Envoy expects no more.
func (e *exchange) handle(m *extprocv3.ProcessingRequest) (done bool, err error) {
	if c := m.GetProtocolConfig(); c != nil {
		e.modes = c // in the first message only
	}
	switch p := m.Request.(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		return e.requestHeaders(p.RequestHeaders)
	case *extprocv3.ProcessingRequest_RequestBody:
		return e.requestBody(p.RequestBody)
	case *extprocv3.ProcessingRequest_RequestTrailers:
		return false, e.stream.Send(requestTrailers())
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		instead, err := e.answered(p.ResponseHeaders, m)
		switch {
		case err != nil:
			return false, err
		case instead != nil:
			return true, e.stream.Send(instead)
		}
		return false, e.stream.Send(responseHeaders())
	case *extprocv3.ProcessingRequest_ResponseBody:
		return false, e.responseBody(p.ResponseBody)
	case *extprocv3.ProcessingRequest_ResponseTrailers:
		if e.observer != nil {
			e.observer.End(nil)
		}
		return false, e.stream.Send(responseTrailers())
	}
	return false, status.Errorf(codes.InvalidArgument, "unknown message %T", m.Request)
}

func (e *exchange) requestHeaders(h *extprocv3.HttpHeaders) (done bool, err error) {
	if e.req != nil {
		return false, status.Error(codes.InvalidArgument, "request headers twice")
	}
	e.req, err = newRequest(e.ctx, h.GetHeaders())
	if err != nil {
		return false, status.Errorf(codes.InvalidArgument, "request headers: %v", err)
	}
	switch {
	case h.GetEndOfStream():
		e.req.Body = http.NoBody
	case e.modes.GetRequestBodyMode() == filterv3.ProcessingMode_BUFFERED:
		return false, e.stream.Send(requestHeaders(nil)) // Envoy holds them until it has the body's answer
	case e.duplexRequest():
		e.req.Body = &duplexBody{exchange: e}
	}
	chosen, refusal, err := e.route()
	switch {
	case err != nil:
		return false, err
	case refusal != nil:
		return true, e.stream.Send(refusal)
	}
	return false, e.stream.Send(requestHeaders(chosen))
}

func (e *exchange) duplexRequest() bool {
	return e.modes.GetRequestBodyMode() == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
}

func (e *exchange) requestBody(b *extprocv3.HttpBody) (done bool, err error) {
	switch {
	case e.req == nil:
		return false, status.Error(codes.InvalidArgument, "a request body without headers: request_header_mode must be SEND")
	case e.duplexRequest():
		return false, e.stream.Send(requestPiece(b))
	case e.modes.GetRequestBodyMode() != filterv3.ProcessingMode_BUFFERED || e.lease.Replica() != nil:
		return false, e.stream.Send(requestBody(nil))
	}
	e.req.Body = io.NopCloser(bytes.NewReader(b.GetBody()))
	e.req.ContentLength = int64(len(b.GetBody()))
	chosen, refusal, err := e.route()
	e.req.Body = nil // Envoy has it
	switch {
	case err != nil:
		return false, err
	case refusal != nil:
		return true, e.stream.Send(refusal)
	}
	return false, e.stream.Send(requestBody(chosen))
}

// errWaited is the cause of the end of a wait that Envoy has no patience for.
var errWaited = fmt.Errorf("%w: no room within Envoy's message_timeout", warmroute.ErrOverloaded)

// route chooses the request's replica: chosen is what Envoy is to do for it, or
// refusal what it is to answer instead.
func (e *exchange) route() (chosen *choice, refusal *extprocv3.ProcessingResponse, err error) {
	route, err := e.server.router.Inspect(e.req)
	if err == nil {
		e.lease, err = e.wait(route)
	}
	switch {
	case err == nil:
		return chooseFor(e.server.cfg.DestinationHeader, e.req, e.lease), nil, nil
	case e.ctx.Err() != nil:
		return nil, nil, status.FromContextError(e.ctx.Err()).Err()
	}
	refusal, err = immediate(warmroute.ErrorResponse(e.req, err))
	return nil, refusal, err
}

// wait routes the request within Envoy's patience.
func (e *exchange) wait(route warmroute.Request) (warmroute.Lease, error) {
	if e.duplexRequest() {
		return e.server.router.Route(e.ctx, route)
	}
	cfg := e.server.cfg
	patience := cfg.MessageTimeout * 3 / 4
	if cfg.MaxMessageTimeout > 0 {
		patience = cfg.MaxMessageTimeout
		asked := make(chan error, 1)
		ask := time.AfterFunc(cfg.MessageTimeout/4, func() {
			asked <- e.stream.Send(&extprocv3.ProcessingResponse{OverrideMessageTimeout: durationpb.New(cfg.MaxMessageTimeout)})
		})
		defer func() {
			if !ask.Stop() {
				<-asked // a stream that cannot be sent to fails the answer as well
			}
		}()
	}
	ctx, cancel := context.WithTimeoutCause(e.ctx, patience, errWaited)
	defer cancel()
	return e.server.router.Route(ctx, route)
}

// duplexBody is the body of a request of which Envoy sends the pieces while it
// waits for the answer to its headers. What is read is held until then.
type duplexBody struct {
	exchange *exchange
	rest     []byte
	ended    bool
}

func (b *duplexBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.ended {
			return 0, io.EOF
		}
		m, ok := <-b.exchange.in
		if !ok {
			return 0, io.ErrUnexpectedEOF
		}
		b.exchange.held = append(b.exchange.held, m)
		body := m.GetRequestBody()
		b.rest = body.GetBody()
		b.ended = body == nil || body.GetEndOfStream() // trailers, or an answer of Envoy's own
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *duplexBody) Close() error { return nil }
