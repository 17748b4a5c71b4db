package faulttest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

const (
	chaosReplicas      = 8
	chaosConversations = 64
)

// chaos is a router among engines that fail at random and clients that do as
// they like. All that is random follows from the seed, for each engine and
// client on its own.
type chaos struct {
	t         *testing.T
	router    *warmroute.Router
	transport *warmroute.Transport
	engines   []*fakevllm.Server
	urls      []string
	unit      time.Duration // a second of the script
	seed      uint64
	told      *ledger
	prefills  *prefills // nil if the router has its own picker

	mu    sync.Mutex
	asked []outcome
}

// outcome is what became of a request, as its client saw it.
type outcome struct {
	id        string
	seen      seen
	cancelled bool
	dropped   bool // the client did not read to the end
}

func (c *chaos) random(kind, i uint64) *rand.Rand { return rand.New(rand.NewPCG(c.seed, kind<<32|i)) }

// seconds is a random time between two numbers of script seconds.
func (c *chaos) seconds(r *rand.Rand, from, to float64) time.Duration {
	return time.Duration((from + r.Float64()*(to-from)) * float64(c.unit))
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// run lets everything go on until ctx ends, and then everything end.
func (c *chaos) run(ctx context.Context) {
	var clients, engines sync.WaitGroup
	for i := range c.engines {
		engines.Go(func() { c.disturb(ctx, i, c.random(1, uint64(i))) })
	}
	engines.Go(func() { c.govern(ctx, c.random(2, 0)) })
	for i := range chaosConversations {
		clients.Go(func() { c.converse(ctx, i, c.random(3, uint64(i))) })
	}
	engines.Wait() // each leaves its engine well, so that requests end
	clients.Wait()
}

// chaosFaults are those that an engine may get. Refuse comes by Stop as well.
var chaosFaults = []fakevllm.Fault{
	{Kind: fakevllm.Refuse}, {Kind: fakevllm.Hang}, {Kind: fakevllm.Hang, Pages: true},
	{Kind: fakevllm.Status, Status: 500}, {Kind: fakevllm.Status, Status: 502, Pages: true},
	{Kind: fakevllm.Status, Status: 503, RetryAfter: time.Second}, {Kind: fakevllm.Status, Status: 429, RetryAfter: time.Second},
	{Kind: fakevllm.HTML}, {Kind: fakevllm.HTML, Pages: true}, {Kind: fakevllm.EndlessHeaders},
	{Kind: fakevllm.ErrorEvent}, {Kind: fakevllm.ErrorEvent, Status: 500}, {Kind: fakevllm.Abort},
	{Kind: fakevllm.ResetEarly}, {Kind: fakevllm.ResetEarly, Pages: true},
	{Kind: fakevllm.ResetLate, After: 2}, {Kind: fakevllm.ResetLate, After: 9},
	{Kind: fakevllm.Trickle}, {Kind: fakevllm.NoEndMark}, {Kind: fakevllm.WrongLength, After: 100},
	{Kind: fakevllm.WrongLength, After: -100}, {Kind: fakevllm.Wedge},
}

// disturb has one engine fail, and leaves it well.
func (c *chaos) disturb(ctx context.Context, i int, r *rand.Rand) {
	e, url := c.engines[i], c.urls[i]
	for pause(ctx, c.seconds(r, 5, 60)) {
		switch n := r.IntN(10); {
		case n < 5:
			f := chaosFaults[r.IntN(len(chaosFaults))]
			f.Every = c.unit / 10
			assert.NoError(c.t, e.SetFault(f))
			pause(ctx, c.seconds(r, 1, 30))
			assert.NoError(c.t, e.SetFault(fakevllm.Fault{}))
		case n == 5:
			e.Stop()
			pause(ctx, c.seconds(r, 0, 20))
			e.StartAs(1+r.IntN(3), "")
		case n == 6:
			e.Sleep()
			pause(ctx, c.seconds(r, 1, 20))
			e.Wake()
		case n == 7:
			flapping, stop := context.WithTimeout(ctx, c.seconds(r, 2, 10))
			e.Flap(flapping, c.unit)
			stop()
		default:
			assert.NoError(c.t, c.router.Remove(url))
			pause(ctx, c.seconds(r, 0, 30))
			assert.NoError(c.t, c.router.Add(warmroute.Endpoint{URL: url}))
		}
	}
}

// govern drains replicas and switches affinity, as an operator does.
func (c *chaos) govern(ctx context.Context, r *rand.Rand) {
	for pause(ctx, c.seconds(r, 20, 90)) {
		url := c.urls[r.IntN(len(c.urls))]
		switch r.IntN(3) {
		case 0:
			assert.NoError(c.t, c.router.SetAffinity("", false))
			pause(ctx, c.seconds(r, 1, 10))
			assert.NoError(c.t, c.router.SetAffinity("", true))
		case 1:
			// It may have been removed, or be another by the time of the second.
			if err := c.router.Drain(url); err != nil {
				assert.ErrorIs(c.t, err, warmroute.ErrUnknownReplica)
			}
			pause(ctx, c.seconds(r, 1, 20))
			if err := c.router.Resume(url); err != nil {
				assert.ErrorIs(c.t, err, warmroute.ErrUnknownReplica)
			}
		case 2:
			var saved bytes.Buffer
			assert.NoError(c.t, c.router.Save(&saved))
			_, err := c.router.Restore(&saved)
			assert.NoError(c.t, err)
		}
	}
}

// converse holds one conversation after another.
func (c *chaos) converse(ctx context.Context, i int, r *rand.Rand) {
	conversation, turn := 0, 0
	for n := 0; pause(ctx, c.seconds(r, 1, 30)); n++ {
		if turn++; turn > 12 || r.IntN(15) == 0 {
			conversation, turn = conversation+1, 0
		}
		a := ask{session: fmt.Sprintf("%d-%d", i, conversation), turn: turn, whole: r.IntN(3) == 0, tokens: 1 + r.IntN(40)}
		switch r.IntN(20) {
		case 0:
			a.session = ""
		case 1:
			a.rank = fmt.Sprint(r.IntN(3))
		}
		c.ask(ctx, a, fmt.Sprintf("%d/%d", i, n), r)
	}
}

// ask sends one request and does with its answer what clients do.
func (c *chaos) ask(ctx context.Context, a ask, id string, r *rand.Rand) {
	// Nobody waits forever, and what is under way at the end goes on.
	patience := c.seconds(r, 30, 120)
	impatient := r.IntN(4) == 0
	if impatient {
		patience = c.seconds(r, 0, 3)
	}
	reads := r.IntN(10) > 0
	a.ctx = context.WithoutCancel(ctx)
	if impatient || r.IntN(3) > 0 {
		limited, cancel := context.WithTimeout(a.ctx, patience)
		defer cancel()
		a.ctx = limited
	} // else the router's own timeouts have it end, or its Close
	o := outcome{id: id}
	resp, err := c.transport.RoundTrip(a.request(id))
	switch {
	case err != nil || reads:
		o.seen = read(resp, err)
	default: // some of it, and it is gone: it closes, or its context ends
		_, err := io.ReadFull(resp.Body, make([]byte, r.IntN(2000)))
		if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil
		}
		o.seen, o.dropped = seen{status: resp.StatusCode, err: err}, true
		if a.ctx.Done() == nil || r.IntN(2) == 0 {
			assert.NoError(c.t, resp.Body.Close())
		}
	}
	o.cancelled = a.ctx.Err() != nil
	c.mu.Lock()
	c.asked = append(c.asked, o)
	c.mu.Unlock()
}

