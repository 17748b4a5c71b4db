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
	// Source says where Session was found, such as "header X-Session-Id" or
	// "body session_id"; empty if nobody said. It is no part of the name: it is
	// what a key that never returns is reported under.
	Source string
}

// Valid reports whether the key names a conversation: 1 to [MaxKeyLen] bytes.
func (k Key) Valid() bool { return k.Session != "" && len(k.Session) <= MaxKeyLen }

// Request is what a [KeyFunc] may look at.
type Request struct {
	Header http.Header
	field  func(path string) string
	body   func() []byte
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

// WithBody sets where [Request.Body] takes the body from, and returns r.
func (r *Request) WithBody(body func() []byte) *Request {
	r.body = body
	return r
}

// Body returns the JSON body, decompressed, or as much of it from its beginning
// as the router's peek limit lets through; nil if there is none or it cannot be
// read. It must neither be changed nor kept.
func (r *Request) Body() []byte {
	if r.body == nil {
		return nil
	}
	return r.body()
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
	source := "header " + name
	return func(r *Request) Key { return found(headerValue(r.Header, name), source) }
}

// JSONPath returns the string at a dotted path of one or two keys of the JSON
// body as the key.
func JSONPath(path string) KeyFunc {
	source := "body " + path
	return func(r *Request) Key { return found(r.Field(path), source) }
}

// Func returns what session returns as the key, empty if there is none. source
// names it in the router's statistics. session must be safe for concurrent use.
func Func(source string, session func(*Request) string) KeyFunc {
	return func(r *Request) Key { return found(session(r), source) }
}

// found is the key of a session that may be empty.
func found(session, source string) Key {
	if session == "" {
		return Key{}
	}
	return Key{Session: session, Source: source}
}

// withParent adds the parent, unless that is the conversation itself.
func (k Key) withParent(parent string) Key {
	if parent != k.Session {
		k.Parent = parent
	}
	return k
}

// headerValue is http.Header.Get for a canonical name, without its conversion.
func headerValue(h http.Header, canonical string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	return ""
}
