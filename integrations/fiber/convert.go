package gateway

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
)

// inbound is the request as the router and the engine are to see it. Its
// strings are copies: fasthttp reuses its memory, and the session key stays in
// the router's table. Its body is fasthttp's, and good while the handler runs.
func inbound(c fiber.Ctx) (*http.Request, error) {
	in := c.Request()
	u, err := url.ParseRequestURI(string(in.Header.RequestURI()))
	if err != nil {
		return nil, fmt.Errorf("request URI: %w", err)
	}
	header := headerOf(in.Header.All())
	header.Set("X-Forwarded-For", c.RequestCtx().RemoteIP().String()) // what the client says of that is not believed
	header.Set("X-Forwarded-Host", string(in.Header.Host()))
	header.Set("X-Forwarded-Proto", c.Scheme())
	body := in.Body()
	req := &http.Request{
		Method: string(in.Header.Method()), URL: u, Header: header,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	return req.WithContext(c.Context()), nil
}

// headerOf copies a header, without what concerns one connection only (RFC 9110,
// 7.6.1) and what is written by fasthttp itself.
func headerOf(all iter.Seq2[[]byte, []byte]) http.Header {
	h := make(http.Header)
	for name, value := range all {
		h.Add(string(name), string(value))
	}
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range [...]string{
		"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Content-Length", "Date", "Expect", "Host",
	} {
		delete(h, name)
	}
	return h
}

// stream is the body of an engine's answer. Closed before its end, it breaks
// the connection, by which the engine learns that nobody reads on.
type stream struct{ resp *fasthttp.Response }

func (s *stream) Read(p []byte) (int, error) {
	if s.resp == nil {
		return 0, io.ErrClosedPipe
	}
	return s.resp.BodyStream().Read(p)
}

func (s *stream) Close() error {
	if s.resp == nil {
		return nil
	}
	err := s.resp.CloseBodyStream()
	fasthttp.ReleaseResponse(s.resp)
	s.resp = nil
	return err
}
