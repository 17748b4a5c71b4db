package warmroutecaddy

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() { // how a Caddy module makes itself known
	caddy.RegisterModule(new(Stats))
	httpcaddyfile.RegisterHandlerDirective("warmroute_stats", parseStats)
	httpcaddyfile.RegisterDirectiveOrder("warmroute_stats", httpcaddyfile.Before, "respond")
}

// Stats is the module http.handlers.warmroute_stats: the pages of a router, as
// [warmroute.Router.Handler] describes them, at the root of the path that
// reaches it.
//
//	handle_path /debug/warmroute/* {
//		warmroute_stats [<name>]
//	}
//
// They show the replicas' addresses: put authentication before them.
type Stats struct {
	// Name is the transport's, or that of a provided router. Of two routers with
	// one name it is the latest. Default [DefaultName].
	Name string `json:"name,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*Stats) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.warmroute_stats",
		New: func() caddy.Module { return new(Stats) },
	}
}

// ServeHTTP serves the pages. Without a router of that name it is an error of
// status 404.
func (s *Stats) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	name := s.Name
	if name == "" {
		name = DefaultName
	}
	// Not earlier: the transport may be provisioned after this handler.
	f := latest(name)
	if f == nil {
		return caddyhttp.Error(http.StatusNotFound, fmt.Errorf("no warmroute router is named %q", name))
	}
	f.router.Handler().ServeHTTP(w, r)
	return nil
}

// UnmarshalCaddyfile reads "warmroute_stats [<name>]".
func (s *Stats) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive
	if d.NextArg() {
		s.Name = d.Val()
	}
	if d.NextArg() || d.NextBlock(0) {
		return d.ArgErr()
	}
	return nil
}

func parseStats(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	s := new(Stats)
	return s, s.UnmarshalCaddyfile(h.Dispenser)
}

var (
	_ caddyhttp.MiddlewareHandler = (*Stats)(nil)
	_ caddyfile.Unmarshaler       = (*Stats)(nil)
)
