package balance

import (
	"fmt"
	"time"
)

// Defaults of [AdmissionConfig].
const (
	DefaultTurnover = 0.5
	DefaultMaxWait  = 5 * time.Minute
	DefaultMaxQueue = 10_000
)

// AdmissionConfig is how an [Admission] weighs those who wait against those who
// are served.
type AdmissionConfig struct {
	// Capacity is the number of KV cache tokens of each replica; 0 takes what
	// [Room.SetCapacity] says, and as long as that says nothing of any replica every
	// turn may go.
	Capacity int
	// Turnover is how readily a resident gives its place up to turns that wait,
	// 0 to 1. At 0 it keeps it until its conversation pauses: the most tokens a
	// second and the shortest median, and the longest tail. At 1 the turns that
	// wait are served soonest: the shortest tail. Default [DefaultTurnover].
	Turnover *float64
	// MaxWait is how long a turn waits at most; then it goes to the least loaded
	// replica, room or none. Default [DefaultMaxWait].
	MaxWait time.Duration
	// MaxQueue is how many turns may wait. A further one is refused, unless there is
	// a tenant with at least two more in the queue than its own has: then the last
	// turn of the tenant with the most is pushed out for it, if one is no more
	// urgent by its Priority and was not sent before ([Turn].Since). Default
	// [DefaultMaxQueue].
	MaxQueue int
	// Choose picks one of the rooms that a turn can go to, of which there is at
	// least one; it must not keep the slice. It is not asked where the turn's
	// conversation has been before and can go again. By default the room with the
	// least load is taken, then the one with the most space.
	Choose func(t *Turn, rooms []*Room, now time.Time) *Room
	// Prefer may prefer one of the rooms that a turn can go to, of those that have
	// about as little load as the one that is taken by default: no more than a
	// quarter, or two requests, above that. There are at least two, that one first
	// and then by load. It must not keep the slice; nil prefers none. It is not
	// asked where Choose is set, nor where that is not. By default none is
	// preferred.
	Prefer func(t *Turn, rooms []*Room, now time.Time) *Room
}

// Validate returns an error that names the field that is out of range.
func (c AdmissionConfig) Validate() error {
	switch {
	case c.Capacity < 0:
		return fmt.Errorf("capacity is %d tokens, want at least 0", c.Capacity)
	case c.Turnover != nil && !(*c.Turnover >= 0 && *c.Turnover <= 1):
		return fmt.Errorf("turnover is %v, want 0 to 1", *c.Turnover)
	case c.MaxWait < 0:
		return fmt.Errorf("max wait is %v, want at least 0", c.MaxWait)
	case c.MaxQueue < 0:
		return fmt.Errorf("max queue is %d turns, want at least 0", c.MaxQueue)
	}
	return nil
}

// rule is what a turnover stands for.
type rule struct {
	// A turn that has waited patience times the mean wait may displace: so
	// about 1/patience of the turns wait. At the default it is less than half
	// of them, which leaves the median alone.
	patience float64
	// displacing is the part of a replica's time that may go into computing
	// again what was displaced.
	displacing float64
	// again is by how much longer a resident stays for each time that it gave
	// its place up before.
	again float64
}

func ruleOf(turnover float64) rule {
	byDefault, most := rule{2.35, 0.4, 2}, rule{1.4, 0.6, 0.4}
	if turnover <= DefaultTurnover {
		byDefault.displacing *= turnover / DefaultTurnover
		return byDefault
	}
	part := (turnover - DefaultTurnover) / (1 - DefaultTurnover)
	between := func(a, b float64) float64 { return a + part*(b-a) }
	return rule{
		between(byDefault.patience, most.patience),
		between(byDefault.displacing, most.displacing),
		between(byDefault.again, most.again),
	}
}
