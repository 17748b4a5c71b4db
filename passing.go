package warmroute

import (
	"time"

	"github.com/warmroute/warmroute/balance"
)

// pass has the pool's admission count a turn that goes to a replica without having
// been admitted: its client chose the rank, its home was over the spill threshold,
// or it was released. What it takes up there is not promised to others. The pool's
// lock is held.
func (p *pool) pass(req *Request, w *pick, m *member, now time.Time) {
	if !p.admits(req) {
		return
	}
	w.ticket = tickets.Get().(*ticket)
	a := &w.ticket.waiter
	a.Turn = balance.Turn{
		Owner: w.ticket, Session: w.hash, PromptTokens: atMost(req.PromptTokens, mostPrompt), MaxTokens: req.MaxTokens, Avoid: a.Avoid[:0],
	}
	a.member, a.sent, a.admitted = m, now, true
	p.admission.Pass(&a.Turn, m.room, now)
}
