package warmroute

import "context"

type sessionKey struct{}

// WithSession returns a context whose requests belong to the conversation of
// the given session key, whatever their headers and bodies say. An empty key
// makes them unkeyed: they are placed by load, and neither headers nor body
// are looked at.
func WithSession(ctx context.Context, session string) context.Context {
	return context.WithValue(ctx, sessionKey{}, session)
}

func contextSession(ctx context.Context) (string, bool) {
	s, ok := ctx.Value(sessionKey{}).(string)
	return s, ok
}
