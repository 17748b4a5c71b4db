package report

import "encoding/json"

// figure is one Value of a Row under its flat name: the JSON names on the way
// to it, joined by dots.
type figure struct {
	name string
	of   func(*Row) *Value
}

// figures returns all figures of a Row in the order of its fields.
func figures() []figure {
	list := []figure{
		{"seconds", func(r *Row) *Value { return &r.Seconds }},
		{"sessions_per_hour", func(r *Row) *Value { return &r.SessionsPerHour }},
		{"output_tokens_per_minute", func(r *Row) *Value { return &r.OutputPerMinute }},
	}
	list = append(list, distribution("ttfb_seconds", func(r *Row) *Distribution { return &r.TTFB })...)
	list = append(list, distribution("completion_seconds", func(r *Row) *Distribution { return &r.Completion })...)
	return append(list,
		figure{"busy_replicas", func(r *Row) *Value { return &r.Busy }},
		figure{"hit_share", func(r *Row) *Value { return &r.HitShare }},
		figure{"cached_share", func(r *Row) *Value { return &r.CachedShare }},
		figure{"stayed_share", func(r *Row) *Value { return &r.Stayed }},
		figure{"preemptions", func(r *Row) *Value { return &r.Preemptions }},
		figure{"fairness", func(r *Row) *Value { return &r.Fairness }},
		figure{"requests", func(r *Row) *Value { return &r.Requests }},
		figure{"failed", func(r *Row) *Value { return &r.Failed }},
	)
}

func distribution(name string, of func(*Row) *Distribution) []figure {
	return []figure{
		{name + ".mean", func(r *Row) *Value { return &of(r).Mean }},
		{name + ".p50", func(r *Row) *Value { return &of(r).P50 }},
		{name + ".p95", func(r *Row) *Value { return &of(r).P95 }},
		{name + ".p99", func(r *Row) *Value { return &of(r).P99 }},
		{name + ".max", func(r *Row) *Value { return &of(r).Max }},
	}
}

// NewRow returns the row of a policy at a number of sessions with every figure
// missing.
func NewRow(policy string, sessions int) Row {
	row := Row{Policy: policy, Sessions: sessions}
	for _, f := range figures() {
		*f.of(&row) = Missing()
	}
	return row
}

// UnmarshalJSON reads a row. A figure that the JSON does not have is missing,
// not 0.
func (r *Row) UnmarshalJSON(b []byte) error {
	type plain Row // without this method, which would call itself
	row := plain(NewRow("", 0))
	if err := json.Unmarshal(b, &row); err != nil {
		return err
	}
	*r = Row(row)
	return nil
}