// heal has every engine be well and the router know.
func (c *chaos) heal() {
	for _, e := range c.engines {
		assert.NoError(c.t, e.SetFault(fakevllm.Fault{}))
		e.Start()
		e.Wake()
	}
	for _, url := range c.urls {
		if err := c.router.Add(warmroute.Endpoint{URL: url}); err != nil {
			assert.ErrorIs(c.t, err, warmroute.ErrDuplicate)
		}
		assert.NoError(c.t, c.router.Resume(url))
	}
	assert.NoError(c.t, c.router.SetAffinity("", true))
}

// convince asks until every replica is known to be well again: breakers close by
// requests that work.
func (c *chaos) convince() {
	well := func() bool {
		for _, m := range c.router.Stats().Pools[0].Replicas {
			if m.State != "up" {
				return false
			}
		}
		return true
	}
	for i := 0; !well() && i < 200; i++ {
		o := outcome{id: fmt.Sprint("convincing/", i)}
		o.seen = read(c.transport.RoundTrip(ask{session: fmt.Sprint("c", i)}.request(o.id)))
		assert.NoError(c.t, o.seen.err)
		c.asked = append(c.asked, o)
		time.Sleep(c.unit)
	}
	for _, m := range c.router.Stats().Pools[0].Replicas {
		assert.Equal(c.t, "up", string(m.State), m.Name)
	}
}

