package metrics

// Quantile estimates the value below which the share q, 0 to 1, of the
// observations lies, as Prometheus' histogram_quantile does: observations are
// taken to be spread evenly over their bucket, the first of which begins at 0
// (or at its bound, if that is not above 0), and those of the last bucket, which
// has no bound, to be at the highest bound. It is false if nothing was observed
// or q is out of its range.
func (s HistogramSnapshot) Quantile(q float64) (value float64, ok bool) {
	total := uint64(0)
	for _, n := range s.Counts {
		total += n
	}
	if total == 0 || !(q >= 0 && q <= 1) || len(s.Counts) != len(s.Bounds)+1 {
		return 0, false
	}
	rank, below := q*float64(total), 0.0
	for i, upper := range s.Bounds {
		n := float64(s.Counts[i])
		if n == 0 || below+n < rank {
			below += n
			continue
		}
		lower := min(0, upper)
		if i > 0 {
			lower = s.Bounds[i-1]
		}
		return lower + (upper-lower)*(rank-below)/n, true
	}
	return s.Bounds[len(s.Bounds)-1], true
}
