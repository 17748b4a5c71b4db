// Package warmroute keeps each conversation on the replica that already holds
// its prefix cache, and moves it only when that replica is too busy or gone.
//
// An LLM agent sends its whole history again every turn. vLLM keeps the work on
// that prefix in a KV prefix cache, but only on the replica that did it, and
// every replica (an endpoint, or one data-parallel rank behind an endpoint) has
// a cache of its own. A [Router] gives a new conversation to the least loaded
// replica and sends the later turns there, by the session key that the client
// already puts into its requests.
//
//	router, err := warmroute.New([]warmroute.Endpoint{
//		{URL: "http://10.0.0.1:8000"},            // ranks are discovered
//		{URL: "http://10.0.0.2:8000", Ranks: 4},
//	})
//	if err != nil { ... }
//	defer router.Close()
//	go router.Run(ctx)
//	client := &http.Client{Transport: router.Transport(nil)}
//
// A program that does its own I/O uses [Router.Route] and [Lease.Done] instead
// of the transport.
//
// # What becomes of a request
//
// Every request has one [Outcome]: sticky (it went to its conversation's home),
// placed (the conversation is new, or its home is gone), spilled (the home was
// past the spill threshold and another replica had less to do), pinned (the
// client chose the rank itself) or unkeyed (no session key: placed by load).
//
// # What it never does
//
// It never changes a byte of a request's or response's body, never sends a
// request twice once a byte of it may have reached an engine, never makes an
// HTTP status into an error, and never reads the environment. It logs to the
// [log/slog.Logger] it is given and otherwise says nothing.
package warmroute
