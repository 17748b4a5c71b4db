package warmroutecaddy

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/warmroute/warmroute"
)

func init() { // how a Caddy module makes itself known
	caddy.RegisterModule(new(Errors))
	httpcaddyfile.RegisterHandlerDirective("warmroute_errors", parseErrors)
	httpcaddyfile.RegisterDirectiveOrder("warmroute_errors", httpcaddyfile.Before, "respond")
}

// Errors is the module http.handlers.warmroute_errors, for handle_errors: it
// answers the errors that [warmroute.ErrorHandler] has a status for with what
// that writes, and leaves others to the handlers after it. It is for the bodies
// that request_body refuses before a transport sees them, and for transports
// that leave their errors to handle_errors ([HandleErrors]).
//
//	handle_errors {
//		warmroute_errors
//	}
type Errors struct{}

// CaddyModule returns the Caddy module information.
func (*Errors) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.warmroute_errors",
		New: func() caddy.Module { return new(Errors) },
	}
}

// ServeHTTP answers the error that the request is here for.
func (*Errors) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	err, _ := r.Context().Value(caddyhttp.ErrorCtxKey).(error)
	var refused caddyhttp.HandlerError
	// An error with the same status for another reason is not the router's.
	if !errors.As(err, &refused) || warmroute.ErrorResponse(r, err).StatusCode != refused.StatusCode {
		return next.ServeHTTP(w, r)
	}
	warmroute.ErrorHandler(w, r, err)
	return nil
}

// UnmarshalCaddyfile reads "warmroute_errors".
func (*Errors) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive
	if d.NextArg() || d.NextBlock(0) {
		return d.ArgErr()
	}
	return nil
}

func parseErrors(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	e := new(Errors)
	return e, e.UnmarshalCaddyfile(h.Dispenser)
}

var (
	_ caddyhttp.MiddlewareHandler = (*Errors)(nil)
	_ caddyfile.Unmarshaler       = (*Errors)(nil)
)
