package fakevllm

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Socket serves a server on a loopback address and does to connections what
// its faults and Stop want: none is accepted while it refuses them, and all are
// reset when it is stopped. The address stays the same.
type Socket struct {
	server  *Server
	address string
	http    http.Server
	serving sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	retry    *time.Timer  // listens again when the address was taken; nil if it need not
	conns    map[net.Conn]http.ConnState
	closed   bool
}

// Listen serves the server on a free port of 127.0.0.1, as an http.Server does.
func (s *Server) Listen() (*Socket, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &Socket{server: s, address: l.Addr().String(), conns: map[net.Conn]http.ConnState{}}
	k.http.Handler = s
	k.http.ReadHeaderTimeout = 10 * time.Second
	k.http.ConnState = k.track
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sockets == nil {
		s.sockets = map[*Socket]struct{}{}
	}
	s.sockets[k] = struct{}{}
	k.mu.Lock()
	k.serve(l)
	k.mu.Unlock()
	s.settleFault()
	return k, nil
}

// URL is the address as a URL without a path.
func (k *Socket) URL() string { return "http://" + k.address }

// Connections is the number of connections that are open.
func (k *Socket) Connections() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.conns)
}

// Close resets all connections, accepts no more and waits for the listener's
// end. The server itself goes on. The error is always nil.
func (k *Socket) Close() error {
	k.server.mu.Lock()
	delete(k.server.sockets, k)
	k.server.mu.Unlock()
	k.set(true, true)
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.serving.Wait()
	return nil
}

func (k *Socket) track(c net.Conn, state http.ConnState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(k.conns, c)
		return
	}
	k.conns[c] = state
}

// serve serves from a listener. The lock is held.
func (k *Socket) serve(l net.Listener) {
	k.listener = l
	k.serving.Go(func() {
		// It always returns an error: that its listener was closed.
		_ = k.http.Serve(l)
	})
}

// set refuses connections or accepts them, and resets those that are open: the
// idle ones if it refuses, all if asked to.
func (k *Socket) set(refuse, reset bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	if k.retry != nil {
		k.retry.Stop()
		k.retry = nil
	}
	switch {
	case !refuse:
		k.reopen()
		return
	case k.listener != nil:
		_ = k.listener.Close() // it accepts no more, error or not
		k.listener = nil
	}
	for c, state := range k.conns {
		if reset || state == http.StateIdle || state == http.StateNew {
			resetConn(c)
		}
	}
}

// reopenPause is how long an address may be in use by somebody else before
// it is tried again: a connection from this machine may have been given the port.
const reopenPause = 20 * time.Millisecond

// reopen listens again, if need be until it works. The lock is held.
func (k *Socket) reopen() {
	if k.listener != nil {
		return
	}
	l, err := net.Listen("tcp", k.address)
	if err == nil {
		k.serve(l)
		return
	}
	k.retry = time.AfterFunc(reopenPause, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.retry != nil && !k.closed {
			k.reopen()
		}
	})
}

// Listening reports whether connections are accepted just now.
func (k *Socket) Listening() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.listener != nil
}

var errNotListening = errors.New("fakevllm: the address is still in use")

// AwaitListening waits until connections are accepted again after a fault, up
// to a limit.
func (k *Socket) AwaitListening(limit time.Duration) error {
	for end := time.Now().Add(limit); !k.Listening(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return errNotListening
		}
	}
	return nil
}
