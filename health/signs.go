package health

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/metrics"
)

// signs is what speaks against one GPU, with what is needed to tell new signs
// from old ones. Time comes in as a value.
type signs struct {
	reading Reading
	seen    time.Time // of the page that it was on last
	current []sign

	volatile, aggregate, rows growth
	thermal, power            growth
	throttled                 [reasonBits]time.Time // since when a reason has been there; zero: it is not
}

// sign is one thing that speaks against a GPU.
type sign struct {
	what   string
	action Action
	last   time.Time // when it was seen
	gone   time.Time // since when pages have been without it; zero: the last was not
	xid    bool
}

// growth is how far a counter has come since a mark.
type growth struct {
	mark float64
	at   time.Time
}

// since returns by how much the counter has grown since the mark and in what time.
// A counter that was not there before, or went back, is marked anew.
func (g *growth) since(n metrics.Number, at time.Time) (grown float64, in time.Duration) {
	if g.at.IsZero() || n.Value < g.mark {
		g.mark, g.at = n.Value, at
	}
	return n.Value - g.mark, at.Sub(g.at)
}

func (g *growth) restart(n metrics.Number, at time.Time) { g.mark, g.at = n.Value, at }

// atLeast reports whether a counter has grown by so much within the window.
func (g *growth) atLeast(least int, n metrics.Number, at time.Time, window time.Duration) bool {
	if !n.OK {
		return false
	}
	grown, in := g.since(n, at)
	hit := grown >= float64(least)
	if hit || in > window {
		g.restart(n, at)
	}
	return hit
}

// above reports whether a counter of nanoseconds has grown by more than a share of
// the time, each time the window is over.
func (g *growth) above(share float64, n metrics.Number, at time.Time, window time.Duration) bool {
	if !n.OK {
		return false
	}
	grown, in := g.since(n, at)
	if in < window {
		return false
	}
	g.restart(n, at)
	return grown > share*float64(in)
}

// take takes in what a page says of the GPU; whole says that nothing on the page
// was unreadable, so that what is not on it is not there.
func (s *signs) take(r Reading, at time.Time, whole bool, d *DCGM) {
	rules := &d.Rules
	if at.Sub(s.seen) > d.StaleAfter { // nobody knows what was in between
		s.throttled = [reasonBits]time.Time{}
		s.thermal, s.power = growth{}, growth{}
	}
	before := s.reading.XIDs
	s.reading, s.seen = r, at

	for _, code := range r.XIDs {
		action := rules.XIDs[code]
		if action == DrainUntilReset || !slices.Contains(before, code) {
			s.noteXID(code, action, at)
		}
	}
	for _, code := range r.RecentXIDs {
		s.noteXID(code, rules.XIDs[code], at)
	}
	// Both are looked at, so that one mark does not grow old while the other hits.
	volatile := s.volatile.atLeast(rules.DoubleBitErrors, r.DoubleBitVolatile, at, d.Hold)
	aggregate := s.aggregate.atLeast(rules.DoubleBitErrors, r.DoubleBitAggregate, at, d.Hold)
	if volatile || aggregate {
		s.note("double-bit ECC error", rules.DoubleBitECC, at)
	}
	if r.RowRemapFailure.Value > 0 {
		s.note("row remap failure", rules.RowRemapFailure, at)
	}
	if s.rows.atLeast(rules.RemappedRowsMin, r.RemappedRows, at, d.Hold) {
		s.note("rows remapped for uncorrectable errors", rules.RemappedRows, at)
	}
	s.takeClocks(r, at, rules)
	if whole {
		s.clear(r, at, d.Hold)
	}
}

// takeClocks takes in what holds the GPU's clocks down.
func (s *signs) takeClocks(r Reading, at time.Time, rules *Rules) {
	for bit := range s.throttled {
		reason := uint64(1) << bit
		if uint64(r.ThrottleReasons.Value)&rules.ThrottleReasons&reason == 0 {
			s.throttled[bit] = time.Time{}
			continue
		}
		if s.throttled[bit].IsZero() {
			s.throttled[bit] = at
		}
		if at.Sub(s.throttled[bit]) >= rules.ThrottledFor {
			s.note("clocks held down: "+reasonName(reason), rules.Throttled, at)
		}
	}
	if s.thermal.above(rules.ThermalViolation, r.ThermalViolation, at, rules.ThrottledFor) {
		s.note("clocks held down: thermal violation", rules.Throttled, at)
	}
	if s.power.above(rules.PowerViolation, r.PowerViolation, at, rules.ThrottledFor) {
		s.note("clocks held down: power violation", rules.Throttled, at)
	}
}

func reasonName(reason uint64) string {
	switch reason {
	case SWPowerCap:
		return "SW power cap"
	case HWSlowdown:
		return "HW slowdown"
	case SWThermal:
		return "SW thermal slowdown"
	case HWThermal:
		return "HW thermal slowdown"
	case HWPowerBrake:
		return "HW power brake"
	}
	return "clocks event reason bit " + strconv.Itoa(bits.TrailingZeros64(reason))
}

// note notes a sign that was seen, unless it means nothing.
func (s *signs) note(what string, action Action, at time.Time) {
	s.add(sign{what: what, action: action, last: at})
}

// noteXID notes a code that was seen, unless it means nothing.
func (s *signs) noteXID(code int, action Action, at time.Time) {
	s.add(sign{what: "XID " + strconv.Itoa(code), action: action, last: at, xid: true})
}

func (s *signs) add(n sign) {
	if n.action <= Ignore {
		return
	}
	i := slices.IndexFunc(s.current, func(old sign) bool { return old.what == n.what })
	if i < 0 {
		s.current = append(s.current, n)
		return
	}
	s.current[i] = n
}

// clear looks for signs of DrainUntilReset that the page shows to be gone, and
// drops those that have been for the time to hold.
func (s *signs) clear(r Reading, at time.Time, hold time.Duration) {
	// Another code in the place of a fatal one is what came of it, such as the 45 of
	// the application that was ended, and no reset. A GPU that is on the page
	// without any was reset, or its exporter was.
	reset := len(r.XIDs) == 0 && len(r.RecentXIDs) == 0
	s.current = slices.DeleteFunc(s.current, func(n sign) bool {
		return n.action == DrainUntilReset && n.isGone(at, reset) && !n.gone.IsZero() && at.Sub(n.gone) >= hold
	})
	for i := range s.current {
		n := &s.current[i]
		switch {
		case !n.isGone(at, reset):
			n.gone = time.Time{}
		case n.gone.IsZero():
			n.gone = at
		}
	}
}

// isGone reports whether the page that was read at that time is without the sign.
func (n *sign) isGone(at time.Time, xidsReset bool) bool {
	if n.xid {
		return xidsReset
	}
	return n.last.Before(at)
}

// expire drops what has not been seen for the time to hold.
func (s *signs) expire(now time.Time, hold time.Duration) {
	s.current = slices.DeleteFunc(s.current, func(n sign) bool { return n.action != DrainUntilReset && now.Sub(n.last) >= hold })
}

// ordered returns the signs, the gravest first.
func (s *signs) ordered() []sign {
	out := slices.Clone(s.current)
	slices.SortStableFunc(out, func(a, b sign) int { return cmp.Compare(rank(b.action), rank(a.action)) })
	return out
}

func rank(a Action) int { return severity(a.state()) }
