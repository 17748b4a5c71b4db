package metrics

// Sink takes metric families in: [Sink.Family], then the family's samples or
// histograms, then the next family. A [Writer] is one; another hands them to a
// client library. Labels are pairs of name and value; within a family the names
// are the same each time, in the same order.
type Sink interface {
	// Family begins a family. A family may have no samples.
	Family(name, help string, kind Kind)
	// Sample is one counter or gauge of the family.
	Sample(value float64, labels ...string)
	// Histogram is one histogram of the family.
	Histogram(h HistogramSnapshot, labels ...string)
}
