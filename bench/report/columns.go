package report

import (
	"math"
	"strconv"
)

// column is one figure as the text and HTML tables show it.
type column struct {
	top, name string // the two lines of its head
	about     string // what it means, for a reader who sees the page alone
	of        func(*Row) Value
	format    func(Value) string
}

// columns returns the shown columns in their order.
func columns() []column {
	const (
		ttfb       = "From sending a turn to its first streamed token, in seconds."
		completion = "From sending a conversation's first turn to the last byte of its last answer, in seconds."
	)
	return []column{
		{"", "sessions/h", "Conversations that ended in the step, per hour.",
			func(r *Row) Value { return r.SessionsPerHour }, fixed(0)},
		{"output", "tok/min", "Generated tokens per minute, of all replicas together.",
			func(r *Row) Value { return r.OutputPerMinute }, fixed(0)},
		{"TTFB", "p50 s", ttfb, func(r *Row) Value { return r.TTFB.P50 }, seconds},
		{"TTFB", "p95 s", ttfb, func(r *Row) Value { return r.TTFB.P95 }, seconds},
		{"TTFB", "p99 s", ttfb, func(r *Row) Value { return r.TTFB.P99 }, seconds},
		{"TTFB", "max s", ttfb, func(r *Row) Value { return r.TTFB.Max }, seconds},
		{"TTFB", "mean s", ttfb, func(r *Row) Value { return r.TTFB.Mean }, seconds},
		{"completion", "p50 s", completion, func(r *Row) Value { return r.Completion.P50 }, seconds},
		{"completion", "p95 s", completion, func(r *Row) Value { return r.Completion.P95 }, seconds},
		{"", "busy", "Replicas with a running request, mean over the step.",
			func(r *Row) Value { return r.Busy }, fixed(2)},
		{"prefix", "hits %", "Of the tokens looked up in the engines' prefix caches, those found, by their own counters. vLLM looks a request up again at each attempt to admit it.",
			func(r *Row) Value { return r.HitShare * 100 }, fixed(1)},
		{"", "cached %", "Of the prompt tokens of requests that got a first token, those taken from a prefix cache.",
			func(r *Row) Value { return r.CachedShare * 100 }, fixed(1)},
		{"", "stayed %", "Of the later turns of conversations, those on the replica of the turn before.",
			func(r *Row) Value { return r.Stayed * 100 }, fixed(1)},
		{"", "preemptions", "Requests the engines preempted in the step.",
			func(r *Row) Value { return r.Preemptions }, count},
		{"", "fairness", "Time per turn of the slowest conversation over that of the median one, of those that ended; 1 is fair.",
			func(r *Row) Value { return r.Fairness }, fixed(2)},
		{"", "failed", "Requests that got no whole answer.",
			func(r *Row) Value { return r.Failed }, count},
	}
}

// known returns the columns that at least one line has a figure for.
func known(all []column, groups []group) []column {
	var some []column
	for _, c := range all {
		if anyLine(groups, func(l line) bool { return c.of(l.row).Known() }) {
			some = append(some, c)
		}
	}
	return some
}

// enormous is from where a number has too many digits for a table or a chart.
const enormous = 1e15

// fixed formats with that many decimals.
func fixed(decimals int) func(Value) string {
	return func(v Value) string {
		switch {
		case !v.Known():
			return "-"
		case math.Abs(float64(v)) >= enormous:
			return strconv.FormatFloat(float64(v), 'g', 3, 64)
		}
		return strconv.FormatFloat(float64(v), 'f', decimals, 64)
	}
}

// seconds formats a time, to a millisecond where a hundredth of a second would
// say little.
func seconds(v Value) string {
	if v > 0 && v < .1 {
		return fixed(3)(v)
	}
	return fixed(2)(v)
}

// count formats what is counted: a whole number, with one decimal where it is
// the mean of several seeds.
func count(v Value) string {
	if math.Trunc(float64(v)) == float64(v) {
		return fixed(0)(v)
	}
	return fixed(1)(v)
}
