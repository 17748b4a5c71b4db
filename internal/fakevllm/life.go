package fakevllm

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// life is what a server is between two starts: what a new process begins
// without.
type life struct {
	started time.Time
	model   string
	ranks   []*engine
	fronts  []*balancer // one an API server

	// connections ends when the server is stopped, engines after that or when
	// it is closed.
	connections context.Context
	cut         context.CancelCauseFunc
	engines     context.Context
	end         context.CancelFunc
	trips       sync.WaitGroup // round trips in memory
	loops       sync.WaitGroup // of the engines
}

func (s *Server) newLife(ranks int, model string) *life {
	l := &life{started: time.Now(), model: model}
	l.connections, l.cut = context.WithCancelCause(context.Background())
	l.engines, l.end = context.WithCancel(context.Background())
	blind := s.version(0, 14) && !s.version(0, 27) && !s.cfg.MoE
	for i := range s.cfg.APIServers {
		l.fronts = append(l.fronts, &balancer{
			blind: blind, given: make([]int, ranks), start: ranks * i / s.cfg.APIServers,
		})
	}
	for rank := range ranks {
		e := newEngine(rank, &s.cfg, &s.runs)
		l.ranks = append(l.ranks, e)
		l.loops.Go(func() { e.loop(l.engines) })
	}
	return l
}

// errReset is what a client of a server that is stopped reads.
var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// errRefused is what a client of a stopped server gets.
var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// Stop ends the server as killing its process would, until Start: round trips
// under way fail with a connection that is reset and further ones with one
// that is refused, as a *net.OpError. [Server.ServeHTTP] answers like a server
// whose engine is dead. The counters stay as they were.
func (s *Server) Stop() {
	s.mu.Lock()
	if s.stopped || s.closed {
		s.mu.Unlock()
		return
	}
	s.stopped = true
	l := s.life.Load()
	s.settleFault()
	s.mu.Unlock()
	l.cut(errReset)
	l.trips.Wait()
	l.end()
	l.loops.Wait()
}

// Start starts a stopped server anew: its caches are cold and its counters
// zero.
func (s *Server) Start() { s.StartAs(0, "") }

// Close ends the ranks and waits for them and for the handlers of round trips.
// Requests under way end with an error; ServeHTTP answers like a server whose
// engine is dead from then on, RoundTrip returns [http.ErrServerClosed]. The
// error is always nil.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	l := s.life.Load()
	close(s.fault.Swap(&faulted{over: make(chan struct{})}).over) // lets go whom it holds
	s.settleFault()
	s.mu.Unlock()
	l.end()
	l.trips.Wait()
	l.loops.Wait()
	return nil
}

// enter lets a round trip in, counted in the life's trips.
func (s *Server) enter() (*life, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, http.ErrServerClosed
	case s.stopped || s.fault.Load().Kind == Refuse:
		return nil, errRefused
	}
	l := s.life.Load()
	l.trips.Add(1)
	return l, nil
}
