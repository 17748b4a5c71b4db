package metrics

import (
	"bytes"
	"fmt"
	"iter"
)

// series is one of the series a dialect reads, in its own numbering.
type series uint8

// otherSeries is what a dialect does not read.
const otherSeries series = 0

// label is one name and value of a sample.
type label struct{ name, value []byte }

// sample is one parsed line. It points into the page or the parser and is good
// until the next line.
type sample struct {
	labels []label
	value  float64
}

// label returns the value of a label, nil if the sample does not have it.
func (s *sample) label(name string) []byte {
	for i := range s.labels {
		if string(s.labels[i].name) == name {
			return s.labels[i].value
		}
	}
	return nil
}

// lineParser reads a page line by line, so that a line that makes no sense, or
// that expfmt panics on, costs only itself.
type lineParser struct {
	sample sample
	slow   expfmtLine

	bad      int // lines that could not be read
	badLine  int // number of the first of them, from 1
	badCause error
}

// samples yields the samples of the series that seriesOf wants, told by their
// names. Only their lines are parsed: the rest of the page is skipped. HELP and
// TYPE lines are left out with the other comments, as expfmt gives up a whole
// page for a second one and no dialect needs them. A wanted line that cannot be
// read is remembered for err.
func (p *lineParser) samples(page []byte, seriesOf func(name []byte) series) iter.Seq2[series, *sample] {
	return func(yield func(series, *sample) bool) {
		for number, line := range sampleLines(page) {
			id := seriesOf(nameOf(line))
			if id == otherSeries {
				continue
			}
			if !p.sample.readPlain(line) {
				if err := p.slow.read(line, &p.sample); err != nil {
					p.refuse(number, err)
					continue
				}
			}
			if !yield(id, &p.sample) {
				return
			}
		}
	}
}

func (p *lineParser) refuse(number int, cause error) {
	if p.bad == 0 {
		p.badLine, p.badCause = number, cause
	}
	p.bad++
}

// err says which lines could not be read, nil if all could.
func (p *lineParser) err() error {
	if p.bad == 0 {
		return nil
	}
	return fmt.Errorf("metrics: %d unreadable lines, first line %d: %w", p.bad, p.badLine, p.badCause)
}

// sampleLines yields what may be sample lines, with their number from 1:
// everything that is neither blank nor a comment, without blanks around it.
func sampleLines(page []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		page = bytes.TrimPrefix(page, []byte("\ufeff"))
		for number := 1; len(page) > 0; number++ {
			var line []byte
			if end := bytes.IndexByte(page, '\n'); end >= 0 {
				line, page = page[:end], page[end+1:]
			} else {
				line, page = page, nil
			}
			for len(line) > 0 && blank(line[0]) {
				line = line[1:]
			}
			if len(line) == 0 || line[0] == '#' {
				continue
			}
			for blank(line[len(line)-1]) {
				line = line[:len(line)-1]
			}
			if !yield(number, line) {
				return
			}
		}
	}
}

// blank tells what can stand around a line, CRLF's first byte among it.
func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// nameOf returns a sample line's metric name. It runs for every line: three
// searches for one byte are faster than one loop that looks for all three.
func nameOf(line []byte) []byte {
	for _, end := range [...]byte{'{', ' ', '\t'} {
		if i := bytes.IndexByte(line, end); i >= 0 {
			line = line[:i]
		}
	}
	return line
}

// shortName returns what follows an engine's prefix in a name, nil if the name
// does not have it. Dialects write a colon behind it, and relabellings an
// underscore.
func shortName(name []byte, prefix string) []byte {
	if len(name) <= len(prefix) || string(name[:len(prefix)]) != prefix {
		return nil
	}
	if c := name[len(prefix)]; c != ':' && c != '_' {
		return nil
	}
	return name[len(prefix)+1:]
}

// isMetricsPage tells whether a page in which no engine was found is a metrics
// page at all. One without anything is: an engine that has not counted yet
// (vllm#8612).
func isMetricsPage(page []byte) bool {
	const tries = 16 // a page of another kind does not become one further down
	var slow expfmtLine
	var s sample
	found, lines := false, 0
	for _, line := range sampleLines(page) {
		found = s.readPlain(line) || slow.read(line, &s) == nil
		if lines++; found || lines == tries {
			break
		}
	}
	return found || lines == 0
}
