package metrics

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// readPlain reads a line of the shape in which engines write theirs:
//
//	name{label="value",label="value"} number timestamp
//
// with or without labels and timestamp, with single spaces where they stand
// here and nowhere else, and without escapes in the values. It returns false
// for any other line, which may well be a good one: expfmt decides about those.
// What it accepts expfmt reads alike. It does not allocate once s.labels has
// grown.
func (s *sample) readPlain(line []byte) bool {
	s.labels = s.labels[:0]
	i := 0
	for i < len(line) && (nameByte(line[i], i) || line[i] == ':') {
		i++
	}
	if i == 0 {
		return false
	}
	if i < len(line) && line[i] == '{' {
		n := s.readLabels(line[i:])
		if n == 0 {
			return false
		}
		i += n
	}
	return i < len(line) && line[i] == ' ' && s.readNumbers(line[i+1:])
}

// readLabels reads the labels from the opening brace on, of which there must be
// one at least, and returns their length with both braces; 0 if the line is of
// another shape.
func (s *sample) readLabels(text []byte) int {
	for i := 1; ; i++ {
		start := i
		for i < len(text) && nameByte(text[i], i-start) {
			i++
		}
		name := text[start:i]
		if len(name) == 0 || len(text)-i < 2 || text[i] != '=' || text[i+1] != '"' || string(name) == "__name__" || s.has(name) {
			return 0
		}
		i += 2
		length := bytes.IndexByte(text[i:], '"')
		if length < 0 {
			return 0
		}
		value := text[i : i+length]
		if bytes.IndexByte(value, '\\') >= 0 || !utf8.Valid(value) {
			return 0
		}
		s.labels = append(s.labels, label{name, value})
		i += length + 1
		switch {
		case i == len(text):
			return 0
		case text[i] == '}':
			return i + 1
		case text[i] != ',':
			return 0
		}
	}
}

func (s *sample) has(name []byte) bool {
	for i := range s.labels {
		if bytes.Equal(s.labels[i].name, name) {
			return true
		}
	}
	return false
}

// readNumbers reads the value and checks the timestamp, which nobody needs.
func (s *sample) readNumbers(text []byte) bool {
	const longest = 32 // of a float64's shortest form 24 at most
	value := text
	if end := bytes.IndexByte(text, ' '); end >= 0 {
		value = text[:end]
		if !isTimestamp(text[end+1:]) {
			return false
		}
	}
	if len(value) > longest {
		return false
	}
	for _, c := range value {
		if c == '_' || c == 'p' || c == 'P' { // Go's numbers, not Prometheus's
			return false
		}
	}
	v, err := strconv.ParseFloat(string(value), 64)
	s.value = v
	return err == nil
}

// isTimestamp tells whether text is a whole number in int64's range.
func isTimestamp(text []byte) bool {
	if len(text) > 0 && text[0] == '-' {
		text = text[1:]
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) > 0 && len(text) <= 18
}

// nameByte tells whether a byte can stand at an index of a label's name.
func nameByte(c byte, index int) bool {
	return c >= 'a' && c <= 'z' || c == '_' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' && index > 0
}
