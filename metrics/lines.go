package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// rawLine is one sample line of a page, not yet parsed.
type rawLine struct {
	number int    // from 1
	name   []byte // the metric's name
	text   []byte // the whole line without its end
}

// sampleLines yields what may be sample lines: everything that is neither blank
// nor a comment. HELP and TYPE lines are left out with the other comments, as
// expfmt gives up a whole page for a second one and no dialect needs them.
func sampleLines(page []byte) iter.Seq[rawLine] {
	return func(yield func(rawLine) bool) {
		page = bytes.TrimPrefix(page, []byte("\ufeff"))
		for number := 1; len(page) > 0; number++ {
			var text []byte
			if end := bytes.IndexByte(page, '\n'); end >= 0 {
				text, page = page[:end], page[end+1:]
			} else {
				text, page = page, nil
			}
			text = bytes.Trim(text, " \t\r")
			if len(text) == 0 || text[0] == '#' {
				continue
			}
			name := text
			if end := bytes.IndexAny(text, "{ \t"); end >= 0 {
				name = text[:end]
			}
			if !yield(rawLine{number: number, name: name, text: text}) {
				return
			}
		}
	}
}

// label is one name and value of a sample.
type label struct{ name, value string }

// sample is one parsed line. Its labels are good until the next parse.
type sample struct {
	labels []label
	value  float64
}

// label returns the value of a label, "" if the sample does not have it.
func (s sample) label(name string) string {
	for _, l := range s.labels {
		if l.name == name {
			return l.value
		}
	}
	return ""
}

// lineParser parses sample lines one by one, so that a line expfmt cannot read,
// or panics on, costs only itself.
type lineParser struct {
	parser expfmt.TextParser
	ready  bool
	source bytes.Reader
	buf    []byte
	labels []label

	bad      int // lines that could not be read
	badLine  int // number of the first of them
	badCause error
}

// parse reads one line. A line that cannot be read is remembered for err.
func (p *lineParser) parse(line rawLine) (sample, bool) {
	s, err := p.read(line.text)
	if err != nil {
		if p.bad == 0 {
			p.badLine, p.badCause = line.number, err
		}
		p.bad++
		return sample{}, false
	}
	return s, true
}

// err says which lines could not be read, nil if all could.
func (p *lineParser) err() error {
	if p.bad == 0 {
		return nil
	}
	return fmt.Errorf("metrics: %d unreadable lines, first line %d: %w", p.bad, p.badLine, p.badCause)
}

func (p *lineParser) read(text []byte) (s sample, err error) {
	defer func() {
		if r := recover(); r != nil {
			p.ready = false // the panic left the parser in the middle of a line
			s, err = sample{}, fmt.Errorf("text parser panicked: %.100v", r)
		}
	}()
	if !p.ready {
		p.parser, p.ready = expfmt.NewTextParser(model.UTF8Validation), true
	}
	p.buf = append(p.buf[:0], withoutTail(text)...)
	p.buf = append(p.buf, '\n')
	p.source.Reset(p.buf)
	families, err := p.parser.TextToMetricFamilies(&p.source)
	if err != nil {
		return sample{}, shortened(err)
	}
	for _, family := range families {
		metrics := family.GetMetric()
		if len(metrics) == 0 {
			continue
		}
		p.labels = p.labels[:0]
		for _, pair := range metrics[0].GetLabel() {
			p.labels = append(p.labels, label{pair.GetName(), pair.GetValue()})
		}
		return sample{labels: p.labels, value: metrics[0].GetUntyped().GetValue()}, nil
	}
	return sample{}, errors.New("no sample in the line")
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
