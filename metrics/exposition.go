package metrics

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
)

// ContentType is the media type of what a [Writer] writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Kind is the type of a metric family.
type Kind uint8

// The kinds of families a [Writer] writes.
const (
	KindCounter Kind = iota + 1
	KindGauge
	KindHistogram
)

// String returns the kind as a TYPE line has it.
func (k Kind) String() string {
	switch k {
	case KindCounter:
		return "counter"
	case KindGauge:
		return "gauge"
	case KindHistogram:
		return "histogram"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Writer writes metrics in the Prometheus text format 0.0.4: [Writer.Family],
// then the family's samples, then the next family. It writes each line or
// histogram with one call. The first error, of the underlying writer or for
// what would not be a valid page, stays in [Writer.Err], and nothing is written
// after it.
//
// A Writer is not safe for concurrent use.
type Writer struct {
	out      io.Writer
	line     []byte
	families map[string]struct{}
	name     string // of the family begun last
	kind     Kind
	err      error
}

// NewWriter returns a writer of one page to out.
func NewWriter(out io.Writer) *Writer {
	return &Writer{out: out, families: make(map[string]struct{})}
}

// Err returns the first error.
func (w *Writer) Err() error { return w.err }

// Family begins a family: it writes the HELP and TYPE lines. The name is
// written as it is, so a counter's should end in "_total". A family cannot be
// begun twice.
func (w *Writer) Family(name, help string, kind Kind) {
	if w.err != nil {
		return
	}
	_, twice := w.families[name]
	switch {
	case !model.LegacyValidation.IsValidMetricName(name):
		w.err = fmt.Errorf("metrics: invalid metric name %q", name)
	case twice:
		w.err = fmt.Errorf("metrics: family %s begun twice", name)
	case kind < KindCounter || kind > KindHistogram:
		w.err = fmt.Errorf("metrics: family %s has no valid kind: %v", name, kind)
	}
	if w.err != nil {
		return
	}
	w.families[name] = struct{}{}
	w.name, w.kind = name, kind
	w.line = append(w.line[:0], "# HELP "...)
	w.line = append(w.line, name...)
	w.line = append(w.line, ' ')
	w.line = appendEscaped(w.line, help, false)
	w.line = append(w.line, "\n# TYPE "...)
	w.line = append(w.line, name...)
	w.line = append(w.line, ' ')
	w.line = append(w.line, kind.String()...)
	w.line = append(w.line, '\n')
	w.flush()
}

// Sample writes one counter or gauge of the family, with labels as pairs of
// name and value. Bytes of a label value that are not UTF-8 are replaced, as
// one would make the page unreadable.
func (w *Writer) Sample(value float64, labels ...string) {
	if w.err != nil {
		return
	}
	if w.kind != KindCounter && w.kind != KindGauge {
		w.err = fmt.Errorf("metrics: sample outside a counter or gauge family, in %q", w.name)
		return
	}
	if w.err = w.check(labels); w.err != nil {
		return
	}
	w.line = w.line[:0]
	w.sample("", labels, "", value)
	w.flush()
}

// Histogram writes one histogram of the family: cumulative buckets with the
// label le, _sum and _count. Labels are as for [Writer.Sample].
func (w *Writer) Histogram(h HistogramSnapshot, labels ...string) {
	if w.err != nil {
		return
	}
	switch {
	case w.kind != KindHistogram:
		w.err = fmt.Errorf("metrics: histogram outside a histogram family, in %q", w.name)
	case len(h.Counts) != len(h.Bounds)+1:
		w.err = fmt.Errorf("metrics: histogram of %s has %d counts for %d bounds", w.name, len(h.Counts), len(h.Bounds))
	default:
		w.err = w.check(labels)
	}
	if w.err != nil {
		return
	}
	w.line = w.line[:0]
	var cumulative uint64
	for i, bound := range h.Bounds {
		cumulative += h.Counts[i]
		w.sample("_bucket", labels, formatFloat(bound), float64(cumulative))
	}
	cumulative += h.Counts[len(h.Bounds)]
	w.sample("_bucket", labels, "+Inf", float64(cumulative))
	w.sample("_sum", labels, "", h.Sum)
	w.sample("_count", labels, "", float64(cumulative)) // must be the +Inf bucket's
	w.flush()
}

// check refuses labels that would make the page invalid.
func (w *Writer) check(labels []string) error {
	if len(labels)%2 != 0 {
		return errors.New("metrics: odd number of label names and values in " + w.name)
	}
	for i := 0; i < len(labels); i += 2 {
		name := labels[i]
		if !model.LegacyValidation.IsValidLabelName(name) || strings.HasPrefix(name, "__") ||
			w.kind == KindHistogram && name == "le" {
			return fmt.Errorf("metrics: invalid label name %q in %s", name, w.name)
		}
		for j := 0; j < i; j += 2 {
			if labels[j] == name {
				return fmt.Errorf("metrics: label %s given twice in %s", name, w.name)
			}
		}
	}
	return nil
}

// sample appends one line; le is left out if empty.
func (w *Writer) sample(suffix string, labels []string, le string, value float64) {
	w.line = append(w.line, w.name...)
	w.line = append(w.line, suffix...)
	separator := byte('{')
	for i := 0; i < len(labels); i += 2 {
		w.label(separator, labels[i], labels[i+1])
		separator = ','
	}
	if le != "" {
		w.label(separator, "le", le)
		separator = ','
	}
	if separator == ',' {
		w.line = append(w.line, '}')
	}
	w.line = append(w.line, ' ')
	w.line = append(w.line, formatFloat(value)...)
	w.line = append(w.line, '\n')
}

func (w *Writer) label(separator byte, name, value string) {
	w.line = append(w.line, separator)
	w.line = append(w.line, name...)
	w.line = append(w.line, '=', '"')
	w.line = appendEscaped(w.line, value, true)
	w.line = append(w.line, '"')
}

func (w *Writer) flush() {
	if _, err := w.out.Write(w.line); err != nil {
		w.err = fmt.Errorf("metrics: write: %w", err)
	}
}

// appendEscaped escapes backslashes and line ends, and quotes in label values:
// in a HELP text a quote stands for itself.
func appendEscaped(line []byte, text string, quotes bool) []byte {
	text = strings.ToValidUTF8(text, "\ufffd")
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			line = append(line, `\\`...)
		case c == '\n':
			line = append(line, `\n`...)
		case c == '"' && quotes:
			line = append(line, `\"`...)
		default:
			line = append(line, c)
		}
	}
	return line
}

// formatFloat writes the shortest text that reads back as v. Go's NaN, +Inf and
// -Inf are the format's too.
func formatFloat(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
