package warmroute

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warmroute/warmroute/internal/askusage"
	"github.com/warmroute/warmroute/internal/usage"
)

// wrap makes b the response's body, which ends the lease.
// said is what its status has said already.
func (b *responseBody) wrap(req *http.Request, resp *http.Response, lease Lease, start time.Time, said Result, guard *guard) {
	said.NoTokens = req.Method != http.MethodPost || resp.StatusCode >= http.StatusBadRequest ||
		resp.StatusCode == http.StatusSwitchingProtocols || apiOf(req.URL.Path) == "" || said.Err != nil
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	if resp.Body == http.NoBody {
		guard.end()
		lease.Done(said)
		return
	}
	b.inner, b.lease, b.start, b.ctx, b.guard = resp.Body, lease, start, req.Context(), guard
	b.said, b.api = said, apiOf(req.URL.Path)
	if !said.NoTokens && identity(resp.Header) {
		contentType := resp.Header.Get("Content-Type")
		b.usage.Reset(contentType)
		if b.chained = lease.pool.router.chains(req, b.api); b.chained {
			b.usage.WatchResponseID()
		}
		b.stream = strings.HasPrefix(contentType, "text/event-stream")
		b.ends = b.stream || isJSON(contentType)
	}
	if idle := lease.pool.router.cfg.idleTimeout; idle > 0 && resp.StatusCode != http.StatusSwitchingProtocols {
		b.inner = newIdleBody(b.inner, idle, guard.cancel)
	}
	if b.strip = b.strip && b.stream && identity(resp.Header); b.strip {
		b.inner = askusage.NewStrip(b.inner, b.see)
		resp.ContentLength = -1
		resp.Header.Del("Content-Length")
	}
	resp.Body = b
	if resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = b.upgraded()
	}
	if b.ctx.Done() != nil {
		// A caller may drop a stream without reading or closing it
		// (vllm-project/router#215: each such one leaked a count).
		b.mu.Lock()
		b.stop = context.AfterFunc(b.ctx, b.abandoned)
		b.mu.Unlock()
	}
}

// responseBody passes a body's bytes through as they come, reads the usage out
// of them, and ends the lease once.
type responseBody struct {
	inner   io.ReadCloser
	lease   Lease
	start   time.Time
	ctx     context.Context
	guard   *guard // nil: no timeouts
	said    Result // by the status, and by what broke
	api     string
	stream  bool
	ends    bool // the answer has an end mark
	strip   bool // the usage was asked for on the client's behalf
	chained bool // the response's id is looked for

	mu        sync.Mutex // never held over a call of inner
	done      bool
	firstByte time.Duration
	comment   bool // the stream stands in a comment
	usage     usage.Reader
	stop      func() bool
}

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	if n > 0 || err != nil {
		b.passed(p[:n], err)
	}
	return n, err
}

func (b *responseBody) passed(p []byte, err error) {
	if err != nil {
		defer b.guard.end()
	}
	b.mu.Lock()
	if b.done {
		b.mu.Unlock()
		return
	}
	began := false
	if len(p) > 0 {
		if b.firstByte == 0 && b.stream && b.begun(p) {
			b.firstByte = time.Since(b.start)
			b.lease.prefilled()
			began = true
		}
		if !b.strip {
			b.usage.Write(p)
		}
		if b.chained {
			b.produced()
		}
	}
	if err == nil && b.stream && b.usage.Finished() {
		b.finish(true) // clients stop at the end mark, and not all of them close
		return
	}
	if err == nil {
		b.mu.Unlock()
		if began {
			b.lease.proved()
		}
		return
	}
	if b.said.Err == nil && b.ctx.Err() == nil {
		switch {
		case err != io.EOF:
			b.said.Err = err
		case b.ends && !b.usage.Finished() && !b.usage.Failed():
			b.said.Err = &StreamError{Kind: StreamTruncated}
		}
	}
	b.finish(err == io.EOF)
}

// begun reports whether a piece of a stream has something of the answer in it.
func (b *responseBody) begun(p []byte) bool {
	if b.api == "/v1/responses" {
		return generated(p)
	}
	return b.beyondComments(p)
}

