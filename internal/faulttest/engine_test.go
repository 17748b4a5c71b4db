package faulttest_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// fault is a line of the table: what is wrong with a conversation's home, and
// what that may cost.
type fault struct {
	name  string
	fault fakevllm.Fault
	whole bool          // the turn is not streamed
	limit time.Duration // of the client's patience, if it needs one
	opts  []warmroute.Option

	status int               // that the client sees, 0 if none
	has    string            // in the body
	err    func(error) bool  // in place of the answer or of the body's end
	header map[string]string // of the answer
	failed uint64            // attempts counted at the home
	moves  bool              // another replica answers, and the conversation stays there
	run    fakevllm.Delivery // of the turn at the home
	state  string            // of the home after the fault, "up" if empty
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

func says(text string) func(error) bool {
	return func(err error) bool { return err != nil && strings.Contains(err.Error(), text) }
}

var (
	unseen = fakevllm.Delivery{}
	turned = fakevllm.Delivery{Seen: 1}
	ran    = fakevllm.Delivery{Seen: 1, Run: 1}
)

func faults() []fault {
	return []fault{
		{
			name: "refuses connections", fault: fakevllm.Fault{Kind: fakevllm.Refuse},
			status: 200, has: "[DONE]", failed: 1, moves: true, run: unseen, state: "down",
		},
		{
			name: "accepts and hangs", fault: fakevllm.Fault{Kind: fakevllm.Hang}, limit: time.Minute,
			err: is(context.DeadlineExceeded), run: turned,
		},
		{
			name: "accepts and hangs, and there is a timeout", fault: fakevllm.Fault{Kind: fakevllm.Hang},
			opts: []warmroute.Option{warmroute.WithResponseHeaderTimeout(10 * time.Second)},
			err:  is(warmroute.ErrHeaderTimeout), failed: 1, run: turned,
		},
		{
			name: "wedges, and there is a timeout", fault: fakevllm.Fault{Kind: fakevllm.Wedge},
			opts:   []warmroute.Option{warmroute.WithIdleTimeout(10 * time.Second)},
			status: 200, err: is(warmroute.ErrIdleTimeout), failed: 1, run: ran,
		},
		{
			name: "500", fault: fakevllm.Fault{Kind: fakevllm.Status, Status: 500},
			status: 500, has: `"code":500`, failed: 1, run: turned,
		},
		{
			name: "502", fault: fakevllm.Fault{Kind: fakevllm.Status, Status: 502},
			status: 502, has: `"code":502`, failed: 1, run: turned,
		},
		{
			name: "503", fault: fakevllm.Fault{Kind: fakevllm.Status, Status: 503, RetryAfter: 7 * time.Second},
			status: 503, has: `"code":503`, header: map[string]string{"Retry-After": "7"}, failed: 1, run: turned, state: "held",
		},
		{
			name: "429", fault: fakevllm.Fault{Kind: fakevllm.Status, Status: 429, RetryAfter: 7 * time.Second},
			status: 429, has: `"code":429`, header: map[string]string{"Retry-After": "7"}, run: turned, state: "held",
		},
		{
			name: "resets before the first byte", fault: fakevllm.Fault{Kind: fakevllm.ResetEarly},
			err: is(syscall.ECONNRESET), failed: 1, run: ran,
		},
		{
			name: "resets before the first byte, not streamed", fault: fakevllm.Fault{Kind: fakevllm.ResetEarly}, whole: true,
			err: is(syscall.ECONNRESET), failed: 1, run: ran,
		},
		{
			name: "resets mid-stream", fault: fakevllm.Fault{Kind: fakevllm.ResetLate, After: 3},
			status: 200, has: `"role":"assistant"`, err: is(syscall.ECONNRESET), failed: 1, run: ran,
		},
		{
			name: "resets in the middle of a whole answer", fault: fakevllm.Fault{Kind: fakevllm.ResetLate}, whole: true,
			status: 200, err: is(syscall.ECONNRESET), failed: 1, run: ran,
		},
		{
			name: "trickles a byte a second", fault: fakevllm.Fault{Kind: fakevllm.Trickle},
			opts: []warmroute.Option{
				warmroute.WithIdleTimeout(10 * time.Second), warmroute.WithResponseHeaderTimeout(10 * time.Second),
				warmroute.WithSessionTTL(24 * time.Hour), warmroute.WithScrapeInterval(20 * time.Second),
			},
			status: 200, has: "[DONE]", run: ran,
		},
		{
			name: "ends a stream without its end mark", fault: fakevllm.Fault{Kind: fakevllm.NoEndMark},
			status: 200, has: `"finish_reason":"length"`, failed: 1, run: ran,
		},
		{
			name: "an error event, the client's fault", fault: fakevllm.Fault{Kind: fakevllm.ErrorEvent},
			status: 200, has: "out of range", run: turned,
		},
		{
			name: "an error event, the engine's fault", fault: fakevllm.Fault{Kind: fakevllm.ErrorEvent, Status: 500},
			status: 200, has: "EngineCore", failed: 1, run: turned,
		},
		{
			name: "aborts without a token", fault: fakevllm.Fault{Kind: fakevllm.Abort},
			status: 200, has: `"finish_reason":"abort"`, failed: 1, run: turned,
		},
		{
			name: "aborts without a token, not streamed", fault: fakevllm.Fault{Kind: fakevllm.Abort}, whole: true,
			status: 200, has: `"finish_reason":"abort"`, failed: 1, run: turned,
		},
		{
			name: "an HTML page", fault: fakevllm.Fault{Kind: fakevllm.HTML},
			status: 200, has: "<html>", header: map[string]string{"Content-Type": "text/html; charset=utf-8"}, failed: 1, run: turned,
		},
		{
			name: "an HTML page and 502", fault: fakevllm.Fault{Kind: fakevllm.HTML, Status: 502},
			status: 502, has: "<html>", failed: 1, run: turned,
		},
		{
			name: "declares more than it sends", fault: fakevllm.Fault{Kind: fakevllm.WrongLength, After: 50}, whole: true,
			status: 200, has: "usage", err: is(io.ErrUnexpectedEOF), failed: 1, run: ran,
		},
		{
			name: "declares more than it sends, streamed", fault: fakevllm.Fault{Kind: fakevllm.WrongLength},
			status: 200, has: "[DONE]", err: is(io.ErrUnexpectedEOF), run: ran, // which has its end
		},
		{
			name: "declares less than it has", fault: fakevllm.Fault{Kind: fakevllm.WrongLength, After: -500}, whole: true,
			status: 200, failed: 1, run: ran,
		},
		{
			name: "headers without end", fault: fakevllm.Fault{Kind: fakevllm.EndlessHeaders},
			err: says("headers exceeded"), failed: 1, run: turned,
		},
	}
}

// TestAFaultOfAnEngine has the home of a conversation misbehave for one of its
// turns. Whatever the client sees of it, nothing else changes: the others'
// requests, what is counted in flight, the table, and that the next turn finds
// its home, or the replica that stood in for it.
func TestAFaultOfAnEngine(t *testing.T) {
	for _, c := range faults() {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, []int{1, 1, 1}, func(t *testing.T, f *fleet) {
				home := f.ok(ask{session: "s"}).replica
				others := map[string]string{}
				for _, session := range []string{"t", "u"} {
					others[session] = f.ok(ask{session: session}).replica
					require.NotEqual(t, home, others[session], "an idle fleet spreads")
				}
				require.NoError(t, f.engineOf(home).SetFault(c.fault))
				id := f.newID()
				got := c.ask(f, id)

				assert.Equal(t, c.status, got.status, "%v", got.err)
				assert.Contains(t, got.body, c.has)
				if c.err == nil {
					assert.NoError(t, got.err)
				} else {
					assert.True(t, c.err(got.err), "%v", got.err)
				}
				for name, want := range c.header {
					assert.Equal(t, want, got.header.Get(name), name)
				}
				assert.Equal(t, c.run, f.engineOf(home).Delivery(id))
				f.quiet()
				at := home
				if c.moves {
					at = got.replica
					require.NotEqual(t, home, at)
					assert.Equal(t, ran, f.engineOf(at).Delivery(id))
				} else if c.status != 0 {
					assert.Equal(t, home, got.replica)
				}
				for name, m := range f.replicas() {
					if name == home {
						assert.Equal(t, c.failed, m.Failed, name)
						assert.Equal(t, cmp.Or(c.state, "up"), string(m.State))
					} else {
						assert.Zero(t, m.Failed, name)
						assert.Equal(t, "up", string(m.State), name)
					}
				}
				assert.Equal(t, 3, f.sessions(), "every conversation is where it was, once")
				residents := 3
				if c.failed > 0 && !c.moves {
					residents = 2
				}
				assert.Equal(t, residents, f.residents(), "a turn that failed gives its place up, and no other does")
				for session, replica := range others {
					got := f.ok(ask{session: session, turn: 1})
					assert.Equal(t, replica, got.replica)
					assert.Equal(t, "sticky", got.outcome)
				}

				require.NoError(t, f.engineOf(home).SetFault(fakevllm.Fault{}))
				time.Sleep(time.Minute) // whatever was left out of it is over
				next := f.ok(ask{session: "s", turn: 2})
				assert.Equal(t, at, next.replica)
				assert.Equal(t, "sticky", next.outcome)
				assert.Equal(t, "up", string(f.replicas()[home].State))
				assert.Equal(t, 3, f.sessions())
				r := f.router.Stats().Pools[0].Requests
				placed := uint64(3)
				if c.moves {
					placed++
				}
				assert.Equal(t, [2]uint64{placed, 7 - placed}, [2]uint64{r.Placed, r.Sticky}, "each request has one outcome")
			}, c.opts...)
		})
	}
}

// ask sends the turn that meets the fault.
func (c fault) ask(f *fleet, id string) seen {
	a := ask{session: "s", turn: 1, whole: c.whole}
	if c.limit > 0 {
		ctx, cancel := context.WithTimeout(f.t.Context(), c.limit)
		defer cancel()
		a.ctx = ctx
	}
	return read(f.transport.RoundTrip(a.request(id)))
}
