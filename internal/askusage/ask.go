package askusage

import "github.com/warmroute/warmroute/internal/jsonscan"

// Ask returns the body of a chat or text completions request that asks for
// usage in the stream (stream_options.include_usage). ok is false, and body is
// returned unchanged, if the request does not stream, asks already, or is not
// a JSON object that is understood.
//
// Only what asks is put in, or put in the place of the null or false that
// stood there; the result is a new slice, and body is not written to. Of
// several members with one key the last counts, as in Python's decoder. White
// space may follow the object, anything else may not.
//
// A request is not understood, although vLLM may take it, if stream is not
// the literal true (vLLM takes 1 and "true" for it), or include_usage not a
// literal. One with continuous_usage_stats is left alone too, unless that is
// false or null: as soon as include_usage is on, vLLM puts a usage into every
// chunk, which the client did not see before.
func Ask(body []byte) (changed []byte, ok bool) {
	r := request{body: body}
	if !r.read() || !r.stream {
		return body, false
	}
	from, to, text, ok := r.edit()
	if !ok {
		return body, false
	}
	changed = make([]byte, 0, len(body)-(to-from)+len(text))
	changed = append(changed, body[:from]...)
	changed = append(changed, text...)
	return append(changed, body[to:]...), true
}

// request is what Ask has to know of a request. An offset is one in body.
type request struct {
	body      []byte
	stream    bool
	streamEnd int // after the value of stream
	options   member
	usage     member // options.include_usage
	perChunk  bool   // options.continuous_usage_stats is on, or may be
}

// member is the last one with its key.
type member struct {
	found bool
	kind  jsonscan.Kind
	on    bool // it is true
	end   int  // after the value, or after the brace that opens it
}

// read reads the body and reports whether it is one JSON object.
func (r *request) read() bool {
	var s jsonscan.Scanner
	for at := 0; ; {
		n, token := s.Next(r.body[at:])
		at += n
		switch token {
		case jsonscan.Member:
			r.member(&s, at)
		case jsonscan.End:
			return skipSpace(r.body, at) == len(r.body)
		default:
			return false
		}
	}
}

// member takes the member s has just reported, whose value ends at end.
func (r *request) member(s *jsonscan.Scanner, end int) {
	value, _ := s.Value()
	m := member{
		found: true,
		kind:  s.Kind(),
		on:    s.Kind() == jsonscan.Bool && string(value) == "true",
		end:   end,
	}
	if s.Depth() == 1 {
		switch string(s.Key(0)) {
		case "stream":
			r.stream, r.streamEnd = m.on, end
		case "stream_options":
			r.options, r.usage, r.perChunk = m, member{}, false
			if m.kind == jsonscan.Object {
				s.Descend()
			}
		}
		return
	}
	// Nothing but stream_options is descended into, and no further.
	switch string(s.Key(1)) {
	case "include_usage":
		r.usage = m
	case "continuous_usage_stats":
		r.perChunk = m.kind != jsonscan.Null && (m.kind != jsonscan.Bool || m.on)
	}
}

// edit is what to put in the place of body[from:to]. It is not ok if the
// request asks already, or might.
func (r *request) edit() (from, to int, text string, ok bool) {
	const (
		null    = "null"
		no      = "false"
		ask     = `"include_usage":true`
		options = `{` + ask + `}`
	)
	switch o, u := r.options, r.usage; {
	case !o.found:
		return r.streamEnd, r.streamEnd, `,"stream_options":` + options, true
	case o.kind == jsonscan.Null:
		return o.end - len(null), o.end, options, true
	case o.kind != jsonscan.Object || r.perChunk:
		return 0, 0, "", false
	case !u.found:
		if r.body[skipSpace(r.body, o.end)] == '}' {
			return o.end, o.end, ask, true
		}
		return o.end, o.end, ask + `,`, true
	case u.kind == jsonscan.Null:
		return u.end - len(null), u.end, "true", true
	case u.kind == jsonscan.Bool && !u.on:
		return u.end - len(no), u.end, "true", true
	}
	return 0, 0, "", false
}

// skipSpace is the index of the first byte of b from i on that is no white
// space of JSON, or len(b).
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}