// checkRequests holds what the clients saw against what the engines did.
func (c *chaos) checkRequests() {
	count := map[string]int{}
	for _, o := range c.asked {
		var d fakevllm.Delivery
		for _, e := range c.engines {
			one := e.Delivery(o.id)
			d.Seen += one.Seen
			d.Run += one.Run
		}
		require.LessOrEqual(c.t, d.Seen, 1, "request %s was sent twice", o.id)
		require.LessOrEqual(c.t, d.Run, 1, "request %s was run twice", o.id)
		s := o.seen
		switch {
		case s.err != nil && o.cancelled:
			count["cancelled"]++
		case s.err != nil:
			require.True(c.t, known(s.err), "request %s: %T %v", o.id, s.err, s.err)
			count["failed"]++
		case o.dropped:
			require.Equal(c.t, 1, d.Seen, o.id)
			count["dropped"]++
		case s.status == 200 && complete(s.body):
			require.Equal(c.t, ran, d, "request %s was answered", o.id)
			count["answered"]++
		default:
			require.Equal(c.t, 1, d.Seen, "request %s got %d from somebody", o.id, s.status)
			count["answered with a fault"]++
		}
	}
	c.t.Logf("%d requests: %v", len(c.asked), count)
	for _, kind := range []string{"cancelled", "failed", "dropped", "answered with a fault"} {
		assert.NotZero(c.t, count[kind], kind)
	}
	assert.Greater(c.t, count["answered"], len(c.asked)/3, "most of the time most of them are well")
}

func complete(body string) bool {
	return strings.Contains(body, `"finish_reason":"length"`) && strings.Contains(body, `"usage":{"prompt_tokens"`)
}

// known reports whether an error is one that says what it is.
func known(err error) bool {
	return typed(err) || errors.Is(err, warmroute.ErrOverloaded) || errors.Is(err, warmroute.ErrClientRank) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || says("headers exceeded")(err)
}

// checkQuiet checks that nothing is in hand any more: each count is what is
// really there, which is nothing.
func (c *chaos) checkQuiet() {
	for _, p := range c.router.Stats().Pools {
		require.Zero(c.t, p.InFlight)
		require.Zero(c.t, p.Queue.Waiting)
		sum := 0
		for _, m := range p.Replicas {
			require.Zero(c.t, m.InFlight, m.Name)
			sum += m.Sessions
		}
		require.Equal(c.t, p.Sessions, sum)
	}
	for i, e := range c.engines {
		for rank := range 4 {
			n := e.Rank(rank)
			require.Zero(c.t, n.Running+n.Waiting, "engine %d", i)
			require.Equal(c.t, n.Blocks, n.FreeBlocks)
		}
	}
	c.told.check(c.t)
	c.checkTable()
	c.checkCounts()
}

// checkTable checks that the table holds conversations that there were, each
// once, on replicas that there are.
func (c *chaos) checkTable() {
	var saved bytes.Buffer
	require.NoError(c.t, c.router.Save(&saved))
	s, err := affinity.ReadSnapshot(&saved)
	require.NoError(c.t, err)
	bound, homes := map[string]int{}, map[string]int{}
	for _, h := range s.Homes {
		for _, b := range h.Bindings {
			bound[b.Key]++
			homes[h.Home]++
			require.Positive(c.t, b.Idle, "%s is not in use", b.Key)
		}
	}
	for key, n := range bound {
		require.Equal(c.t, 1, n, key)
	}
	for _, m := range c.router.Stats().Pools[0].Replicas {
		require.Equal(c.t, m.Sessions, homes[m.Name], m.Name)
		delete(homes, m.Name)
		if m.Residents != nil {
			// A conversation without a home has no cache, and so no place in one.
			require.LessOrEqual(c.t, *m.Residents, len(bound), m.Name)
		}
	}
	for home := range homes {
		require.Contains(c.t, home, "@", "what is bound elsewhere waits for ranks that may come back")
	}
}

