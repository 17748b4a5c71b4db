// Package usage reads the token counts out of a response while its bytes pass
// by, from a JSON body or a stream of server-sent events, in the forms of the
// chat completions, completions, responses and messages APIs.
//
// It never changes, holds back or keeps the bytes, never decodes the generated
// text, and takes only what stands where an engine puts its usage: the same
// text inside a message or a tool call is not read.
package usage

import (
	"strings"

	"github.com/warmroute/warmroute/internal/jsonscan"
)

// Usage is what the engine counted for one request, in tokens.
type Usage struct {
	Prompt     int64 // the whole prompt, Cached included
	Cached     int64 // prompt tokens from the prefix cache, at most Prompt
	Completion int64
	// Known says that the response carried a usage at all.
	Known bool
	// Measured says that it carried a count of cached tokens for its prompt.
	// vLLM sends none without --enable-prompt-tokens-details, and before
	// 0.24.0 none instead of 0, so not measured is not 0.
	Measured bool
}

// format is how a response is to be read.
type format uint8

const (
	formatNone format = iota
	formatJSON
	formatSSE
)

// Reader reads the usage of one response, as the engine wrote it: of a body
// with a Content-Encoding it makes nothing. The zero value reads nothing;
// Reset makes it ready for a response. It must not be copied after first use,
// nor used by two goroutines at once.
type Reader struct {
	format   format
	finished bool
	failed   bool
	fault    Fault
	flat     bool // the error is the object itself
	topCode  int  // its code then
	counts   counts
	event    event
	lines    lines
	scan     jsonscan.Scanner
}

// Reset makes r ready for another response by its Content-Type:
// text/event-stream, or application/json, with any parameters. Of another
// type it reads nothing.
func (r *Reader) Reset(contentType string) {
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = strings.TrimSpace(mediaType)
	r.format, r.finished, r.failed = formatNone, false, false
	r.fault, r.flat, r.topCode = Fault{}, false, 0
	switch {
	case strings.EqualFold(mediaType, "application/json"):
		r.format = formatJSON
	case strings.EqualFold(mediaType, "text/event-stream"):
		r.format = formatSSE
	}
	r.counts, r.event, r.lines = counts{}, event{}, lines{}
	r.scan.Reset(0)
}

// Write reads the next piece of the body, of any size. It does not keep p.
func (r *Reader) Write(p []byte) {
	switch r.format {
	case formatJSON:
		r.object(p)
	case formatSSE:
		r.stream(p)
	}
}

// Usage returns what has been read so far. Of several usages in a stream the
// last one counts, field by field.
func (r *Reader) Usage() Usage { return r.counts.usage() }

// Finished reports whether the end mark of the response was read: [DONE], a
// message_stop, response.completed, response.incomplete or response.failed
// event, or the end of the JSON object.
func (r *Reader) Finished() bool { return r.finished }

// Failed reports whether the engine said in the response itself that it
// failed: an error object or event, or a generation it aborted, which is
// finish_reason "abort" and in the responses API the status "failed" or
// "cancelled". vLLM answers 200 with "abort" while it shuts down. The messages
// API has no such mark.
func (r *Reader) Failed() bool { return r.failed }

// object reads the next piece of a JSON object.
func (r *Reader) object(p []byte) {
	for {
		n, token := r.scan.Next(p)
		p = p[n:]
		switch token {
		case jsonscan.Member:
			r.member()
			continue
		case jsonscan.End:
			if r.format == formatJSON {
				r.finished = true
			} else {
				r.endData()
			}
		}
		return
	}
}
