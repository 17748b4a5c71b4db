package warmroute

import (
	"context"
	"errors"
	"time"

	"github.com/warmroute/warmroute/metrics"
)

// askAgain is how often an endpoint is asked once more for what may change, or
// what it has not answered.
const askAgain = time.Minute

// inquiry is a question that an endpoint is asked outside its metrics page.
type inquiry struct {
	at     time.Time // when it was asked last, zero if it was not
	closed bool      // there is nothing more to be learned by it
}

func (q *inquiry) due(now time.Time) bool {
	return !q.closed && (q.at.IsZero() || now.Sub(q.at) >= askAgain)
}

// inquiries are those of one endpoint since it started.
type inquiries struct {
	version, models, limits inquiry
	dialect                 string // of its last page
	start                   int    // which start this is: answers of another one do not count
}

func (q *inquiries) due(now time.Time) bool {
	return q.version.due(now) || q.models.due(now) || q.limits.due(now)
}

// begin notes a question as asked, if it is due.
func (w *watcher) begin(q *inquiry) (due bool, start int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if due = q.due(now); due {
		q.at = now
	}
	return due, w.asked.start
}

// end takes an answer in, unless the endpoint has restarted meanwhile. A question
// is closed if its answer does not change, or the endpoint has none.
func (w *watcher) end(q *inquiry, start int, err error, changes bool, take func()) {
	w.mu.Lock()
	if w.asked.start == start {
		q.closed = err == nil && !changes || errors.Is(err, metrics.ErrNotServed)
		if err == nil {
			take()
		}
	}
	w.mu.Unlock()
	w.tell()
}

// ask asks the endpoint for what its page does not say.
func (w *watcher) ask(ctx context.Context) {
	w.askVersion(ctx)
	w.askModels(ctx)
	w.askLimits(ctx) // last, as it takes vLLM seconds
}

// askVersion asks for vLLM's version, which says what is known of the rank header
// before any request.
func (w *watcher) askVersion(ctx context.Context) {
	q := &w.asked.version
	due, start := w.begin(q)
	if !due {
		return
	}
	version, err := "", metrics.ErrNotServed
	if w.readAsVLLM() {
		version, err = w.router.scraper.Version(ctx, w.base)
	}
	w.quiet(ctx, "version", err)
	w.end(q, start, err, false, func() { w.versionKnown(version) })
}

func (w *watcher) readAsVLLM() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked.dialect == metrics.VLLM().Name()
}

// askModels asks for the LoRA adapters. They may be loaded and unloaded while the
// server runs.
func (w *watcher) askModels(ctx context.Context) {
	q := &w.asked.models
	due, start := w.begin(q)
	if !due {
		return
	}
	models, err := w.router.scraper.Models(ctx, w.base)
	w.quiet(ctx, "models", err)
	w.end(q, start, err, true, func() { w.listed(models) })
}

// askLimits asks for the engine's max_num_seqs, which only a server in
// development mode tells.
func (w *watcher) askLimits(ctx context.Context) {
	q := &w.asked.limits
	due, start := w.begin(q)
	if !due {
		return
	}
	n, err := w.router.scraper.MaxNumSeqs(ctx, w.base)
	w.quiet(ctx, "max_num_seqs", err)
	w.end(q, start, err, false, func() {
		for _, p := range w.router.pools.Load().order {
			if p.model == w.endpoint.Model {
				p.setSpill(func(st *spillState) { st.serverInfo = n })
			}
		}
	})
}

// quiet logs that an endpoint does not answer what most do not.
func (w *watcher) quiet(ctx context.Context, what string, err error) {
	if err != nil {
		w.router.cfg.logger.DebugContext(ctx, "endpoint does not tell", "what", what, "url", w.endpoint.URL, "err", err)
	}
}
