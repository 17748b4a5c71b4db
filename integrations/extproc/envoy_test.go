package extproc_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/warmroute/warmroute"
)

type mode = filterv3.ProcessingMode_BodySendMode

// envoy is a gateway that plays Envoy's part: it asks the processor about each
// request and answer, and does what it says.
type envoy struct {
	client    extprocv3.ExternalProcessorClient
	transport http.RoundTripper
	request   mode
	response  mode
}

// conversation is one gRPC stream.
type conversation struct {
	envoy  *envoy
	stream extprocv3.ExternalProcessor_ProcessClient
	config *extprocv3.ProtocolConfiguration // until it is sent
}

// errImmediate is for an answer in place of the upstream's.
var errImmediate = errors.New("immediate response")

func (e *envoy) open(r *http.Request) (*conversation, error) {
	stream, err := e.client.Process(r.Context())
	return &conversation{envoy: e, stream: stream, config: &extprocv3.ProtocolConfiguration{
		RequestBodyMode: e.request, ResponseBodyMode: e.response,
	}}, err
}

func (c *conversation) send(m *extprocv3.ProcessingRequest) error {
	m.ProtocolConfig, c.config = c.config, nil
	return c.stream.Send(m)
}

// receive is the next answer, but those that ask for patience.
func (c *conversation) receive() (*extprocv3.ProcessingResponse, error) {
	for {
		m, err := c.stream.Recv()
		if err != nil || m.GetOverrideMessageTimeout() == nil {
			return m, err
		}
	}
}

func (c *conversation) ask(m *extprocv3.ProcessingRequest) (*extprocv3.ProcessingResponse, error) {
	if err := c.send(m); err != nil {
		return nil, err
	}
	return c.receive()
}

func headerMap(pseudo map[string]string, header http.Header) *corev3.HeaderMap {
	m := new(corev3.HeaderMap)
	for k, v := range pseudo {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: k, RawValue: []byte(v)})
	}
	for k, values := range header {
		for _, v := range values {
			m.Headers = append(m.Headers, &corev3.HeaderValue{Key: strings.ToLower(k), RawValue: []byte(v)})
		}
	}
	return m
}

func requestHeaders(r *http.Request) *extprocv3.ProcessingRequest {
	header := r.Header.Clone()
	if r.ContentLength > 0 {
		header.Set("Content-Length", strconv.FormatInt(r.ContentLength, 10))
	}
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
		Headers: headerMap(map[string]string{
			":method": r.Method, ":path": r.URL.RequestURI(), ":authority": r.Host, ":scheme": "http",
		}, header),
		EndOfStream: r.ContentLength == 0,
	}}}
}

func requestBody(b []byte, end bool) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
		RequestBody: &extprocv3.HttpBody{Body: b, EndOfStream: end},
	}}
}

func responseHeaders(status int, header http.Header, end bool) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{
		Headers: headerMap(map[string]string{":status": strconv.Itoa(status)}, header), EndOfStream: end,
	}}}
}

func responseBody(b []byte, end bool) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{
		ResponseBody: &extprocv3.HttpBody{Body: b, EndOfStream: end},
	}}
}

// ServeHTTP proxies one request.
func (e *envoy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := e.open(r)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	defer func() { _ = c.stream.CloseSend() }() // the processor ends with it
	out, err := c.requestPhase(w, r)
	if err != nil {
		switch {
		case errors.As(err, new(*http.MaxBytesError)):
			warmroute.ErrorHandler(w, r, err)
		case !errors.Is(err, errImmediate):
			w.WriteHeader(http.StatusInternalServerError)
		}
		return
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetXForwarded(); p.Out.Host = "" },
		Transport:     answering{c},
		ErrorHandler:  c.failed,
		FlushInterval: -1,
	}
	proxy.ServeHTTP(w, out)
}

