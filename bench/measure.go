package bench

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/warmroute/warmroute/bench/report"
)

// visit is where a request was served.
type visit struct {
	conversation string
	arrived      time.Time
	replica      int
}

// row sums a step up.
func (s *step) row(policy string, sessions int, counted *sampler, visits []visit) report.Row {
	until := s.until
	if !s.seen.IsZero() && s.seen.Before(until) {
		until = s.seen // the step was full before its time
	}
	seconds := until.Sub(s.began).Seconds()
	r := report.NewRow(policy, sessions)
	r.Seconds = report.Value(seconds)

	// Those that ended at the same moment are in no order.
	slices.SortFunc(s.turns, func(a, b turnRecord) int {
		return cmp.Or(a.sent.Compare(b.sent), cmp.Compare(a.conversation, b.conversation))
	})
	var first []float64
	failed := 0
	for _, t := range s.turns {
		if !t.first.IsZero() {
			first = append(first, t.first.Sub(t.sent).Seconds())
		}
		if t.failed {
			failed++
			r.FirstFailure = cmp.Or(r.FirstFailure, t.failure)
		}
	}
	var whole []float64
	for _, c := range s.ended {
		if !c.agent && !c.ended.After(until) {
			whole = append(whole, c.ended.Sub(c.began).Seconds())
		}
	}
	r.SessionsPerHour = report.Value(float64(len(whole)) / seconds * 3600)
	generated := counted.sum.generated
	if len(counted.last) == 0 {
		generated = answered(s.turns, until)
	}
	r.OutputPerMinute = report.Value(generated / seconds * 60)
	r.TTFB, r.Completion = distribution(first), distribution(whole)
	r.Busy = report.Value(counted.busyReplicas())
	r.HitShare, r.CachedShare, r.Preemptions = report.Missing(), usedCache(s.turns), report.Missing()
	if len(counted.last) > 0 {
		r.HitShare = report.Value(counted.sum.hits / counted.sum.queries)
		r.Preemptions = report.Value(counted.sum.preemptions)
		if share := report.Value(counted.sum.cached / counted.sum.prompt); share.Known() {
			r.CachedShare = share
		}
	}
	r.Stayed = stayed(visits, s.began, until)
	r.Fairness = fairness(s.turns, s.ended)
	r.Requests, r.Failed = report.Value(len(s.turns)), report.Value(failed)
	r.Load = counted.thinned()
	return r
}

// visits are the requests whose answers named a replica.
func (s *step) visits() []visit {
	numbers := map[string]int{}
	var all []visit
	for _, t := range s.turns {
		if t.replica == "" {
			continue
		}
		n, ok := numbers[t.replica]
		if !ok {
			n = len(numbers)
			numbers[t.replica] = n
		}
		all = append(all, visit{t.conversation, t.sent, n})
	}
	return all
}

// stayed is the share of the later turns that arrived within the step where the
// turn before had.
func stayed(visits []visit, from, until time.Time) report.Value {
	slices.SortStableFunc(visits, func(a, b visit) int {
		return cmp.Or(cmp.Compare(a.conversation, b.conversation), a.arrived.Compare(b.arrived))
	})
	later, same := 0, 0
	for i := 1; i < len(visits); i++ {
		before, v := &visits[i-1], &visits[i]
		if v.conversation != before.conversation || before.arrived.Before(from) || !v.arrived.Before(until) {
			continue
		}
		later++
		if v.replica == before.replica {
			same++
		}
	}
	return report.Value(float64(same) / float64(later)) // missing if there were none
}

// answered is the tokens of the answers that were whole by a moment, as they
// say themselves.
func answered(turns []turnRecord, until time.Time) float64 {
	tokens := 0
	for _, t := range turns {
		if !t.ended.After(until) {
			tokens += t.usage.answer
		}
	}
	return float64(tokens)
}

// usedCache is the cached share of the prompts, as the answers say themselves.
func usedCache(turns []turnRecord) report.Value {
	prompt, cached := 0, 0
	for _, t := range turns {
		if t.usage.knowsCached {
			prompt += t.usage.prompt
			cached += t.usage.cached
		}
	}
	return report.Value(float64(cached) / float64(prompt)) // missing if none does
}

// fairness is the time per turn of the slowest conversation over the median
// one, of the conversations that came to their ends. One that the step's end
// cut off would be judged by its first turns alone, whose prompts are cold.
func fairness(turns []turnRecord, ended []endedConversation) report.Value {
	type total struct {
		seconds float64
		turns   int
	}
	by := map[string]*total{}
	for _, e := range ended {
		by[e.id] = &total{}
	}
	for _, t := range turns {
		c := by[t.conversation]
		if c == nil {
			continue
		}
		c.seconds += t.ended.Sub(t.sent).Seconds()
		c.turns++
	}
	var means []float64
	for _, c := range by {
		if c.turns == 0 {
			continue // nothing to judge by
		}
		means = append(means, c.seconds/float64(c.turns))
	}
	slices.Sort(means)
	return report.Value(quantile(means, 1) / quantile(means, 0.5))
}

// distribution sums up times. It sorts them.
func distribution(seconds []float64) report.Distribution {
	slices.Sort(seconds)
	mean := math.NaN()
	if len(seconds) > 0 {
		sum := 0.0
		for _, s := range seconds {
			sum += s
		}
		mean = sum / float64(len(seconds))
	}
	at := func(q float64) report.Value { return report.Value(quantile(seconds, q)) }
	return report.Distribution{Mean: report.Value(mean), P50: at(0.5), P95: at(0.95), P99: at(0.99), Max: at(1)}
}

// quantile is the smallest value that at least the share q of the sorted values
// do not exceed; NaN if there are none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
