package usage

import (
	"strconv"
	"strings"

	"github.com/warmroute/warmroute/internal/jsonscan"
)

// Fault is what a response that failed says of why.
type Fault struct {
	// Aborted says that the engine gave the generation up; otherwise there was an
	// error.
	Aborted bool
	// Code is the error's code, an HTTP status; 0 if it has none.
	Code int
	// Type is the error's type, such as "BadRequestError", or the code that is no
	// number; "" if it has neither. At most maxType bytes of it.
	Type string
}

const maxType = 64

// Client reports whether the error is the client's fault: of a 4xx, whatever the
// status of the response was. vLLM (0.16) checks some of a request, such as its
// rank, only when the stream has begun.
func (f Fault) Client() bool {
	if f.Code != 0 {
		return f.Code >= 400 && f.Code < 500
	}
	if f.Aborted {
		return false
	}
	switch f.Type {
	case "invalid_request_error", "authentication_error", "permission_error", "not_found_error",
		"request_too_large", "rate_limit_error", "invalid_prompt", // Anthropic's and OpenAI's
		"BadRequestError", "NotFoundError", "UnprocessableEntityError": // vLLM's
		return true
	}
	return false
}

// Fault returns what is known of a failure. It is the zero Fault unless
// [Reader.Failed] reports true.
func (r *Reader) Fault() Fault {
	if !r.failed {
		return Fault{}
	}
	f := r.fault
	if f.Code == 0 && r.flat {
		f.Code = r.topCode
	}
	return f
}

// errorMember takes a member of an error object.
func (r *Reader) errorMember(key []byte) {
	switch string(key) {
	case "code":
		if code := status(&r.scan); code != 0 {
			r.fault.Code = code
			return
		}
		if r.fault.Type == "" {
			r.fault.Type = text(&r.scan)
		}
	case "type":
		if t := text(&r.scan); t != "" {
			r.fault.Type = t
		}
	}
}

// status is the member just reported if it is an HTTP status, as a number or in
// quotes, else 0.
func status(s *jsonscan.Scanner) int {
	value, ok := s.Value()
	if !ok || len(value) != 3 || s.Kind() != jsonscan.Number && s.Kind() != jsonscan.String {
		return 0
	}
	n, err := strconv.Atoi(string(value))
	if err != nil || n < 100 {
		return 0
	}
	return n
}

// text is the member just reported if it is a string.
func text(s *jsonscan.Scanner) string {
	value, ok := s.Value()
	if !ok || s.Kind() != jsonscan.String {
		return ""
	}
	return strings.ToValidUTF8(string(value[:min(len(value), maxType)]), "")
}
