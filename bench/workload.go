package bench

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/warmroute/warmroute/bench/report"
)

// Workload is what clients send, and to which engines. The functions in it are
// called from several goroutines, each with a source of chance of its own;
// what they return must depend on that alone.
type Workload struct {
	// Name is the table's title, About one line on what is sent.
	Name, About string
	Engines     Engines
	// Steps are the numbers of conversations at a time, one step after another.
	Steps []int
	// StepTime is how long a step's clients send.
	StepTime time.Duration
	// Cold starts every step with cold engines and new gateways. Else caches
	// and gateways are kept from step to step.
	Cold bool
	// Conversation makes the next conversation of a client. One without a turn
	// ends a client of a closed loop.
	Conversation func(*rand.Rand) Conversation
	// Hot makes the conversations of a step's first client in place of
	// Conversation; nil leaves that client as the others.
	Hot func(*rand.Rand) Conversation
	// Think is a time added to the pause before each turn, and before each
	// further conversation of a client; nil adds none.
	Think func(*rand.Rand) time.Duration
	// Arrivals makes the load an open loop: a step's conversations begin at
	// times that do not depend on those that are going on. The function gets the
	// step's number and returns the source of the gaps between their beginnings.
	// If it is nil the loop is closed: as many clients as the step says, each
	// with one conversation after another.
	Arrivals func(rng *rand.Rand, sessions int) func() time.Duration
	// Stagger is the time within which a closed loop's clients begin, each at a
	// moment of its own. Default 50 ms.
	Stagger time.Duration
	// Gateways is the number of gateways, which share the replicas and do not
	// know of each other. A conversation stays with one. Default 1.
	Gateways int
	// Outages are times at which endpoints are down. They come back cold.
	Outages []Outage
	// TokenBytes is the size of a token of text in bytes, at most 1,000. Default
	// 4, which is exact for the simulated engines.
	TokenBytes float64
	// Seeds are the runs; a row is their mean. Default one run, of seed 1.
	Seeds []uint64
	// Published are the figures of others for this workload.
	Published []report.Row
}

// Outage is a time at which an endpoint is down: its connections are cut and
// further ones refused.
type Outage struct {
	Step     int // index into Workload.Steps
	Endpoint int
	From, To time.Duration // since the step's start
}

const maxTokenBytes = 1000

func (w Workload) filled() Workload {
	w.Engines = w.Engines.filled()
	w.Stagger = or(w.Stagger, 50*time.Millisecond)
	w.Gateways = or(w.Gateways, 1)
	w.TokenBytes = or(w.TokenBytes, 4)
	if len(w.Seeds) == 0 {
		w.Seeds = []uint64{1}
	}
	return w
}

// check returns an error for a workload that cannot be run.
func (w Workload) check() error {
	switch {
	case len(w.Steps) == 0:
		return fmt.Errorf("bench: workload %q has no steps", w.Name)
	case w.StepTime <= 0:
		return fmt.Errorf("bench: workload %q: StepTime is %v, want more than 0", w.Name, w.StepTime)
	case w.Conversation == nil:
		return fmt.Errorf("bench: workload %q has no Conversation", w.Name)
	case w.Gateways < 0, w.Stagger < 0:
		return fmt.Errorf("bench: workload %q: negative Gateways or Stagger", w.Name)
	case !(w.TokenBytes > 0 && w.TokenBytes <= maxTokenBytes):
		return fmt.Errorf("bench: workload %q: TokenBytes is %v, want more than 0, at most %d", w.Name, w.TokenBytes, maxTokenBytes)
	}
	for _, n := range w.Steps {
		if n < 1 {
			return fmt.Errorf("bench: workload %q has a step of %d sessions", w.Name, n)
		}
	}
	for _, o := range w.Outages {
		if o.Step < 0 || o.Step >= len(w.Steps) || o.Endpoint < 0 || o.Endpoint >= w.Engines.Endpoints || o.From < 0 || o.To < o.From || o.To > w.StepTime {
			return fmt.Errorf("bench: workload %q: outage %+v is of no step or endpoint, or not within a step", w.Name, o)
		}
	}
	return nil
}
