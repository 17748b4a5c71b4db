package fakevllm

import (
	"context"
	"time"
)

// StartAs is Start for a server that comes back as another: with that many
// ranks and that model, where 0 and "" are what they were. It has no effect
// unless the server is stopped.
func (s *Server) StartAs(ranks int, model string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped || s.closed {
		return
	}
	old := s.life.Load()
	s.life.Store(s.newLife(orDefault(ranks, len(old.ranks)), orDefault(model, old.model)))
	s.stopped = false
	s.settleFault()
}

// Flap stops the server and starts it again, each for the given time, until ctx
// ends. It leaves the server started.
func (s *Server) Flap(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	defer s.Start()
	for stop := true; ; stop = !stop {
		if stop {
			s.Stop()
		} else {
			s.Start()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