// checkCounts checks that each request has one outcome, and each attempt that
// failed is counted, as the hooks were told.
func (c *chaos) checkCounts() {
	r := c.router.Stats().Pools[0].Requests
	routed := r.Sticky + r.Placed + r.Spilled + r.Pinned + r.Unkeyed
	require.LessOrEqual(c.t, routed+r.Refused, uint64(len(c.asked)))
	nowhere := 0 // cancelled while they waited, or before
	for _, o := range c.asked {
		if o.seen.err != nil && o.seen.status == 0 {
			nowhere++
		}
	}
	require.GreaterOrEqual(c.t, routed+r.Refused, uint64(len(c.asked)-nowhere))
	require.Equal(c.t, uint64(c.told.routed.Load()), uint64(c.told.done.Load()))
}

// ledger is told of each attempt's begin and end.
type ledger struct {
	routed, done, failed atomic.Int64

	mu   sync.Mutex
	open map[string]int // attempts by replica
}

func (l *ledger) OnRoute(_ context.Context, e warmroute.RouteEvent) {
	l.routed.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[e.Replica.Name()]++
}

func (l *ledger) OnDone(_ context.Context, e warmroute.DoneEvent) {
	l.done.Add(1)
	if e.Result.Err != nil {
		l.failed.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[e.Replica.Name()]--
}

// check checks that each attempt has ended once, where it began.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, n := range l.open {
		require.Zero(t, n, name)
	}
	require.Equal(t, l.routed.Load(), l.done.Load())
	require.NotZero(t, l.failed.Load())
}

// prefills is the default picker, which notes what it is told of prompts that
// are on their way to be computed.
type prefills struct {
	balance.Picker
	mu   sync.Mutex
	last []balance.Candidate
}

func (p *prefills) Pick(req *balance.Request, candidates []balance.Candidate) (int, error) {
	p.mu.Lock()
	p.last = slices.Clone(candidates)
	p.mu.Unlock()
	return p.Picker.Pick(req, candidates)
}

// checkPrefills checks, on an idle router, that no prompt is believed to be
// computed: it places one more request for that.
func (c *chaos) checkPrefills() {
	if c.prefills == nil {
		return
	}
	lease, err := c.router.Route(c.t.Context(), warmroute.Request{})
	require.NoError(c.t, err)
	lease.Done(warmroute.Result{})
	c.prefills.mu.Lock()
	defer c.prefills.mu.Unlock()
	require.NotEmpty(c.t, c.prefills.last)
	for _, candidate := range c.prefills.last {
		require.Zero(c.t, candidate.PendingPrefill, candidate.Replica.Name())
		require.Zero(c.t, candidate.InFlight, candidate.Replica.Name())
	}
}

// options are the router's. TTL and waits fit the unit.
func (c *chaos) options(base http.RoundTripper) []warmroute.Option {
	c.told = &ledger{open: map[string]int{}}
	opts := []warmroute.Option{
		warmroute.WithScrapeClient(&http.Client{Transport: base}), warmroute.WithHooks(c.told),
		warmroute.WithScrapeJitter(func() float64 { return 0.5 }), warmroute.WithScrapeInterval(max(3*c.unit, 200*time.Millisecond)),
		warmroute.WithSessionTTL(max(600*c.unit, time.Minute)), warmroute.WithMaxWait(30 * c.unit), warmroute.WithMaxQueue(40),
		warmroute.WithSpill(4), warmroute.WithDebugHeaders(true),
		warmroute.WithResponseHeaderTimeout(40 * c.unit), warmroute.WithIdleTimeout(20 * c.unit),
	}
	if c.seed%2 == 0 {
		c.prefills = &prefills{Picker: balance.Default()}
		opts = append(opts, warmroute.WithPicker(func() balance.Picker { return c.prefills }))
	}
	return opts
}
