package bench

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// player plays conversations, one after another.
type player struct {
	step   *step
	client *client
	salt   string
	rng    *rand.Rand
	next   func(*rand.Rand) Conversation
	delay  time.Duration // this client's own time between an answer and what follows it
	failed *atomic.Bool  // a request of the conversation or of its sub-agents
}

// pause waits for the time between two turns or conversations, and reports
// whether there is time left to send.
func (p *player) pause(d time.Duration) bool {
	d += p.delay
	if p.step.w.Think != nil {
		d += p.step.w.Think(p.rng)
	}
	if p.step.over() || !time.Now().Add(d).Before(p.step.until) {
		return false
	}
	return p.step.sleep(d)
}

// place is a conversation's place in a tree of sub-agents.
type place struct {
	id     string
	root   string // "" if there are no sub-agents
	parent string // "" if it is the main agent or a sub-agent of that
}

// headers are those that name the conversation, the first of them by the name
// that the client has for it.
func (pl place) headers(name string) map[string]string {
	h := map[string]string{name: pl.id}
	if pl.root == "" {
		return h
	}
	h[treeHeader] = pl.root
	if pl.id != pl.root {
		h[agentHeader] = pl.id
		if pl.parent != "" && pl.parent != pl.root {
			h[parentHeader] = pl.parent
		}
	}
	return h
}

// play sends a conversation's turns until it ends, a request fails or the step
// is over, and waits for its sub-agents. It reports whether all of it went to
// its end.
func (p *player) play(c *Conversation, at place) bool {
	var h history
	if c.System.Tokens > 0 {
		h.add(newMessage("system", string(appendWords(nil, named(p.salt+c.System.Name), p.bytes(c.System.Tokens)))))
	}
	// Of its texts, which the salt changes and the sizes do not.
	rng := rand.New(rand.NewPCG(p.rng.Uint64(), 1+hashOf(p.salt)))
	var background agents
	whole := p.turns(c, at, &h, rng, &background)
	return background.wait() && whole
}

// turns sends the turns of a conversation.
func (p *player) turns(c *Conversation, at place, h *history, rng *rand.Rand, background *agents) bool {
	for i := range c.Turns {
		t := &c.Turns[i]
		if i > 0 && !p.pause(t.Pause) || p.step.over() {
			return false
		}
		h.cut(p.bytes(t.Cut))
		if !p.turn(h, t, at, rng) {
			return false
		}
		var foreground agents
		p.agents(&foreground, t.Agents, fmt.Sprintf("%s.%d.", at.id, i), at)
		p.agents(background, t.Background, fmt.Sprintf("%s.%d.b", at.id, i), at)
		if !foreground.wait() {
			return false
		}
	}
	return true
}

// whole plays a conversation that is no sub-agent's, and records it if it went
// to its end.
func (p *player) whole(c *Conversation, id string) bool {
	began := time.Now()
	at := place{id: id}
	if c.hasAgents() {
		at.root = id
	}
	if !p.play(c, at) {
		return false
	}
	p.step.end(endedConversation{id: id, began: began, ended: time.Now()})
	return true
}

func (p *player) bytes(tokens int) int { return int(float64(tokens)*p.step.w.TokenBytes + 0.5) }

// turn sends a turn's requests and adds the first one to the history.
func (p *player) turn(h *history, t *Turn, at place, rng *rand.Rand) bool {
	write := func() message {
		return newMessage("user", string(appendWords(nil, rng, p.bytes(t.New))))
	}
	asked := write()
	headers := at.headers(p.client.session)
	var extra sync.WaitGroup
	failed := make([]bool, t.Extra)
	for i := range t.Extra {
		body := h.request(p.client.model, write(), t.Answer, p.client.extra)
		extra.Go(func() {
			// One instant has one event, so that a run can be repeated.
			p.step.sleep(time.Duration(i+1) * 10 * time.Microsecond)
			_, ok := p.request(body, headers, at)
			failed[i] = !ok
		})
	}
	answer, ok := p.request(h.request(p.client.model, asked, t.Answer, p.client.extra), headers, at)
	extra.Wait()
	for _, f := range failed {
		ok = ok && !f
	}
	h.add(asked)
	switch t.Back {
	case Nothing:
		answer = ""
	case Reworded:
		answer = string(appendWords(nil, rng, len(answer)))
	}
	h.add(newMessage("assistant", answer))
	return ok
}

// request sends one request and records it, unless the step has had all that
// it may have.
func (p *player) request(body []byte, headers map[string]string, at place) (answer string, ok bool) {
	if !p.step.take() {
		return "", false
	}
	sent := time.Now()
	r, err := p.client.send(p.step.ctx, body, headers)
	t := turnRecord{
		conversation: at.id, sent: sent, first: r.first, ended: time.Now(),
		replica: r.replica, usage: r.usage,
	}
	if err != nil {
		p.failed.Store(true)
		t.failed, t.failure = true, err.Error()
	}
	p.step.record(t)
	return r.text, err == nil
}

// agents are sub-agents that go on.
type agents struct {
	all   sync.WaitGroup
	mu    sync.Mutex
	short bool // one did not go to its end
}

// wait waits for all of them and reports whether they went to their ends.
func (a *agents) wait() bool {
	a.all.Wait()
	return !a.short
}

// agents starts sub-agents of the conversation at a place.
func (p *player) agents(into *agents, scripts []Conversation, prefix string, at place) {
	for i := range scripts {
		script := &scripts[i]
		sub := &player{
			step: p.step, client: p.client, salt: p.salt, rng: rand.New(rand.NewPCG(p.rng.Uint64(), 2)),
			// One instant has one event, so that a run can be repeated.
			delay:  p.delay + time.Duration(i+1)*10*time.Microsecond,
			failed: p.failed,
		}
		id := place{id: prefix + strconv.Itoa(i), root: at.root, parent: at.id}
		into.all.Go(func() {
			began := time.Now()
			if sub.step.sleep(sub.delay+script.firstPause()) && sub.play(script, id) {
				sub.step.end(endedConversation{id: id.id, began: began, ended: time.Now(), agent: true})
				return
			}
			into.mu.Lock()
			defer into.mu.Unlock()
			into.short = true
		})
	}
}

// hasAgents reports whether any turn starts sub-agents.
func (c *Conversation) hasAgents() bool {
	for i := range c.Turns {
		if len(c.Turns[i].Agents)+len(c.Turns[i].Background) > 0 {
			return true
		}
	}
	return false
}

func (c *Conversation) firstPause() time.Duration {
	if len(c.Turns) == 0 {
		return 0
	}
	return c.Turns[0].Pause
}

// loop is a client of a closed loop. It ends with the conversation that has no
// time left for what it would do next: who begins another in its place is one
// who thinks for less.
func (p *player) loop(name string) {
	for n := 0; ; n++ {
		c := p.next(p.rng)
		if len(c.Turns) == 0 {
			return // nothing to say
		}
		if n > 0 && !p.pause(c.firstPause()) {
			return
		}
		p.failed.Store(false)
		if p.whole(&c, name+"."+strconv.Itoa(n)) {
			continue
		}
		// Whoever meets an error tries again later.
		if !p.failed.Load() || !p.step.sleep(retryAfter) {
			return
		}
	}
}

// retryAfter is how long a client waits after a request that failed.
const retryAfter = time.Second
