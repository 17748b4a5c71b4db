// Package affinity remembers where conversations live: it finds the session
// key in a request, and keeps the table from key to home replica.
//
// It never chooses a replica and never reads from or writes to a network. A
// user's, request's or trace's id is never taken for a session key.
package affinity

import "net/http"

// MaxKeyLen is the longest session key, in bytes. A longer one counts as
// absent: no client is known to send one, and the table keeps its keys.
const MaxKeyLen = 512

// Key names a conversation. The zero Key names none.
type Key struct {
	// Session names what shares one growing prefix.
	Session string
	// Parent names the conversation that a sub-agent's was started from, empty
	// if none. It is a hint for the first placement only.
	Parent string
}

// Valid reports whether the key names a conversation: 1 to [MaxKeyLen] bytes.
func (k Key) Valid() bool { return k.Session != "" && len(k.Session) <= MaxKeyLen }

// Request is what a [KeyFunc] may look at.
type Request struct {
	Header http.Header
	field  func(path string) string
}

// NewRequest returns a Request with the given header. field finds the fields of
// its JSON body; nil stands for a request without.
func NewRequest(h http.Header, field func(path string) string) *Request {
	return &Request{Header: h, field: field}
}

// Field returns the string at a dotted path of one or two keys of the JSON body
// ("session_id", "metadata.user_id"), empty if there is none. The body is read
// when this is first called, up to the router's peek limit.
func (r *Request) Field(path string) string {
	if r.field == nil {
		return ""
	}
	return r.field(path)
}

// KeyFunc finds the session key in a request, or returns the zero Key. It must
// be safe for concurrent use and must not keep the request. Functions that
// look at headers only go first, since asking for the body makes it be read.
type KeyFunc func(*Request) Key

// First returns the first valid key that the functions find, in order.
func First(funcs ...KeyFunc) KeyFunc {
	return func(r *Request) Key {
		for _, f := range funcs {
			if k := f(r); k.Valid() {
				return k
			}
		}
		return Key{}
	}
}

// Header returns the value of a header as the key. The value is taken as it
// is: name a header that is one per conversation, not one per user or request.
func Header(name string) KeyFunc {
	name = http.CanonicalHeaderKey(name)
	return func(r *Request) Key { return Key{Session: headerValue(r.Header, name)} }
}

// JSONPath returns the string at a dotted path of one or two keys of the JSON
// body as the key.
func JSONPath(path string) KeyFunc {
	return func(r *Request) Key { return Key{Session: r.Field(path)} }
}

// headerValue is http.Header.Get for a canonical name, without its conversion.
func headerValue(h http.Header, canonical string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Default returns the keys that are looked for when nothing else is
// configured, in this order:
//
//  1. X-Claude-Code-Session-Id, with X-Claude-Code-Agent-Id ([ClaudeCodeHeader])
//  2. X-Session-Id
//  3. the session part of metadata.user_id in the body ([ClaudeCodeBody])
func Default() KeyFunc {
	return First(ClaudeCodeHeader, Header("X-Session-Id"), ClaudeCodeBody)
}
