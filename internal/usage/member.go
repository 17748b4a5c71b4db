package usage

import "github.com/warmroute/warmroute/internal/jsonscan"

// maxDigits bounds a token count. A longer number is none, and three that are
// not cannot overflow when they are added.
const maxDigits = 15

// count is a number of tokens that may be absent.
type count struct {
	n     int64
	known bool
}

// counts are the fields of the usage objects read so far.
type counts struct {
	prompt        count // prompt_tokens
	promptCached  count // prompt_tokens_details.cached_tokens
	completion    count // completion_tokens
	input         count // input_tokens
	inputCached   count // input_tokens_details.cached_tokens
	cacheRead     count // cache_read_input_tokens
	cacheCreation count // cache_creation_input_tokens
	output        count // output_tokens
}

// usage puts the fields together. The input_tokens of the messages API leave
// out what was read from or written to the cache, as soon as the response says
// how much that was; the other APIs count the whole prompt.
func (c *counts) usage() Usage {
	prompt, cached, completion := c.prompt, c.promptCached, c.completion
	if !prompt.known {
		prompt, cached = c.input, c.inputCached
		if !cached.known {
			cached = c.cacheRead
			if prompt.known {
				prompt.n += c.cacheRead.n + c.cacheCreation.n
			}
		}
	}
	if !completion.known {
		completion = c.output
	}
	u := Usage{
		Prompt:     prompt.n,
		Completion: completion.n,
		Known:      prompt.known || completion.known,
		Measured:   prompt.known && cached.known,
	}
	if u.Measured {
		u.Cached = min(cached.n, prompt.n)
	}
	return u
}

// field is where the usage member called key is kept, or nil.
func (c *counts) field(key []byte) *count {
	switch string(key) {
	case "prompt_tokens":
		return &c.prompt
	case "completion_tokens":
		return &c.completion
	case "input_tokens":
		return &c.input
	case "output_tokens":
		return &c.output
	case "cache_read_input_tokens":
		return &c.cacheRead
	case "cache_creation_input_tokens":
		return &c.cacheCreation
	}
	return nil
}

// details is where cached_tokens of the member of a usage called key is kept,
// or nil.
func (c *counts) details(key []byte) *count {
	switch string(key) {
	case "prompt_tokens_details":
		return &c.promptCached
	case "input_tokens_details":
		return &c.inputCached
	}
	return nil
}

// set takes a value, unless it is no number of tokens: null, negative, a
// fraction or too large.
func (c *count) set(s *jsonscan.Scanner) {
	text, ok := s.Value()
	if c == nil || !ok || s.Kind() != jsonscan.Number || len(text) > maxDigits {
		return
	}
	var n int64
	for _, digit := range text {
		if digit < '0' || digit > '9' {
			return
		}
		n = n*10 + int64(digit-'0')
	}
	*c = count{n, true}
}

// member takes the member the scanner has just reported.
func (r *Reader) member() {
	s := &r.scan
	depth := s.Depth()
	if depth == 1 {
		r.topMember()
		return
	}
	switch root := s.Key(0); string(root) {
	case "usage":
		r.usageMember(1)
	case "error":
		if depth == 2 {
			r.errorMember(s.Key(1))
		}
	case "choices": // an array of objects
		if depth == 2 && s.Kind() == jsonscan.Object {
			s.Descend()
		}
		if depth == 3 && string(s.Key(2)) == "finish_reason" && is(s, "abort") {
			r.failed, r.fault.Aborted = true, true
		}
	case "response", "message":
		if depth > 2 {
			if string(s.Key(1)) == "usage" {
				r.usageMember(2)
			} else if depth == 3 {
				r.errorMember(s.Key(2))
			}
			return
		}
		switch key := s.Key(1); {
		case string(key) == "usage":
			descend(s)
		case string(root) == "response":
			r.ending(key)
		}
	}
}

// topMember takes a member of the outermost object.
func (r *Reader) topMember() {
	s := &r.scan
	switch key := s.Key(0); string(key) {
	case "usage":
		descend(s)
	case "choices":
		if s.Kind() == jsonscan.Array {
			s.Descend()
		}
	case "response", "message":
		if r.format == formatSSE && descend(s) && string(key) == "response" {
			r.event.response = true
		}
	case "type":
		r.event.typed = endNone
		if value, ok := s.Value(); ok && s.Kind() == jsonscan.String {
			r.event.typed = endOf(string(value))
			r.failed = r.failed || string(value) == "error"
		}
	case "object":
		// The errors of vLLM up to 0.10.0 are flat.
		if is(s, "error") {
			r.failed, r.flat = true, true
		}
	case "code":
		r.topCode = status(s)
	case "error":
		r.ending(key)
	case "status":
		// No event has one here, see isLoud.
		if r.format == formatJSON {
			r.ending(key)
		}
	}
}

// ending takes a member that may tell how a response ended: of the outermost
// object, or of the response in an event.
func (r *Reader) ending(key []byte) {
	switch string(key) {
	case "error":
		if r.scan.Kind() != jsonscan.Null {
			r.failed = true
			descend(&r.scan)
		}
	case "status":
		switch {
		case is(&r.scan, "failed"):
			r.failed = true
		case is(&r.scan, "cancelled"):
			r.failed, r.fault.Aborted = true, true
		}
	}
}

// usageMember takes a member of a usage object whose members are at the given
// depth of keys, or of one of its details.
func (r *Reader) usageMember(depth int) {
	s := &r.scan
	key := s.Key(depth)
	switch s.Depth() - depth {
	case 1:
		if s.Kind() == jsonscan.Object && r.counts.details(key) != nil {
			s.Descend()
			return
		}
		r.counts.field(key).set(s)
	case 2:
		if string(s.Key(depth+1)) == "cached_tokens" {
			r.counts.details(key).set(s)
		}
	}
}

// descend goes into the member just reported if it is an object.
func descend(s *jsonscan.Scanner) bool {
	return s.Kind() == jsonscan.Object && s.Descend()
}

// is reports whether the member just reported is the string text.
func is(s *jsonscan.Scanner, text string) bool {
	value, ok := s.Value()
	return ok && s.Kind() == jsonscan.String && string(value) == text
}
