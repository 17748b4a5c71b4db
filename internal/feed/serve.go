package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// retry is how long a browser is told to wait before it comes again.
const retry = 2 * time.Second

// busyRetry is the Retry-After of a viewer that was refused, in seconds.
const busyRetry = "10"

// ServeHTTP sends snapshots until the viewer leaves, the round is interrupted
// or the feed is closed. A HEAD is answered with the headers alone.
func (f *Feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodHead {
		header.Set("Content-Type", "text/event-stream")
		return
	}
	round, err := f.join()
	if err != nil {
		header.Set("Retry-After", busyRetry)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer f.leave(round)
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // nginx would hold events back
	v := viewer{f, w, http.NewResponseController(w)}
	switch err := v.controller.Flush(); {
	case errors.Is(err, http.ErrNotSupported):
		http.Error(w, "what wraps the server's ResponseWriter cannot stream", http.StatusInternalServerError)
		return
	case err != nil:
		return // the viewer is gone
	}
	if v.send([]byte("retry: "+strconv.FormatInt(retry.Milliseconds(), 10)+"\n\n")) != nil {
		return
	}
	for latest := round.latest.Load(); ; latest = round.latest.Load() {
		if len(latest.text) > 0 && v.send(latest.text) != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-round.over:
			return
		case <-latest.next:
		}
	}
}

type viewer struct {
	feed       *Feed
	w          http.ResponseWriter
	controller *http.ResponseController
}

// send moves the deadline, also one that the server set for whole responses.
func (v viewer) send(text []byte) error {
	err := v.controller.SetWriteDeadline(time.Now().Add(v.feed.cfg.WriteTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := v.w.Write(text); err != nil {
		return err
	}
	return v.controller.Flush()
}

// format is the snapshot, or why there is none, as an event.
func format(snapshot []byte, err error) []byte {
	var b bytes.Buffer
	if err == nil && bytes.ContainsAny(snapshot, "\r\n") {
		err = errors.New("the snapshot has several lines")
	}
	if err != nil {
		b.WriteString("event: failure\n")
		snapshot, err = json.Marshal(err.Error())
		if err != nil { // a string can always be encoded
			snapshot = []byte(`""`)
		}
	}
	b.WriteString("data: ")
	b.Write(snapshot)
	b.WriteString("\n\n")
	return b.Bytes()
}
