// Package warmroutecaddy has two modules for Caddy v2:
//
//	http.reverse_proxy.transport.warmroute  [Transport]: each conversation on the replica with its prefix cache
//	http.handlers.warmroute_stats           [Stats]: the router's pages
//
// Build Caddy with them by xcaddy, or by a main package that imports this one
// and Caddy's standard modules for their side effects.
//
// # Upstreams
//
// reverse_proxy wants an upstream and picks one before it asks the transport,
// which then sends the request elsewhere. Give it exactly one, of any name, without
// a scheme: it is never dialled or looked up, and only names the fleet in
// Caddy's own metrics and placeholders. Health checks, lb_policy and lb_retries
// would work on that one name: leave them out. The router knows which replica is
// reachable, and sends a request to another if no connection could be made.
//
// # Reloads
//
// A reload that leaves the transport's block as it was keeps its router, with
// all it has counted and learned; one that changes the block makes a new router,
// which takes over the conversations of the one of the same name. Requests in
// flight go on in either case, for as long as Caddy's grace_period lets them.
package warmroutecaddy
