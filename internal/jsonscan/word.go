package jsonscan

// isWordByte reports whether c can be part of a number, true, false or null.
func isWordByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '-' || c == '+' || c == '.'
}

// word goes on with a number or literal at p[i]. It returns where it stopped
// and whether a member is to be reported.
func (s *Scanner) word(p []byte, i int) (int, bool) {
	from := i
	for i < len(p) && isWordByte(p[i]) {
		i++
	}
	piece, where := p[from:i], inPiece
	text := piece
	if i == len(p) || s.stored > 0 || len(piece) > s.textLimit() {
		if !s.long && !s.store(piece) {
			s.long = true
			// What there is room for tells a number from anything else.
			s.store(piece[:s.textLimit()-s.stored])
		}
		s.state = inWord
		if i == len(p) {
			return i, false
		}
		text, where = s.text(), inStorage
	}

	switch {
	case s.long && (text[0] == '-' || '0' <= text[0] && text[0] <= '9'):
		return i, s.end(Number, nowhere, nil)
	case string(text) == "null":
		return i, s.end(Null, where, piece)
	case string(text) == "true", string(text) == "false":
		return i, s.end(Bool, where, piece)
	case !s.long && isNumber(text):
		return i, s.end(Number, where, piece)
	}
	s.state = atError
	return i, false
}

// isNumber reports whether b is a number by the JSON grammar.
func isNumber(b []byte) bool {
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	whole := digits(b)
	if whole == 0 || whole > 1 && b[0] == '0' {
		return false
	}
	b = b[whole:]
	if len(b) > 0 && b[0] == '.' {
		fraction := digits(b[1:])
		if fraction == 0 {
			return false
		}
		b = b[1+fraction:]
	}
	if len(b) > 0 && b[0]|0x20 == 'e' {
		b = b[1:]
		if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
			b = b[1:]
		}
		exponent := digits(b)
		return exponent > 0 && exponent == len(b)
	}
	return len(b) == 0
}

// digits is how many decimal digits b begins with.
func digits(b []byte) int {
	n := 0
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	return n
}
