package fakevllm

import (
	"fmt"
	"net/http"
	"time"
)

// FaultKind is a way in which a server misbehaves.
type FaultKind string

// The faults. Those of an answer have the engine run the request; the others
// keep it from the engine.
const (
	// NoFault is a server that works.
	NoFault FaultKind = ""

	// Refuse has the server accept no connection. Answers under way go on.
	Refuse FaultKind = "refuse connections"
	// Hang accepts a request and never answers. The connection is reset when
	// the fault ends.
	Hang FaultKind = "accept and hang"
	// Status answers with Fault.Status, an error in vLLM's words, and, if
	// Fault.RetryAfter is set, a Retry-After header.
	Status FaultKind = "status"
	// HTML answers with a page in HTML and Fault.Status, by default 200, as a
	// proxy in front of the engine does.
	HTML FaultKind = "HTML page"
	// EndlessHeaders begins an answer whose headers never end.
	EndlessHeaders FaultKind = "endless headers"
	// ErrorEvent answers with an error, which a stream has after its 200: for
	// Fault.Status 400, the default, that of a rank out of range, and for 500
	// that of a dead engine.
	ErrorEvent FaultKind = "error event"
	// Abort answers with 200, finish reason "abort" and no token, as vLLM does
	// while it shuts down.
	Abort FaultKind = "abort"

	// ResetEarly resets the connection in place of the answer's headers. The
	// engine has begun to run the request.
	ResetEarly FaultKind = "reset before the first byte"
	// ResetLate resets the connection after Fault.After events of a stream, or
	// in the middle of an answer that is not streamed.
	ResetLate FaultKind = "reset mid-stream"
	// Trickle sends an answer's body a byte each Fault.Every, by default a second.
	Trickle FaultKind = "trickle"
	// NoEndMark ends a stream as if it were complete, without its end mark.
	NoEndMark FaultKind = "no end mark"
	// WrongLength declares Fault.After bytes more than the answer has, or, if
	// it is negative, fewer.
	WrongLength FaultKind = "wrong Content-Length"

	// Wedge stops all engines between two steps: requests are taken in and never
	// make progress, /health says 200 and the counters stand still.
	Wedge FaultKind = "wedge"
)

// Fault is what is wrong with a server. The zero Fault is nothing.
type Fault struct {
	Kind       FaultKind
	Status     int
	RetryAfter time.Duration
	After      int
	Every      time.Duration
	// Pages says that GET requests, for the metrics page among them, meet the
	// fault as well, not only POST requests. Refuse always does that, Wedge never.
	Pages bool
}

// faulted is a fault from when it was set to when another is.
type faulted struct {
	Fault
	over chan struct{} // closed when it is
}

// SetFault has the server misbehave from now on, until the next call; requests
// that it holds up then fail. It returns an error for a fault that is not known
// or lacks its status.
func (s *Server) SetFault(f Fault) error {
	switch f.Kind {
	case Status:
		if f.Status < 400 || f.Status > 599 {
			return fmt.Errorf("fakevllm: Status is %d, want 400 to 599", f.Status)
		}
	case HTML:
		f.Status = orDefault(f.Status, http.StatusOK)
	case ErrorEvent:
		f.Status = orDefault(f.Status, http.StatusBadRequest)
	case Trickle:
		f.Every = orDefault(f.Every, time.Second)
	case NoFault, Refuse, Hang, EndlessHeaders, Abort, ResetEarly, ResetLate, NoEndMark, WrongLength, Wedge:
	default:
		return fmt.Errorf("fakevllm: unknown fault %q", f.Kind)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.fault.Swap(&faulted{Fault: f, over: make(chan struct{})})
	close(old.over)
	s.settleFault()
	return nil
}

// settleFault has the engines and sockets do what the fault wants of them. The
// server's lock is held.
func (s *Server) settleFault() {
	kind := s.fault.Load().Kind
	for _, e := range s.life.Load().ranks {
		e.setWedged(kind == Wedge)
	}
	refuse := kind == Refuse || s.stopped || s.closed
	for k := range s.sockets {
		k.set(refuse, s.stopped || s.closed)
	}
}

// faultOf is the fault that a request meets.
func (s *Server) faultOf(r *http.Request) *faulted {
	f := s.fault.Load()
	if r.Method != http.MethodPost && !f.Pages {
		return &faulted{over: f.over}
	}
	return f
}

// refusal is the error that the fault has in an answer, nil if none.
func (f *faulted) refusal(ranks int) *apiError {
	switch {
	case f.Kind != ErrorEvent:
		return nil
	case f.Status == http.StatusBadRequest:
		return bad("", "data_parallel_rank %d is out of range [0, %[1]d).", ranks)
	default:
		return engineDead()
	}
}
