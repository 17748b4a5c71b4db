package bench

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"sync"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute"
)

// order has what happens at the same moment of virtual time happen one after
// another, and in an order of its own: a step of an engine gives many requests
// their tokens at once, and a gateway that is told of one's end before another's
// first byte decides otherwise than one that is told the other way round. Which
// of their goroutines gets to go first differs from run to run.
//
// Whatever reaches a gateway or leaves it waits in pass until nothing else can go
// on at that moment, timers included, and is then let go alone: what it brings
// about has come to its end before the next one follows.
type order struct {
	news chan struct{} // holds one signal: that somebody waits
	over chan struct{} // closed by close
	done chan struct{} // closed when run has ended

	mu      sync.Mutex
	waiting []*passage
	sent    uint64    // requests
	lastAt  time.Time // when the last of them was
}

// passage is somebody who waits in pass.
type passage struct {
	mark
	freed chan struct{}
}

// mark orders what happens at the same moment: by request, in the order in which
// clients sent them, what belongs to none before that, by name.
type mark struct {
	request uint64
	name    string
}

// newRequest is the mark's request of one that its client is about to send.
const newRequest = ^uint64(0)

// newOrder must be called in the bubble.
func newOrder() *order {
	o := &order{news: make(chan struct{}, 1), over: make(chan struct{}), done: make(chan struct{})}
	go o.run()
	return o
}

// close lets all go that wait or come later, in no order.
func (o *order) close() {
	close(o.over)
	<-o.done
}

func (o *order) run() {
	defer close(o.done)
	for {
		select {
		case <-o.news:
		case <-o.over:
			return
		}
		for {
			synctest.Wait()
			p := o.first()
			if p == nil {
				break
			}
			if p.request == newRequest {
				o.apart()
			}
			close(p.freed)
		}
	}
}

// first takes out who is to go first, nil if nobody waits.
func (o *order) first() *passage {
	o.mu.Lock()
	defer o.mu.Unlock()
	least := -1
	for i, p := range o.waiting {
		if least < 0 || cmp.Or(cmp.Compare(p.request, o.waiting[least].request), cmp.Compare(p.name, o.waiting[least].name)) < 0 {
			least = i
		}
	}
	if least < 0 {
		return nil
	}
	p := o.waiting[least]
	o.waiting = append(o.waiting[:least], o.waiting[least+1:]...)
	return p
}

// apart keeps a request's time from being that of the one before, since a gateway's
// timers of both would fire at the same moment, in no order.
func (o *order) apart() {
	for !time.Now().After(o.lastAt) {
		time.Sleep(time.Nanosecond)
		synctest.Wait()
	}
	o.lastAt = time.Now()
}

// pass returns when whoever calls it is to go on.
func (o *order) pass(at mark) {
	p := &passage{mark: at, freed: make(chan struct{})}
	o.mu.Lock()
	o.waiting = append(o.waiting, p)
	o.mu.Unlock()
	select {
	case o.news <- struct{}{}:
	default:
	}
	select {
	case <-p.freed:
	case <-o.over:
	}
}

// orderKey is a request context's key for the request's number.
type orderKey struct{}

// number gives a request that has just been let go its place among all.
func (o *order) number(ctx context.Context) context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent++
	return context.WithValue(ctx, orderKey{}, o.sent)
}

// entrance is what a client sends through: it orders the requests.
type entrance struct {
	order   *order
	gateway http.RoundTripper
}

func (e *entrance) RoundTrip(req *http.Request) (*http.Response, error) {
	e.order.pass(mark{newRequest, req.Header.Get(conversationHeader)})
	return e.gateway.RoundTrip(req.WithContext(e.order.number(req.Context())))
}

// exit is what a gateway reaches the engines through: it orders the requests that
// leave the gateway, and what comes back. A gateway that does not pass a request's
// context on has those of the same moment go by conversation.
type exit struct {
	order   *order
	gateway string
	base    http.RoundTripper
}

func (e *exit) RoundTrip(req *http.Request) (*http.Response, error) {
	number, _ := req.Context().Value(orderKey{}).(uint64)
	at := mark{request: number}
	if number == 0 {
		at.name = e.gateway + " " + req.URL.Host + req.URL.Path + " " + req.Header.Get(conversationHeader)
	}
	e.order.pass(at)
	resp, err := e.base.RoundTrip(req)
	e.order.pass(at)
	if err == nil && resp.Body != nil && resp.Body != http.NoBody {
		resp.Body = &orderedBody{ReadCloser: resp.Body, order: e.order, mark: at, passed: time.Now()}
	}
	return resp, err
}

// orderedBody orders what is read of an answer.
type orderedBody struct {
	io.ReadCloser
	order  *order
	mark   mark
	passed time.Time
}

// Read lets go of what came at one moment at once, in however many pieces it is
// read: that differs.
func (b *orderedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if now := time.Now(); now.After(b.passed) {
		b.passed = now
		b.order.pass(b.mark)
	}
	return n, err
}

// OnDequeue orders the turns that a router lets go at the same moment. It
// implements [warmroute.DequeueHook].
func (o *order) OnDequeue(ctx context.Context, _ warmroute.DequeueEvent) {
	number, _ := ctx.Value(orderKey{}).(uint64)
	o.pass(mark{request: number})
}
