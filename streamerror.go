package warmroute

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/internal/usage"
)

// StreamErrorKind says how an answer failed that had begun as a good one.
type StreamErrorKind string

// The kinds of a [StreamError].
const (
	// StreamErrorEvent is an error that the engine reported inside its answer, but
	// for one that is the client's fault.
	StreamErrorEvent StreamErrorKind = "error event"
	// StreamAborted is an answer that the engine gave up: its finish reason is
	// "abort". vLLM answers so, with status 200 and no tokens, to what it gets while
	// it shuts down.
	StreamAborted StreamErrorKind = "aborted"
	// StreamTruncated is an answer that ended without its end mark: [DONE],
	// message_stop or response.completed in a stream, else the end of the object.
	StreamTruncated StreamErrorKind = "truncated"
	// StreamForeign is an HTML page where an answer should be: something else
	// listens there.
	StreamForeign StreamErrorKind = "not an answer"
)

// StreamError is the failure in [Result].Err of an answer that had begun with a
// status of 200. The client has got every byte of it.
type StreamError struct {
	Kind StreamErrorKind
	// Code and Type are the error's, as far as the engine said; at most 64 bytes of
	// the type.
	Code int
	Type string
}

// Error says what is known.
func (e *StreamError) Error() string {
	s := "answer failed after it had begun: " + string(e.Kind)
	if e.Code != 0 {
		s += " " + strconv.Itoa(e.Code)
	}
	if e.Type != "" {
		s += " " + strconv.Quote(e.Type)
	}
	return s
}

func streamError(f usage.Fault) *StreamError {
	kind := StreamErrorEvent
	if f.Aborted {
		kind = StreamAborted
	}
	return &StreamError{Kind: kind, Code: f.Code, Type: f.Type}
}

// statusResult is what the status of an answer says, for a Result.
func statusResult(req *http.Request, resp *http.Response) (r Result) {
	r.StatusCode = resp.StatusCode
	code := resp.StatusCode
	post := req.Method == http.MethodPost
	switch {
	case code >= http.StatusInternalServerError:
		r.Err = fmt.Errorf("status %d", code)
		switch code {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			r.Endpoint = true
		case http.StatusNotImplemented:
			r.signal = signalNone // by the model
		case http.StatusInternalServerError:
			if apiOf(req.URL.Path) == "/v1/messages" {
				r.signal = signalPossible
			}
		}
	case code >= http.StatusMultipleChoices || code == http.StatusSwitchingProtocols || !post:
		r.signal = signalNone
	case isForeign(req, resp):
		r.Err = &StreamError{Kind: StreamForeign}
	}
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		r.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	}
	return r
}

// isForeign reports whether a page came where an answer should be.
func isForeign(req *http.Request, resp *http.Response) bool {
	return req.Method == http.MethodPost && resp.StatusCode < http.StatusMultipleChoices && apiOf(req.URL.Path) != "" &&
		strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/html")
}

// retryAfter is a Retry-After header's time from now: seconds or a date (RFC 9110,
// 10.2.3). It is 0 if there is none that can be read.
func retryAfter(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