// requestPhase has the request changed as the processor says.
func (c *conversation) requestPhase(w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	out := r.Clone(r.Context())
	first := requestHeaders(r)
	hasBody := !first.GetRequestHeaders().GetEndOfStream()
	if hasBody && c.envoy.request == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED {
		return out, c.duplex(w, r, out, first)
	}
	m, err := c.ask(first)
	if err != nil {
		return nil, err
	}
	if err := apply(w, out, m, m.GetRequestHeaders().GetResponse()); err != nil || !hasBody {
		return out, err
	}
	switch c.envoy.request {
	case filterv3.ProcessingMode_BUFFERED:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if m, err = c.ask(requestBody(body, true)); err != nil {
			return nil, err
		}
		out.Body = io.NopCloser(strings.NewReader(string(body)))
		return out, apply(w, out, m, m.GetRequestBody().GetResponse())
	case filterv3.ProcessingMode_STREAMED:
		body, err := io.ReadAll(r.Body) // but in pieces to the processor
		if err != nil {
			return nil, err
		}
		for rest := body; ; {
			n := min(len(rest), 1000)
			if m, err = c.ask(requestBody(rest[:n], n == len(rest))); err != nil {
				return nil, err
			}
			if m.GetRequestBody() == nil {
				return nil, errors.New("not answered")
			}
			if rest = rest[n:]; len(rest) == 0 {
				break
			}
		}
		out.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	return out, nil
}

// duplex sends the body while it waits for the headers' answer, and takes what
// comes back for the body.
func (c *conversation) duplex(w http.ResponseWriter, r, out *http.Request, first *extprocv3.ProcessingRequest) error {
	if err := c.send(first); err != nil {
		return err
	}
	sent := make(chan error, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		buf := make([]byte, 1000)
		for {
			n, err := io.ReadFull(r.Body, buf)
			end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
			if err != nil && !end {
				sent <- err
				_ = c.stream.CloseSend() // which ends the wait for an answer
				return
			}
			if err := c.send(requestBody(append([]byte(nil), buf[:n]...), end)); err != nil || end {
				sent <- err
				return
			}
		}
	})
	defer reading.Wait()
	m, err := c.receive()
	if err == nil {
		err = apply(w, out, m, m.GetRequestHeaders().GetResponse())
	}
	var body strings.Builder
	for err == nil {
		if m, err = c.receive(); err == nil {
			piece := m.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
			body.Write(piece.GetBody())
			if piece.GetEndOfStream() {
				break
			}
		}
	}
	if failed := <-sent; failed != nil {
		return failed
	}
	out.Body = io.NopCloser(strings.NewReader(body.String()))
	return err
}

// apply does to the request what the processor says.
func apply(w http.ResponseWriter, out *http.Request, m *extprocv3.ProcessingResponse, common *extprocv3.CommonResponse) error {
	if now := m.GetImmediateResponse(); now != nil {
		for _, h := range now.GetHeaders().GetSetHeaders() {
			w.Header().Set(h.GetHeader().GetKey(), string(h.GetHeader().GetRawValue()))
		}
		w.WriteHeader(int(now.GetStatus().GetCode()))
		_, _ = w.Write(now.GetBody())
		return errImmediate
	}
	mutation := common.GetHeaderMutation()
	for _, name := range mutation.GetRemoveHeaders() {
		out.Header.Del(name)
	}
	for _, h := range mutation.GetSetHeaders() {
		value := string(h.GetHeader().GetRawValue())
		switch h.GetHeader().GetKey() {
		case ":path":
			target, err := url.ParseRequestURI(value)
			if err != nil {
				return err
			}
			target.Scheme, target.Host = out.URL.Scheme, out.URL.Host
			out.URL = target
		case "x-gateway-destination-endpoint":
			out.URL.Scheme, out.URL.Host = "http", value
		default:
			out.Header.Set(h.GetHeader().GetKey(), value)
		}
	}
	return nil
}

// answering is the way to the upstream and back past the processor.
type answering struct{ *conversation }

// immediateError carries an answer to where it can be written.
type immediateError struct{ m *extprocv3.ProcessingResponse }

func (immediateError) Error() string { return "immediate response" }

func (a answering) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := a.envoy.transport.RoundTrip(req)
	if err != nil {
		if req.Context().Err() != nil || errors.As(err, new(*http.MaxBytesError)) {
			return nil, err // the client's doing
		}
		m, sendErr := a.ask(local(refusedConnection))
		if sendErr == nil && m.GetImmediateResponse() != nil {
			err = immediateError{m}
		}
		return nil, err
	}
	if _, err := a.ask(responseHeaders(resp.StatusCode, resp.Header, resp.Body == http.NoBody)); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	if a.envoy.response != filterv3.ProcessingMode_NONE && resp.Body != http.NoBody {
		resp.Body = &shown{conversation: a.conversation, ReadCloser: resp.Body}
	}
	return resp, nil
}

func (c *conversation) failed(w http.ResponseWriter, r *http.Request, err error) {
	var now immediateError
	if errors.As(err, new(*http.MaxBytesError)) {
		warmroute.ErrorHandler(w, r, err)
		return
	}
	if !errors.As(err, &now) || !errors.Is(apply(w, r, now.m, nil), errImmediate) {
		w.WriteHeader(http.StatusBadGateway)
	}
}

// shown is the answer's body, each piece of which the processor sees first.
type shown struct {
	*conversation
	io.ReadCloser
}

func (s *shown) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if n == 0 && !errors.Is(err, io.EOF) {
		return n, err
	}
	m, asked := s.ask(responseBody(p[:n], errors.Is(err, io.EOF)))
	if asked != nil {
		return 0, asked
	}
	if s.envoy.response == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED {
		n = copy(p, m.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetBody())
	}
	return n, err
}
