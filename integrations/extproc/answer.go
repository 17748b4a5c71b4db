package extproc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/warmroute/warmroute"
)

// codeDetails is the attribute by which Envoy tells where an answer comes from.
const codeDetails = "response.code_details"

// answered takes the headers of the answer. instead is what the client is to
// get in its place, nil if nothing.
func (e *exchange) answered(h *extprocv3.HttpHeaders, m *extprocv3.ProcessingRequest) (instead *extprocv3.ProcessingResponse, err error) {
	if e.lease.Replica() == nil || e.observer != nil { // that of a filter before this one; or one of several
		return nil, nil
	}
	header := headerOf(h.GetHeaders())
	code, err := strconv.Atoi(pseudo(h.GetHeaders(), ":status"))
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "response headers: status: %v", err)
	}
	if details := detailsOf(m); details != "" && details != "via_upstream" {
		result := localReply(details)
		e.lease.Done(result)
		if result.Err == nil {
			return nil, nil
		}
		return immediate(warmroute.ErrorResponse(e.req, result.Err))
	}
	// Envoy may close the gRPC stream while the last pieces are on their way here.
	e.observer = e.lease.Observe(e.req.WithContext(context.WithoutCancel(e.ctx)), code, header)
	if h.GetEndOfStream() {
		e.observer.End(nil)
	}
	return nil, nil
}

func detailsOf(m *extprocv3.ProcessingRequest) string {
	for _, attributes := range m.GetAttributes() { // by the filter's name
		if v := attributes.GetFields()[codeDetails].GetStringValue(); v != "" {
			return v
		}
	}
	return ""
}

// localReply is what became of a request that Envoy answered itself: as its
// response code details say, the upstream's doing or not (source/common/router
// and StreamInfo::ResponseCodeDetails of Envoy 1.40).
func localReply(details string) warmroute.Result {
	result := warmroute.Result{NoTokens: true}
	switch {
	case strings.Contains(details, "connection_failure"), strings.Contains(details, "connection_timeout"):
		result.Err, result.Unreachable = fmt.Errorf("%w: envoy: %s", warmroute.ErrNoReplica, details), true
	case strings.HasPrefix(details, "response_timeout"), strings.HasPrefix(details, "upstream_response_timeout"):
		result.Err = fmt.Errorf("%w: envoy: %s", context.DeadlineExceeded, details)
	case strings.HasPrefix(details, "upstream_"):
		result.Err = errors.New("envoy: " + details)
	}
	return result
}

func (e *exchange) responseBody(b *extprocv3.HttpBody) error {
	if e.observer != nil {
		if _, err := e.observer.Write(b.GetBody()); err != nil {
			return err
		}
		if b.GetEndOfStream() {
			e.observer.End(nil)
		}
	}
	if e.modes.GetResponseBodyMode() == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED {
		return e.stream.Send(responsePiece(b))
	}
	return e.stream.Send(responseBody())
}
