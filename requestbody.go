package warmroute

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"

	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/internal/askusage"
	"github.com/warmroute/warmroute/internal/peek"
)

// requestBody is what is sent as the body of a request: nil if it has none.
type requestBody struct {
	io.ReadCloser
	rewind *rewind // nil if the request has a GetBody, or not all of it was read
	// asked says that usage was asked for on the client's behalf: the body is
	// another, of this length.
	asked  bool
	length int64
}

// rewind gives a body again that was read as a whole, for as long as the
// request may have to be sent again because nothing of it was sent.
type rewind struct {
	mu   sync.Mutex
	body []byte
}

func (r *rewind) getBody() (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.body == nil {
		return nil, errors.New("warmroute: request body is no longer held")
	}
	return io.NopCloser(bytes.NewReader(r.body)), nil
}

// forget lets go of the body once there is an answer: it may be large and the
// answer's stream long.
func (b requestBody) forget() {
	if b.rewind != nil {
		b.rewind.mu.Lock()
		b.rewind.body = nil
		b.rewind.mu.Unlock()
	}
}

// inspection looks into one request. Its body is read only when it is asked
// for a field of it. It is reused, which is why a key function must not keep
// the request it is given.
type inspection struct {
	asked  *affinity.Request
	req    *http.Request
	limit  int64
	asking bool // a field was asked for
	gzip   bool // the body is compressed
	peeked
	// stillReading says that the request's context ended while its body was
	// read, which goes on.
	stillReading bool
}

// peeked is what was read of a body.
type peeked struct {
	fields *peek.Fields // nil if the body was not read
	head   []byte
	text   []byte // head decompressed, if it was not plain
	whole  bool   // head is all of the body
	early  bool   // the reading was stopped, since enough was known
	err    error  // the reading ended with that
}

// errStillReading is for RoundTrip alone.
var errStillReading = errors.New("warmroute: context ended while the request body was read")

var inspections = sync.Pool{New: func() any {
	in := new(inspection)
	in.asked = affinity.NewRequest(nil, in.String).WithBody(in.json)
	return in
}}

func (in *inspection) begin(req *http.Request, limit int64) { in.req, in.limit = req, limit }

func (in *inspection) release() {
	in.asked.Header = nil
	*in = inspection{asked: in.asked}
	inspections.Put(in)
}

// String returns a field of the body that is a string.
func (in *inspection) String(path string) string { return in.field(path, (*peek.Fields).String) }

// json returns the body decompressed, up to the limit; nil if it was not read.
func (in *inspection) json() []byte {
	in.String("")
	return in.soFar()
}

// soFar is as much of the body, decompressed, as was read for something else.
func (in *inspection) soFar() []byte {
	switch {
	case in.fields == nil || in.stillReading:
		return nil
	case in.gzip:
		return in.text
	}
	return in.head
}

// Int returns a field of the body that is a whole number, 0 if there is none.
func (in *inspection) Int(path string) int {
	n, _ := strconv.Atoi(in.field(path, (*peek.Fields).Raw)) // what the engine refuses, it refuses
	return n
}

func (in *inspection) field(path string, get func(*peek.Fields, string) string) string {
	if in.stillReading {
		return ""
	}
	if !in.asking {
		in.asking = true
		if !in.readable() {
			return ""
		}
		in.read(in.req.Body, stopAt(path))
	}
	if in.fields == nil {
		return ""
	}
	v := get(in.fields, path)
	if v == "" && in.early {
		// What was enough for the first field is not for this one.
		in.read(peek.Replay(in.head, in.req.Body), nil)
		v = get(in.fields, path)
	}
	return v
}

// read reads the body while the request's context lasts.
func (in *inspection) read(body io.ReadCloser, stop func(*peek.Fields) bool) {
	ctx, limit, size, packed := in.req.Context(), in.limit, in.req.ContentLength, in.gzip
	read := func() (p peeked) {
		if packed {
			p.fields, p.text, p.head, p.whole, p.err = peek.ReadGzip(body, limit, stop)
		} else {
			p.fields, p.head, p.whole, p.err = peek.ReadSized(body, size, limit, stop)
		}
		p.early = stop != nil && p.err == nil && !p.whole && !p.fields.Complete() && stop(p.fields)
		return p
	}
	if ctx.Done() == nil {
		in.peeked = read()
	} else {
		done := make(chan peeked, 1)
		go func() { done <- read() }()
		select {
		case in.peeked = <-done:
		case <-ctx.Done():
			in.stillReading = true
			// The body is the reader's until it is closed; closing may wait for
			// a read that is going on.
			go body.Close() //nolint:errcheck // nobody is left to tell
			in.peeked = peeked{fields: new(peek.Fields)}
			return
		}
	}
	in.whole = in.whole || int64(len(in.head)) == in.req.ContentLength
}

// stopAt ends the reading as soon as the model is known if only that is asked
// for: the engine's own decoder takes the last of several, but no client sends
// several.
func stopAt(path string) func(*peek.Fields) bool {
	if path != "model" {
		return nil
	}
	return func(f *peek.Fields) bool { return f.String("model") != "" }
}

// identity reports whether what a header belongs to is not compressed.
func identity(h http.Header) bool {
	e := h.Get("Content-Encoding")
	return e == "" || e == "identity"
}

