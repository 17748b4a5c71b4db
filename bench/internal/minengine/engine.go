// Package minengine is the least that a gateway takes for a vLLM server: it
// answers chat completions with words that it has ready, at a pace that is
// given, and counts them on its metrics page. It costs next to nothing, so that
// what is measured through a gateway is the gateway.
package minengine

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Engine is an http.Handler. Its fields must not change while it is in use.
type Engine struct {
	// Chunks is the number of content chunks of a stream. Default 4.
	Chunks int
	// Interval is the time from one chunk to the next. Default none.
	Interval time.Duration
	// FailEvery has each request of that number be answered with a 500. Default
	// none.
	FailEvery int

	requests   atomic.Int64
	prompt     atomic.Int64
	generation atomic.Int64
	running    atomic.Int64
}

// promptTokens is what every prompt is said to have, half of it cached.
const promptTokens = 64

const contentStart = `data: {"choices":[{"index":0,"delta":{"content":"`

// Stamp finds the time at which a chunk was written, in Unix nanoseconds. It
// returns false for a line that is not a content chunk.
func Stamp(line []byte) (int64, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(contentStart))
	if !ok {
		return 0, false
	}
	digits, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(string(digits), 10, 64)
	return n, err == nil
}

// ServeHTTP implements [http.Handler].
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/chat/completions":
		e.complete(w, r)
	case "/metrics":
		w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
		fmt.Fprintf(w, "vllm:num_requests_running{engine=\"0\"} %d\nvllm:num_requests_waiting{engine=\"0\"} 0\n"+
			"vllm:prompt_tokens_total{engine=\"0\"} %d\nvllm:generation_tokens_total{engine=\"0\"} %d\n"+
			"vllm:prefix_cache_queries_total{engine=\"0\"} %[2]d\nvllm:prefix_cache_hits_total{engine=\"0\"} %d\n",
			e.running.Load(), e.prompt.Load(), e.generation.Load(), e.prompt.Load()/2)
	default:
		http.NotFound(w, r)
	}
}

func (e *Engine) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n := e.requests.Add(1)
	if e.FailEvery > 0 && n%int64(e.FailEvery) == 0 {
		http.Error(w, `{"error":{"message":"as asked","type":"InternalServerError","param":null,"code":500}}`, http.StatusInternalServerError)
		return
	}
	e.running.Add(1)
	defer e.running.Add(-1)
	chunks := e.Chunks
	if chunks == 0 {
		chunks = 4
	}
	e.prompt.Add(promptTokens)
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`,
		promptTokens, promptTokens+chunks, chunks, promptTokens/2)
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		e.generation.Add(int64(chunks))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"words"},"finish_reason":"length"}],%s}`, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	ctl := http.NewResponseController(w)
	chunk := make([]byte, 0, 128)
	for i := range chunks {
		if i > 0 && e.Interval > 0 {
			timer := time.NewTimer(e.Interval)
			select {
			case <-timer.C:
			case <-r.Context().Done():
				timer.Stop()
				return
			}
		}
		chunk = append(chunk[:0], contentStart...)
		chunk = strconv.AppendInt(chunk, time.Now().UnixNano(), 10)
		chunk = append(chunk, "\"},\"finish_reason\":null}]}\n\n"...)
		if _, err := w.Write(chunk); err != nil {
			return // the client is gone
		}
		if err := ctl.Flush(); err != nil {
			return
		}
		e.generation.Add(1)
	}
	_, _ = fmt.Fprintf(w, "data: {\"choices\":[],%s}\n\ndata: [DONE]\n\n", usage) // nobody is left to tell
}
