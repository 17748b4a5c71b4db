package fakevllm

import (
	"context"
	"math"
	"net/http"
	"time"
)

// call is a decoded request to one of the generating endpoints.
type call struct {
	model  string
	stream bool
	prompt *tokenizer
	limit  maybeInt // answer tokens
	face   face
}

// result is what is known of an answer so far.
type result struct {
	id        id
	created   int64
	model     string
	system    string // fingerprint
	prompt    int
	cached    int
	details   bool // whether usage tells cached
	text      answer
	generated int
	finish    finish
}

// face writes answers in the shape of one API.
type face interface {
	// whole returns the body of an answer that is not streamed.
	whole(r *result) any
	// open writes what comes before the engine has done anything, first what
	// comes just before the first token.
	open(out *sse, r *result)
	first(out *sse, r *result)
	// tokens writes one event of the answer, the last one if r.finish is set.
	tokens(out *sse, r *result, text string)
	// last writes what ends a complete stream.
	last(out *sse, r *result)
	// fail ends a stream with an error.
	fail(out *sse, e *apiError)
}

// decoder reads a request to one endpoint.
type decoder func(s *Server, body []byte) (*call, *apiError)

// serveFace handles an endpoint that generates.
func (s *Server) serveFace(decode decoder) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := readBody(w, r)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		c, err := decode(s, body)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		q, err := s.newSequence(c)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		q.path, q.session, q.id = r.URL.Path, r.Header.Get(s.cfg.LogHeader), r.Header.Get(s.cfg.CountHeader)
		s.generate(w, r, c, q)
	}
}

// newSequence checks what all endpoints check alike.
func (s *Server) newSequence(c *call) (*sequence, *apiError) {
	if c.model != "" && c.model != s.life.Load().model {
		return nil, unknownModel(c.model)
	}
	longest := s.cfg.MaxModelLen
	prompt, limit := c.prompt.tokens, c.limit.value
	if c.limit.set && limit < 1 {
		return nil, bad("max_tokens", "max_tokens must be at least 1, got %d. (parameter=max_tokens, value=%[1]d)", limit)
	}
	if limit > longest {
		return nil, bad("max_tokens", "max_tokens=%d cannot be greater than max_model_len=max_total_tokens=%d. Please request fewer output tokens. (parameter=max_tokens, value=%[1]d)",
			limit, longest)
	}
	if prompt+max(limit, 1) > longest {
		return nil, bad("input_tokens", "This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains at least %d input tokens, for a total of at least %d tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=%[3]d)",
			longest, limit, prompt, prompt+limit)
	}
	q := &sequence{
		prompt: prompt, limit: limit, atEnd: byLength,
		every: math.MaxInt, // an answer that is not streamed comes whole
		text:  answer(mix(s.cfg.Seed, c.prompt.state)), token: c.prompt,
		news: make(chan struct{}, 1),
	}
	if c.stream {
		q.every = s.cfg.StreamInterval
	}
	byItself := s.cfg.AnswerTokens
	if !c.limit.set {
		q.limit = longest - prompt
		byItself = orDefault(byItself, defaultAnswer)
	}
	if byItself > 0 && byItself < q.limit {
		q.limit, q.atEnd = byItself, byStop
	}
	return q, nil
}

// generate runs a request and answers it.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, c *call, q *sequence) {
	rank, refusal := s.pinnedRank(r)
	fault := s.fault.Load()
	if refusal == nil {
		refusal = fault.refusal(len(s.life.Load().ranks))
	}
	if refusal != nil && !c.stream {
		s.refuse(w, r, refusal)
		return
	}
	res := &result{
		id: s.newID(), created: time.Now().Unix(), model: s.life.Load().model, system: s.fingerprint(),
		prompt: q.prompt, text: q.text, details: !s.cfg.NoUsageDetails,
	}
	var engine *engine
	switch {
	case refusal != nil:
	case fault.Kind == Abort:
		res.finish = byAbort
	default:
		var err error
		if engine, err = s.submit(q, rank); err != nil {
			s.refuse(w, r, engineDead())
			return
		}
		defer engine.abort(q)
	}
	if !c.stream {
		s.answer(w, r, c.face, q, engine, res)
		return
	}
	out := newSSE(w)
	finish := res.finish
	res.finish = unfinished
	c.face.open(out, res)
	if refusal != nil {
		c.face.fail(out, refusal)
		return
	}
	if finish == byAbort {
		aborted(out, c.face, res)
		return
	}
	stream(r.Context(), out, c.face, q, engine, res)
}

// aborted ends a stream whose request the engine itself has aborted.
func aborted(out *sse, f face, res *result) {
	if res.generated == 0 {
		f.first(out, res)
	}
	res.finish = byAbort
	f.tokens(out, res, "")
	f.last(out, res)
}

// answer waits for the whole answer.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, f face, q *sequence, e *engine, res *result) {
	for res.finish == unfinished {
		p, err := e.wait(r.Context(), q, res.generated)
		if err != nil {
			return // The client is gone.
		}
		res.generated, res.cached, res.finish = p.generated, p.cached, p.finish
	}
	if res.finish == byError {
		s.refuse(w, r, engineDead())
		return
	}
	writeJSON(w, http.StatusOK, f.whole(res))
}

// stream writes the tokens as the engine produces them, until the end, an
// error of the engine or the end of the client.
func stream(ctx context.Context, out *sse, f face, q *sequence, e *engine, res *result) {
	for out.err == nil {
		p, err := e.wait(ctx, q, res.generated)
		if err != nil {
			return
		}
		if p.generated > 0 && res.generated == 0 {
			res.cached = p.cached
			f.first(out, res)
		}
		for res.generated < p.generated {
			n := 1 // the first comes alone
			if res.generated > 0 {
				n = min(q.every, p.generated-res.generated)
			}
			text := res.text.part(res.generated, n)
			res.generated += n
			if res.generated == p.generated && p.finish != byError && p.finish != byAbort {
				res.finish = p.finish
			}
			f.tokens(out, res, text)
		}
		switch p.finish {
		case unfinished:
		case byError:
			f.fail(out, engineDead())
			return
		case byAbort:
			aborted(out, f, res)
			return
		default:
			f.last(out, res)
			return
		}
	}
}
