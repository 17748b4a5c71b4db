package fakevllm

import (
	"fmt"
	"net/http"
)

// apiError is a refusal in vLLM's words. Every client sees the same status
// and text for the same cause, in the shape of the endpoint it called.
type apiError struct {
	status  int
	kind    string
	message string
	param   string // "" is null

	// framework marks what FastAPI refuses before vLLM sees it: the shape is
	// the same on every endpoint.
	framework bool
}

// invalid refuses a body that does not fit the request's schema.
func invalid(field, message string) *apiError {
	param := field
	if field != "" && field != "body" {
		param = "body." + field
	}
	return &apiError{
		status: http.StatusBadRequest, kind: "Bad Request",
		message: "1 validation error:\n  " + message, param: param, framework: true,
	}
}

// bad refuses a request that fits the schema and cannot be served.
func bad(param, format string, args ...any) *apiError {
	return &apiError{
		status: http.StatusBadRequest, kind: "BadRequestError",
		message: fmt.Sprintf(format, args...), param: param,
	}
}

func unknownModel(model string) *apiError {
	return &apiError{
		status: http.StatusNotFound, kind: "NotFoundError",
		message: fmt.Sprintf("The model `%s` does not exist.", model), param: "model",
	}
}

func unknownResponse(id string) *apiError {
	return &apiError{
		status: http.StatusNotFound, kind: "invalid_request_error",
		message: fmt.Sprintf("Response with id '%s' not found.", id), param: "response_id",
	}
}

func engineDead() *apiError {
	return &apiError{
		status: http.StatusInternalServerError, kind: "InternalServerError",
		message: "EngineCore encountered an issue. See stack trace (above) for the root cause.",
	}
}

// openaiError is the error body of every endpoint but /v1/messages.
type openaiError struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	} `json:"error"`
}

func (e *apiError) openai() openaiError {
	var body openaiError
	body.Error.Message, body.Error.Type, body.Error.Code = e.message, e.kind, e.status
	if e.param != "" {
		body.Error.Param = &e.param
	}
	return body
}

// anthropicError is the error body of /v1/messages.
type anthropicError struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// anthropic returns the body and the status. In vLLM 0.26 everything but an
// unknown model reaches /v1/messages as an exception, so what is status 400
// elsewhere is 500 there.
func (e *apiError) anthropic() (anthropicError, int) {
	body := anthropicError{Type: "error"}
	body.Error.Type, body.Error.Message = e.kind, e.message
	if e.status == http.StatusNotFound {
		return body, e.status
	}
	body.Error.Type = "internal_error"
	return body, http.StatusInternalServerError
}

// refuse answers with an error alone.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, e *apiError) {
	if r.URL.Path == messagesPath && !e.framework {
		body, status := e.anthropic()
		writeJSON(w, status, body)
		return
	}
	writeJSON(w, e.status, e.openai())
}
