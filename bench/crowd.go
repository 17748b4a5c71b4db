package bench

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// crowd is the clients of a run.
type crowd struct {
	w    *Workload // filled
	seed uint64
	// salt is part of the names of conversations and texts. Runs of the same
	// seed with different salts send the same in other words.
	salt string
	// trip is the least time between an answer and what follows it, and differs
	// from client to client by up to a millisecond; 0 adds nothing.
	trip time.Duration
	// connect makes the i-th client of a step.
	connect func(i int) *client
}

// Purposes of chance.
const (
	forGateway = iota + 1
	forClient
	forArrivals
)

// random returns the source of chance for one purpose.
func (c *crowd) random(purpose, number, part int) *rand.Rand {
	return rand.New(rand.NewPCG(c.seed, uint64(purpose)<<48|uint64(number)<<24|uint64(part)))
}

// player is the i-th client of a step.
func (c *crowd) player(st *step, index, i int) *player {
	rng := c.random(forClient, index, i)
	// Drawn in any case, so that what follows is the same.
	delay := time.Duration(rng.Int64N(int64(time.Millisecond)))
	p := &player{step: st, salt: c.salt, rng: rng, client: c.connect(i), next: c.w.Conversation, failed: new(atomic.Bool)}
	if c.trip > 0 {
		p.delay = c.trip + delay
	}
	if i == 0 && c.w.Hot != nil {
		p.next = c.w.Hot
	}
	return p
}

// start starts a step's clients.
func (c *crowd) start(st *step, index, sessions int, clients *sync.WaitGroup) {
	name := func(i int) string { return fmt.Sprintf("%ss%d.%d", c.salt, index, i) }
	if c.w.Arrivals == nil {
		for i := range sessions {
			p := c.player(st, index, i)
			wait := time.Duration(p.rng.Int64N(int64(c.w.Stagger)))
			clients.Go(func() {
				if st.sleep(wait) {
					p.loop(name(i))
				}
			})
		}
		return
	}
	gap := c.w.Arrivals(c.random(forArrivals, index, 0), sessions)
	clients.Go(func() {
		for i := 0; ; i++ {
			d := gap()
			if !time.Now().Add(d).Before(st.until) || !st.sleep(d) {
				return
			}
			p := c.player(st, index, i)
			clients.Go(func() {
				conversation := p.next(p.rng)
				if first := conversation.firstPause(); first > 0 && !p.pause(first) {
					return
				}
				p.whole(&conversation, name(i))
			})
		}
	})
}
