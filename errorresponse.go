package warmroute

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
)

// ErrorResponse is the answer that [ErrorHandler] gives to a request that could
// not be routed or sent, for programs without an http.ResponseWriter. Its body
// is held in memory.
func ErrorResponse(req *http.Request, err error) *http.Response {
	w := &heldResponse{header: http.Header{}}
	ErrorHandler(w, req, err)
	return &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: req,
	}
}

// heldResponse is an http.ResponseWriter in memory.
type heldResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *heldResponse) Header() http.Header { return w.header }

func (w *heldResponse) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *heldResponse) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
