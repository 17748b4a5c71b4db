package warmroute

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// StatusClientClosedRequest is the status that [ErrorHandler] writes when the
// client is gone. Nobody receives it; it is for access logs, as in nginx.
const StatusClientClosedRequest = 499

// ErrorHandler answers a request that the transport failed, as the engine would
// have: with an OpenAI-shaped JSON error, or Anthropic's shape below
// /v1/messages. It has the signature of httputil.ReverseProxy's ErrorHandler.
//
//	[ErrNoReplica], [ErrClosed]  503 with Retry-After
//	[ErrOverloaded]              429 with Retry-After
//	[ErrUnknownModel]            404
//	[ErrClientRank]              400
//	*http.MaxBytesError          413
//	context.DeadlineExceeded     504
//	[ErrHeaderTimeout]           504
//	context.Canceled             499
//	anything else                502
func ErrorHandler(w http.ResponseWriter, req *http.Request, err error) {
	status, kind, message := describe(req, err)
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	var body any
	if strings.HasSuffix(req.URL.Path, "/v1/messages") || strings.Contains(req.URL.Path, "/v1/messages/") {
		type messageError struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		}
		body = struct {
			Type  string       `json:"type"`
			Error messageError `json:"error"`
		}{"error", messageError{kind, message}}
	} else {
		type openAIError struct {
			Message string  `json:"message"`
			Type    string  `json:"type"`
			Param   *string `json:"param"`
			Code    int     `json:"code"`
		}
		e := openAIError{Message: message, Type: kind, Code: status}
		if errors.Is(err, ErrUnknownModel) {
			param := "model"
			e.Param = &param
		}
		body = struct {
			Error openAIError `json:"error"`
		}{e}
	}
	encoded, encodeErr := json.Marshal(body)
	if encodeErr != nil {
		http.Error(w, message, status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encoded) // the client is gone if this fails
}

// describe keeps to itself what an error of the network says: addresses are
// the operator's business.
func describe(req *http.Request, err error) (status int, kind, message string) {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(req.Context().Err(), context.Canceled): // whatever cause it was given
		err = context.Canceled
	case errors.Is(req.Context().Err(), context.DeadlineExceeded):
		err = context.DeadlineExceeded
	}
	switch {
	case errors.Is(err, ErrNoReplica), errors.Is(err, ErrClosed):
		return http.StatusServiceUnavailable, "ServiceUnavailableError", "No replica is available for this request. Try again later."
	case errors.Is(err, ErrOverloaded):
		return http.StatusTooManyRequests, "RateLimitError", "Too many requests are waiting. Try again later."
	case errors.Is(err, ErrUnknownModel):
		return http.StatusNotFound, "NotFoundError", sentence(err)
	case errors.Is(err, ErrClientRank):
		return http.StatusBadRequest, "BadRequestError", sentence(err)
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, "BadRequestError", "The request body is too large."
	case errors.Is(err, context.Canceled):
		return StatusClientClosedRequest, "ClientClosedRequest", "The request was cancelled."
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrHeaderTimeout):
		return http.StatusGatewayTimeout, "GatewayTimeoutError", "The replica did not answer in time."
	}
	return http.StatusBadGateway, "BadGatewayError", "The replica could not be reached or broke off before it answered."
}

func sentence(err error) string {
	s := err.Error()
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
