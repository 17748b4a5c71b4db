package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// expfmtLine reads single lines of any shape with expfmt's parser.
type expfmtLine struct {
	parser expfmt.TextParser
	ready  bool
	source bytes.Reader
	buf    []byte
}

// read reads a line into s.
func (l *expfmtLine) read(line []byte, s *sample) (err error) {
	defer func() {
		if r := recover(); r != nil {
			l.ready = false // the panic left the parser in the middle of a line
			err = fmt.Errorf("text parser panicked: %.100v", r)
		}
	}()
	if !l.ready {
		l.parser, l.ready = expfmt.NewTextParser(model.UTF8Validation), true
	}
	l.buf = append(l.buf[:0], withoutTail(line)...)
	l.buf = append(l.buf, '\n')
	l.source.Reset(l.buf)
	families, err := l.parser.TextToMetricFamilies(&l.source)
	if err != nil {
		return shortened(err)
	}
	for _, family := range families {
		metrics := family.GetMetric()
		if len(metrics) == 0 {
			continue
		}
		s.labels = s.labels[:0]
		for _, pair := range metrics[0].GetLabel() {
			s.labels = append(s.labels, label{[]byte(pair.GetName()), []byte(pair.GetValue())})
		}
		s.value = metrics[0].GetUntyped().GetValue()
		return nil
	}
	return errors.New("no sample in the line")
}

// withoutTail cuts a timestamp and an OpenMetrics exemplar off a sample line:
// expfmt's text parser refuses exemplars and timestamps that are not whole
// numbers, and neither is used. A line of another shape is returned as it is,
// for expfmt to tell what is wrong with it.
func withoutTail(text []byte) []byte {
	valueStart, ok := seriesEnd(text)
	if !ok {
		return text
	}
	value, end := field(text, valueStart)
	if len(value) == 0 {
		return text
	}
	cut := end
	next, end := field(text, end)
	if len(next) > 0 && next[0] != '#' {
		if _, err := strconv.ParseFloat(string(next), 64); err != nil {
			return text
		}
		next, _ = field(text, end)
	}
	if len(next) > 0 && next[0] != '#' {
		return text
	}
	return text[:cut]
}

// seriesEnd returns where a line's name and labels end. A brace inside a
// quoted label value is not an end.
func seriesEnd(text []byte) (int, bool) {
	brace := bytes.IndexAny(text, "{ \t")
	if brace < 0 {
		return 0, false
	}
	nameEnd := brace
	for brace < len(text) && (text[brace] == ' ' || text[brace] == '\t') {
		brace++
	}
	if brace == len(text) || text[brace] != '{' {
		return nameEnd, true
	}
	quoted := false
	for i := brace + 1; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i + 1, true
		}
	}
	return 0, false
}

// field returns the first run of bytes at or after start that are not blank,
// and where it ends.
func field(text []byte, start int) ([]byte, int) {
	for start < len(text) && (text[start] == ' ' || text[start] == '\t') {
		start++
	}
	end := start
	for end < len(text) && text[end] != ' ' && text[end] != '\t' {
		end++
	}
	return text[start:end], end
}

// shortened drops the line number from an expfmt error, which is always 1 here,
// and bounds its length: expfmt quotes what it could not read, however long.
func shortened(err error) error {
	const limit = 160
	message := err.Error()
	var parse expfmt.ParseError
	if errors.As(err, &parse) {
		message = parse.Msg
	}
	if len(message) > limit {
		message = message[:limit] + "..."
	}
	return errors.New(message)
}
