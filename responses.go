package warmroute

import (
	"net/http"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/affinity"
)

// DefaultResponseChains is how many responses a pool remembers the conversation
// of.
const DefaultResponseChains = 131_072

// WithResponseChains sets of how many answers of /v1/responses a pool remembers
// which conversation they belong to, some 250 bytes each and for as long as
// conversations are remembered ([WithSessionTTL]); the oldest is forgotten
// first. 0 remembers none. Default [DefaultResponseChains].
//
// A client of the Responses API may send the previous_response_id of the turn
// before in place of the history, and no session key. Such a request belongs to
// the conversation that produced that response. Where no request of it ever had
// a key, the chain is the conversation, named by the first response that is
// continued. A response counts as soon as its id is in the answer: in a stream
// that is the first event.
//
// vLLM (0.33) keeps responses in the memory of the process that produced them
// (VLLM_ENABLE_RESPONSES_API_STORE) and answers 404 elsewhere. So a request that
// names a response goes where that was produced whatever the load there is, and
// waits for no room; its conversation is at home there from then on.
//
// The transport asks the body for previous_response_id only where no session key
// was found, and takes it where the body was read for another reason. The memory
// is not saved ([Router.Save]).
func WithResponseChains(responses int) Option {
	return option(func(c *config) {
		if responses < 0 {
			c.refuse(&ConfigError{Field: "response-chains", Value: strconv.Itoa(responses), Allowed: "0 or more"})
			return
		}
		c.responseChains = responses
	})
}

// Produced says that the answer to the request is the response of that id, so
// that a request that names it (Request.PreviousResponse) is known to belong to
// the same conversation. The transport does this for /v1/responses; it is for
// those who do their own I/O. An id that is empty or longer than
// [affinity.MaxResponseID] is not remembered. It must not be called after Done.
func (l Lease) Produced(responseID string) {
	if l.pool == nil || l.pool.responses == nil {
		return
	}
	o := affinity.Origin[*member]{Home: l.member.home, At: l.pool.router.clock.Now()}
	if l.session != nil {
		o.Session = l.session.Key()
	}
	l.pool.responses.Put(responseID, o)
}

// continued is the key, in the table, of the conversation of a request that
// names a response as its predecessor: key, unless it is empty or one that many
// conversations may share, before which a response that is known comes. A response that
// is not known, as after a restart, begins a conversation. One that is known has
// its conversation be at home where it was produced.
func (p *pool) continued(req *Request, key string, now time.Time) string {
	if p.responses == nil || len(req.PreviousResponse) > affinity.MaxResponseID {
		return key
	}
	o, known := p.responses.Get(req.PreviousResponse, now)
	if key == "" || o.Session != "" && req.KeySource == affinity.PromptCacheKeySource {
		key = o.Session
	}
	if key == "" {
		key = p.key(req, req.PreviousResponse)
	}
	if !known || len(key) > affinity.MaxKeyLen || o.Home.Closed() {
		return key
	}
	s := p.table.Acquire(key, p.table.Hash(key), o.At)
	if s.Home() != o.Home {
		p.table.Bind(s, o.Home, o.At)
		p.table.Warm(s, o.Home)
	}
	p.table.Release(s, o.At)
	return key
}

// keeper is the member that a request must go to since the response that it
// continues is kept there, nil if it may go anywhere.
func (p *pool) keeper(req *Request, w *pick, now time.Time) *member {
	if req.PreviousResponse == "" || !p.affinity.Load() {
		return nil
	}
	return p.homeOf(w, now)
}

// keep routes a request to its keeper.
func (p *pool) keep(req *Request, w *pick, m *member, now time.Time) Lease {
	m.Begin()
	if p.admits(req) { // it takes up room like others
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.router.clock.Running() {
			now = time.Now() // exact
		}
		w.passage = p.passage(m, now)
		p.pass(req, w, m, now)
	} else if w.passage, _ = m.Admit(now); w.passage.Probe() {
		p.roomsProbed(m, now)
	}
	return newLease(p, m, w, Sticky)
}

// previousResponse is the response that the request continues, as the body says.
func (in *inspection) previousResponse(keyed bool) string {
	const field = "previous_response_id"
	switch {
	case !keyed:
		return in.String(field)
	case in.fields != nil:
		return in.fields.String(field)
	}
	return ""
}

// chains reports whether a request's answer is a response that can be continued.
func (r *Router) chains(req *http.Request, api string) bool {
	return r.cfg.responseChains > 0 && api == responsesAPI && req.Method == http.MethodPost
}

// produced tells of the response's id as soon as it has been read. The lock is
// held.
func (b *responseBody) produced() {
	if id := b.usage.ResponseID(); id != "" {
		b.chained = false
		b.lease.Produced(id)
	}
}
