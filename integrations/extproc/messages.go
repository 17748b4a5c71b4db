package extproc

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/warmroute/warmroute"
)

// valueOf is a header's value: Envoy sends it raw unless it is told not to.
func valueOf(h *corev3.HeaderValue) string {
	if len(h.GetRawValue()) > 0 {
		return string(h.GetRawValue())
	}
	return h.GetValue()
}

// pseudo is the value of a pseudo-header, empty if there is none.
func pseudo(headers *corev3.HeaderMap, name string) string {
	for _, h := range headers.GetHeaders() {
		if h.GetKey() == name {
			return valueOf(h)
		}
	}
	return ""
}

// headerOf is all but the pseudo-headers.
func headerOf(headers *corev3.HeaderMap) http.Header {
	header := make(http.Header, len(headers.GetHeaders()))
	for _, h := range headers.GetHeaders() {
		if !strings.HasPrefix(h.GetKey(), ":") {
			header.Add(h.GetKey(), valueOf(h))
		}
	}
	return header
}

// newRequest is the request without its body.
func newRequest(ctx context.Context, headers *corev3.HeaderMap) (*http.Request, error) {
	target, err := url.ParseRequestURI(pseudo(headers, ":path"))
	if err != nil {
		return nil, err
	}
	req := (&http.Request{
		Method: pseudo(headers, ":method"), URL: target, Host: pseudo(headers, ":authority"), Header: headerOf(headers), ContentLength: -1,
	}).WithContext(ctx)
	if length := req.Header.Get("Content-Length"); length != "" {
		if req.ContentLength, err = strconv.ParseInt(length, 10, 64); err != nil {
			return nil, fmt.Errorf("content length: %w", err)
		}
	}
	return req, nil
}

// choice is what Envoy does to send a request to its replica.
type choice struct {
	headers  *extprocv3.HeaderMutation
	metadata *structpb.Struct
}

// chooseFor is the choice of the lease's replica.
func chooseFor(destination string, req *http.Request, lease warmroute.Lease) *choice {
	target, _ := lease.Target(req)
	address := target.Host
	if target.Port() == "" {
		address = net.JoinHostPort(target.Hostname(), map[string]string{"http": "80", "https": "443"}[target.Scheme])
	}
	m := &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{set(destination, address)}}
	if rank, ok := lease.RankHeader(); ok {
		m.SetHeaders = append(m.SetHeaders, set("x-data-parallel-rank", rank))
	} else if req.Header.Get("X-Data-Parallel-Rank") != "" {
		m.RemoveHeaders = []string{"x-data-parallel-rank"}
	}
	if lease.Replica().URL().Path != "" {
		m.SetHeaders = append(m.SetHeaders, set(":path", target.RequestURI()))
	}
	return &choice{headers: m, metadata: lbMetadata(address)}
}

// lbMetadata is where the endpoint picker protocol of the Gateway API inference
// extension has the address beside the header.
func lbMetadata(address string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"envoy.lb": structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			DefaultDestinationHeader: structpb.NewStringValue(address),
		}}),
	}}
}

// set has a header be that value and no other.
func set(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, RawValue: []byte(value)},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

// common is the answer that goes on with the request, to the chosen replica if
// there is one.
func (c *choice) common() *extprocv3.CommonResponse {
	if c == nil {
		return nil
	}
	return &extprocv3.CommonResponse{HeaderMutation: c.headers}
}

func (c *choice) dynamic() *structpb.Struct {
	if c == nil {
		return nil
	}
	return c.metadata
}

func requestHeaders(c *choice) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{
		Response:        &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{Response: c.common()}},
		DynamicMetadata: c.dynamic(),
	}
}

func requestBody(c *choice) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{
		Response:        &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{Response: c.common()}},
		DynamicMetadata: c.dynamic(),
	}
}

// passed gives a piece of a body back as it came.
func passed(b *extprocv3.HttpBody) *extprocv3.BodyResponse {
	return &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{BodyMutation: &extprocv3.BodyMutation{
		Mutation: &extprocv3.BodyMutation_StreamedResponse{
			StreamedResponse: &extprocv3.StreamedBodyResponse{Body: b.GetBody(), EndOfStream: b.GetEndOfStream()},
		},
	}}}
}

func requestPiece(b *extprocv3.HttpBody) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: passed(b)}}
}

func responsePiece(b *extprocv3.HttpBody) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{ResponseBody: passed(b)}}
}

func requestTrailers() *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestTrailers{RequestTrailers: &extprocv3.TrailersResponse{}}}
}

func responseHeaders() *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extprocv3.HeadersResponse{}}}
}

func responseBody() *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{ResponseBody: &extprocv3.BodyResponse{}}}
}

func responseTrailers() *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extprocv3.TrailersResponse{}}}
}

// immediate has Envoy answer instead of a replica.
func immediate(answer *http.Response) (*extprocv3.ProcessingResponse, error) {
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	headers := new(extprocv3.HeaderMutation)
	for name, values := range answer.Header {
		for _, v := range values {
			headers.SetHeaders = append(headers.SetHeaders, set(strings.ToLower(name), v))
		}
	}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
		ImmediateResponse: &extprocv3.ImmediateResponse{
			Status:  &typev3.HttpStatus{Code: typev3.StatusCode(answer.StatusCode)},
			Headers: headers, Body: body, Details: "warmroute_refused",
		},
	}}, nil
}