// beyondComments reports whether a piece of a stream has more than comments and
// empty lines. vLLM (0.29, --sse-keep-alive-interval) sends comments while a
// request waits for its engine. All pieces before have had nothing else.
func (b *responseBody) beyondComments(p []byte) bool {
	for len(p) > 0 {
		switch {
		case b.comment:
			end := bytes.IndexAny(p, "\r\n")
			if end < 0 {
				return false
			}
			b.comment, p = false, p[end+1:]
		case p[0] == ':':
			b.comment, p = true, p[1:]
		case p[0] == '\r' || p[0] == '\n':
			p = p[1:]
		default:
			return true
		}
	}
	return false
}

// generated reports whether a piece of a stream of /v1/responses has something
// of the answer in it. vLLM sends response.created and response.in_progress
// before its engine has seen the request.
func generated(p []byte) bool {
	for _, event := range [...]string{"response.output", "response.content", "response.reasoning", "response.completed", ".delta"} {
		if bytes.Contains(p, []byte(event)) {
			return true
		}
	}
	return false
}

// see reads the usage of what is on its way to be stripped.
func (b *responseBody) see(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.done {
		b.usage.Write(p)
	}
}

// Close releases before it closes the inner body, which may block.
func (b *responseBody) Close() error {
	b.mu.Lock()
	if b.done {
		b.mu.Unlock()
	} else {
		// Clients stop reading at the end mark, before EOF.
		b.finish(b.usage.Finished())
	}
	b.guard.end()
	return b.inner.Close()
}

// abandoned is called when the request's context ends before the body does.
func (b *responseBody) abandoned() {
	defer b.guard.end()
	b.mu.Lock()
	if b.done {
		b.mu.Unlock()
		return
	}
	b.finish(b.usage.Finished())
}

// finish ends the lease. It is called with the lock held and not done, and
// gives the lock back. complete says that the whole response was seen. The guard
// is not let go of here: behind the end mark of a stream there is an EOF to come.
func (b *responseBody) finish(complete bool) {
	b.done = true
	u := b.usage.Usage()
	result := b.said
	result.Usage = Usage{
		Prompt: u.Prompt, Cached: u.Cached, Completion: u.Completion,
		Known: u.Known, Measured: u.Measured,
	}
	result.FirstByte, result.API = b.firstByte, b.api
	result.NoTokens = result.NoTokens || !complete && !u.Known
	// The header of a stream comes before its engine has seen the request.
	result.GivenUp = result.Err == nil && b.stream && !complete && b.firstByte == 0
	if result.Err == nil && b.usage.Failed() {
		if fault := b.usage.Fault(); !fault.Client() {
			result.Err = streamError(fault)
		} else {
			result.signal, result.NoTokens = signalNone, result.NoTokens || !u.Known
		}
	}
	stop := b.stop
	b.mu.Unlock()
	if stop != nil {
		stop()
	}
	b.lease.Done(result)
}

// isJSON reports whether a Content-Type is that of an answer in JSON.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(media), "application/json")
}

// apiOf is the API of a path whose answers have a usage, so that one without is
// unmeasured, whatever is before it; empty for any other path.
func apiOf(path string) string {
	for _, api := range [...]string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"} {
		if strings.HasSuffix(path, api) {
			return api
		}
	}
	return ""
}

// upgraded is the body of a 101, which can do what the inner one can.
func (b *responseBody) upgraded() io.ReadCloser {
	rw, ok := b.inner.(io.ReadWriteCloser)
	if !ok {
		return b
	}
	up := &upgradedBody{responseBody: b, writer: rw}
	if half, ok := rw.(interface{ CloseWrite() error }); ok {
		return &halfClosableBody{upgradedBody: up, half: half}
	}
	return up
}

// upgradedBody is the body of a 101: a connection in both directions.
type upgradedBody struct {
	*responseBody
	writer io.Writer
}

func (b *upgradedBody) Write(p []byte) (int, error) {
	n, err := b.writer.Write(p)
	if err != nil {
		b.passed(nil, err)
	}
	return n, err
}

// halfClosableBody is an upgradedBody whose write side can be closed alone,
// which httputil.ReverseProxy does where it can (Go 1.26).
type halfClosableBody struct {
	*upgradedBody
	half interface{ CloseWrite() error }
}

func (b *halfClosableBody) CloseWrite() error { return b.half.CloseWrite() }
