package fakevllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
)

// sse writes a stream of server-sent events, each flushed at once. After the
// first error it writes no more.
type sse struct {
	w   http.ResponseWriter
	ctl *http.ResponseController
	buf bytes.Buffer
	enc *json.Encoder
	err error
}

// newSSE sends the headers, which vLLM's server does before the engine has
// seen the request.
func newSSE(w http.ResponseWriter) *sse {
	out := &sse{w: w, ctl: http.NewResponseController(w)}
	out.enc = json.NewEncoder(&out.buf)
	out.enc.SetEscapeHTML(false)
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	out.flush()
	return out
}

// data writes an event without a name.
func (o *sse) data(v any) { o.event("", v) }

// event writes an event with a JSON payload.
func (o *sse) event(name string, v any) {
	o.buf.Reset()
	if name != "" {
		o.buf.WriteString("event: " + name + "\n")
	}
	o.buf.WriteString("data: ")
	if err := o.enc.Encode(v); err != nil && o.err == nil {
		o.err = err
	}
	o.buf.WriteByte('\n') // Encode has ended the data line.
	o.send()
}

// done writes the mark that ends the streams of the older OpenAI APIs.
func (o *sse) done() {
	o.buf.Reset()
	o.buf.WriteString("data: [DONE]\n\n")
	o.send()
}

func (o *sse) send() {
	if o.err != nil {
		return
	}
	if _, o.err = o.w.Write(o.buf.Bytes()); o.err == nil {
		o.flush()
	}
}

// flush is best effort: a writer that cannot flush delivers later.
func (o *sse) flush() {
	if err := o.ctl.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		o.err = err
	}
}
