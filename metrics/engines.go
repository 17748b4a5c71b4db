package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// maxEngines bounds what a page full of made-up engine labels costs. It is far
// above any data-parallel size.
const maxEngines = 4096

// errTooManyEngines is in a page's error if engines beyond maxEngines were
// left out.
var errTooManyEngines = fmt.Errorf("metrics: more than %d engines, the rest is left out", maxEngines)

// engineSet is a page's engines by their label. E is what a dialect gathers of
// one.
type engineSet[E any] struct {
	byLabel map[string]*E
	full    bool // an engine was left out
}

// of returns the engine with a label, a new one if need be; nil if there are
// too many. It does not allocate for an engine that is known.
func (s *engineSet[E]) of(label []byte) *E {
	if e := s.byLabel[string(label)]; e != nil {
		return e
	}
	if len(s.byLabel) == maxEngines {
		s.full = true
		return nil
	}
	if s.byLabel == nil {
		s.byLabel = make(map[string]*E)
	}
	e := new(E)
	s.byLabel[string(label)] = e
	return e
}

// snapshots returns the engines sorted, without those that settle refuses.
func (s *engineSet[E]) snapshots(settle func(*E) (Snapshot, bool)) []Snapshot {
	if len(s.byLabel) == 0 {
		return nil
	}
	all := make([]Snapshot, 0, len(s.byLabel))
	for label, e := range s.byLabel {
		if snapshot, ok := settle(e); ok {
			snapshot.Engine = label
			all = append(all, snapshot)
		}
	}
	slices.SortFunc(all, func(a, b Snapshot) int { return compareEngines(a.Engine, b.Engine) })
	return all
}

// err joins what the parser could not read with engines that were left out.
func (s *engineSet[E]) err(p *lineParser) error {
	if !s.full {
		return p.err()
	}
	return errors.Join(p.err(), errTooManyEngines)
}

// compareEngines puts numbers first and in their order, then the other labels
// in theirs.
func compareEngines(a, b string) int {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	switch {
	case errA == nil && errB == nil:
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return cmp.Compare(a, b)
}
