// Package gateway is a gateway to vLLM on fiber, and so on fasthttp on both
// sides: without an http.RoundTripper, by warmroute's Inspect, Route, Target and
// Observe.
package gateway

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/valyala/fasthttp"

	"github.com/warmroute/warmroute"
)

// New returns a gateway that sends every request to one of router's replicas,
// but those below /debug/warmroute/, which are the router's own pages. A body of
// more than maxBody bytes is answered with 413, errors of routing as
// [warmroute.ErrorHandler] does. Add middleware of your own before it with a
// fiber.App of your own, [Handler] and [ErrorHandler].
func New(router *warmroute.Router, maxBody int) *fiber.App {
	app := fiber.New(fiber.Config{BodyLimit: maxBody, ErrorHandler: ErrorHandler})
	app.All("/debug/warmroute/*", adaptor.HTTPHandler(http.StripPrefix("/debug/warmroute", router.Handler())))
	app.All("/*", Handler(router, NewClient()))
	return app
}

// Handler returns a handler that sends each request to one of router's replicas
// through client, which must stream answers and must not send a request twice,
// as [NewClient]'s does. A request that finds no connection goes to another
// endpoint; otherwise it is sent once.
//
// fasthttp does not tell a handler that its client has left. It is noticed when
// the next token is written, which ends the run on the engine; before the first
// one, and while a turn waits for room in a cache, it is not. A context that
// middleware gives to the request (fiber.Ctx.SetContext) is honoured
// throughout, and so is [warmroute.WithSession].
func Handler(router *warmroute.Router, client *fasthttp.Client) fiber.Handler {
	return func(c fiber.Ctx) error {
		req, err := inbound(c)
		if err != nil {
			return fiber.ErrBadRequest
		}
		if err := forward(c, req, router, client); err != nil {
			return refuse(c, req, err)
		}
		return nil
	}
}

// forward sends the request on and has its answer streamed to the client.
func forward(c fiber.Ctx, req *http.Request, router *warmroute.Router, client *fasthttp.Client) error {
	route, err := router.Inspect(req)
	if err != nil {
		return err
	}
	var unreachable error
	for {
		lease, err := router.Route(req.Context(), route)
		if err != nil {
			if unreachable != nil && errors.Is(err, warmroute.ErrNoReplica) {
				err = fmt.Errorf("%w: %w", err, unreachable)
			}
			return err
		}
		resp, err := send(client, req, lease, c.Request().Body())
		if err == nil {
			answer(c, req, lease, resp)
			return nil
		}
		var dial *net.OpError
		noConnection := errors.As(err, &dial) && dial.Op == "dial" // nothing was sent
		lease.Done(warmroute.Result{Err: err, Unreachable: noConnection, NoTokens: true})
		if !noConnection {
			return err
		}
		unreachable = err
		route.Tried = append(route.Tried, lease.Replica())
	}
}

// send sends the request to the lease's replica and waits for the headers of
// its answer.
func send(client *fasthttp.Client, req *http.Request, lease warmroute.Lease, body []byte) (*fasthttp.Response, error) {
	out := fasthttp.AcquireRequest()
	defer fasthttp.ReleaseRequest(out)
	target, header := lease.Target(req)
	out.Header.SetMethod(req.Method)
	out.SetRequestURI(target.String())
	out.Header.SetNoDefaultContentType(true)
	for name, values := range header {
		for _, v := range values {
			out.Header.Add(name, v)
		}
	}
	out.SetBodyRaw(body)
	resp := fasthttp.AcquireResponse()
	resp.SkipBody = req.Method == http.MethodHead
	if err := client.Do(out, resp); err != nil {
		fasthttp.ReleaseResponse(resp)
		return nil, err
	}
	return resp, nil
}

// answer passes the engine's answer on. Its body is streamed after the handler
// has returned.
func answer(c fiber.Ctx, req *http.Request, lease warmroute.Lease, resp *fasthttp.Response) {
	header := headerOf(resp.Header.All())
	observer := lease.Observe(req, resp.StatusCode(), header)
	out := c.Response()
	out.SetStatusCode(resp.StatusCode())
	out.Header.SetNoDefaultContentType(true)
	for name, values := range header {
		for _, v := range values {
			out.Header.Add(name, v)
		}
	}
	size := resp.Header.ContentLength() // negative if it is not known
	if resp.BodyStream() == nil {
		observer.End(nil)
		out.SkipBody = resp.SkipBody
		if size >= 0 {
			out.Header.SetContentLength(size)
		}
		fasthttp.ReleaseResponse(resp)
		return
	}
	out.ImmediateHeaderFlush = true
	out.SetBodyStream(observer.Reader(&stream{resp: resp}), max(size, -1))
}

// refuse answers with what ErrorHandler of net/http would.
func refuse(c fiber.Ctx, req *http.Request, err error) error {
	resp := warmroute.ErrorResponse(req, err)
	for name, values := range resp.Header {
		for _, v := range values {
			c.Response().Header.Set(name, v)
		}
	}
	c.Status(resp.StatusCode)
	return c.SendStream(resp.Body, int(resp.ContentLength))
}

// ErrorHandler is a fiber.ErrorHandler that answers a body over the BodyLimit,
// which never reaches a handler, in the shape that a client of an LLM expects,
// and all else as fiber does.
func ErrorHandler(c fiber.Ctx, err error) error {
	var refused *fiber.Error
	if errors.As(err, &refused) && refused.Code == http.StatusRequestEntityTooLarge {
		if req, err := inbound(c); err == nil {
			return refuse(c, req, &http.MaxBytesError{Limit: int64(c.App().Config().BodyLimit)})
		}
	}
	return fiber.DefaultErrorHandler(c, err)
}

// NewClient returns a client made for engines: answers are streamed, nothing is
// sent twice, as many connections as there are requests, 2 seconds to connect,
// and idle connections for 4 seconds, since uvicorn, below vLLM, closes its own
// after 5.
func NewClient() *fasthttp.Client {
	dialer := net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}
	return &fasthttp.Client{
		Dial:                      func(addr string) (net.Conn, error) { return dialer.Dial("tcp", addr) },
		StreamResponseBody:        true,
		MaxIdemponentCallAttempts: 1,
		MaxConnsPerHost:           math.MaxInt32,
		MaxIdleConnDuration:       4 * time.Second,
		NoDefaultUserAgentHeader:  true,
		DisablePathNormalizing:    true,
	}
}
