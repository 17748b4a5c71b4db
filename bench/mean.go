package bench

import (
	"cmp"

	"github.com/warmroute/warmroute/bench/report"
)

// mean is the row of the means of the rows' figures, each over the rows that
// have it. Policy, sessions and load are the first row's, and so is the first
// failure of the first row that has one.
func mean(rows []report.Row) report.Row {
	m := rows[0]
	for _, figure := range figures(&m) {
		*figure = report.Missing()
	}
	into := figures(&m)
	sums, known := make([]float64, len(into)), make([]int, len(into))
	for i := range rows {
		m.FirstFailure = cmp.Or(m.FirstFailure, rows[i].FirstFailure)
		for j, v := range figures(&rows[i]) {
			if v.Known() {
				sums[j] += float64(*v)
				known[j]++
			}
		}
	}
	for j, v := range into {
		if known[j] > 0 {
			*v = report.Value(sums[j] / float64(known[j]))
		}
	}
	return m
}

// figures are all figures of a row.
func figures(r *report.Row) []*report.Value {
	all := []*report.Value{
		&r.Seconds, &r.SessionsPerHour, &r.OutputPerMinute, &r.Busy, &r.HitShare, &r.CachedShare, &r.Stayed,
		&r.Preemptions, &r.Fairness, &r.Requests, &r.Failed,
	}
	for _, d := range []*report.Distribution{&r.TTFB, &r.Completion} {
		all = append(all, &d.Mean, &d.P50, &d.P95, &d.P99, &d.Max)
	}
	return all
}