// readable reports whether the body may hold JSON, as it is or compressed with
// gzip. zstd, which Codex may use, would take a dependency: such a body passes
// unread.
func (in *inspection) readable() bool {
	if in.req.Body == nil || in.req.Body == http.NoBody {
		return false
	}
	switch in.req.Header.Get("Content-Encoding") {
	case "", "identity":
	case "gzip", "x-gzip":
		in.gzip = true
	default:
		return false
	}
	ct := in.req.Header.Get("Content-Type")
	if ct == "" || ct == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(ct)
	return err != nil || media == "application/json"
}

// readAll reads the body to its end if the limit lets it, and reports whether
// it is there as a whole.
func (in *inspection) readAll() bool {
	if in.String(""); in.fields == nil || in.stillReading || in.err != nil || in.gzip {
		return false
	}
	if in.whole || !in.fields.Complete() && !in.early {
		return in.whole // or past the limit
	}
	in.read(peek.Replay(in.head, in.req.Body), nil)
	if in.whole || in.stillReading || in.err != nil {
		return in.whole
	}
	// The object has ended; whether the body has is known at its end.
	var next [1]byte
	n, err := in.req.Body.Read(next[:])
	in.head = append(in.head, next[:n]...)
	in.whole = n == 0 && err == io.EOF
	if err != nil && err != io.EOF {
		in.err = err
	}
	return in.whole
}

// body returns the request's body with what was read of it put back, and with a
// wish for usage if askUsage says so and the client has none.
func (in *inspection) body(askUsage bool) requestBody {
	if in.req.Body == nil || in.req.Body == http.NoBody {
		return requestBody{}
	}
	if askUsage && in.readAll() {
		if changed, ok := askusage.Ask(in.head); ok {
			return requestBody{
				ReadCloser: peek.Replay(changed, in.req.Body), rewind: &rewind{body: changed},
				asked: true, length: int64(len(changed)),
			}
		}
	}
	if in.fields == nil {
		return requestBody{ReadCloser: in.req.Body}
	}
	if in.err != nil { // the transport meets it where it was met here
		return requestBody{ReadCloser: peek.ReplayError(in.head, in.err, in.req.Body)}
	}
	body := requestBody{ReadCloser: peek.Replay(in.head, in.req.Body)}
	if in.whole && in.req.GetBody == nil {
		body.rewind = &rewind{body: in.head}
	}
	return body
}

var errBodyTaken = errors.New("warmroute: request body was given to another attempt")

// outgoingBody is the body of one attempt. As long as nothing has been read of
// it, it stays open for another: a transport closes the body of a request that
// it could not send.
type outgoingBody struct {
	inner  io.ReadCloser
	length int64 // Content-Length, 0 or less if not known

	mu      sync.Mutex // never held over a call of inner
	passed  int64      // bytes read of it
	waiting bool       // a read of it is going on
	faulty  bool       // reading it failed, or it has another length
	started bool       // something was read
	settled bool       // there is no other attempt
	closing bool       // Close was called before it was settled
	closed  bool
	taken   bool // it belongs to another attempt
}

func (b *outgoingBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	b.started = true
	taken := b.taken
	b.waiting = !taken
	b.mu.Unlock()
	if taken {
		return 0, errBodyTaken
	}
	n, err := b.inner.Read(p)
	b.mu.Lock()
	b.waiting = false
	b.passed += int64(n)
	whole := b.length > 0 && b.passed == b.length
	// The caller has declared another length, for which a transport fails.
	lie := b.length > 0 && (b.passed > b.length || err == io.EOF && b.passed < b.length)
	b.mu.Unlock()
	if whole && errors.Is(err, http.ErrBodyReadAfterClose) {
		// http.Transport reads once more after the last byte, to see that there
		// are no more. In a proxy the engine's answer may be on its way to the
		// client by then, for which http.Server closes the client's body. Taken
		// for a failure it would cut that answer off.
		err = io.EOF
	}
	if err != nil && err != io.EOF || lie {
		b.mu.Lock()
		b.faulty = true
		b.mu.Unlock()
	}
	return n, err
}

// broken reports whether the request failed because its body did.
func (b *outgoingBody) broken() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.faulty
}

// awaited reports whether a base that reads the body waits for more of it: for the
// caller, and not for the replica.
func (b *outgoingBody) awaited() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting && (b.length <= 0 || b.passed < b.length)
}

func (b *outgoingBody) Close() error {
	b.mu.Lock()
	if b.closed || b.taken {
		b.mu.Unlock()
		return nil
	}
	if !b.started && !b.settled {
		b.closing = true
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	b.mu.Unlock()
	return b.inner.Close()
}

// reusable reports whether another attempt can have the body, and takes it away
// from this one if so.
func (b *outgoingBody) reusable() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.started || b.closed {
		return false
	}
	b.taken = true
	return true
}

// finish says that this was the last attempt, and closes the body if that was
// asked for meanwhile or is wanted now.
func (b *outgoingBody) finish(force bool) {
	b.mu.Lock()
	b.settled = true
	now := b.inner != nil && !b.closed && !b.taken && (b.closing || force)
	b.closed = b.closed || now
	b.mu.Unlock()
	if now {
		_ = b.inner.Close() // the request has an answer or an error already
	}
}
