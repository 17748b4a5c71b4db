package family

import "bytes"

// cursor reads JSON where it lies. Other than package jsonscan, which is for
// bodies in pieces, it says where a value begins and ends, and needs the body as
// far as it is known in one piece. It does not check the grammar of what it
// passes over, and never goes back, so that it takes time in proportion to the
// body.
type cursor struct {
	b   []byte
	i   int
	cut bool // the body ended within a value, or is no JSON
}

// next is the next byte that is no white space, which it stays before; 0 at the
// end.
func (c *cursor) next() byte {
	for c.i < len(c.b) {
		switch x := c.b[c.i]; x {
		case ' ', '\t', '\r', '\n':
			c.i++
		default:
			return x
		}
	}
	return 0
}

// open passes the bracket that opens a container and returns it.
func (c *cursor) open() byte {
	x := c.next()
	if x != 0 {
		c.i++
	}
	return x
}

// element goes to the next element of an array, and reports whether there is one.
func (c *cursor) element(first bool) bool { return c.more(first, ']') }

// member goes to the value of the next member of an object, and returns its key
// as it is escaped; not ok if there is none.
func (c *cursor) member(first bool) (key []byte, ok bool) {
	if !c.more(first, '}') {
		return nil, false
	}
	if c.next() != '"' {
		return nil, c.stop()
	}
	key, _ = c.str()
	if c.next() != ':' {
		return nil, c.stop()
	}
	c.i++
	if c.next() == 0 {
		return nil, c.stop()
	}
	return key, true
}

// more passes a comma, or the end of a container.
func (c *cursor) more(first bool, end byte) bool {
	x := c.next()
	switch {
	case c.cut:
		return false
	case x == end:
		c.i++
		return false
	case x == ',' && !first:
		c.i++
		x = c.next()
	case !first:
		return c.stop()
	}
	if x == 0 || x == end {
		return c.stop()
	}
	return true
}

// stop ends the reading. It returns false.
func (c *cursor) stop() bool {
	c.i, c.cut = len(c.b), true
	return false
}

// str reads a string whose quote is next. It returns what is between the quotes,
// and whether it is whole; of one that is not, an escape sequence at its end may
// be left out.
func (c *cursor) str() (text []byte, whole bool) {
	from := c.i + 1
	for i := from; ; {
		n := bytes.IndexByte(c.b[i:], '"')
		if n < 0 {
			c.stop()
			return c.b[min(from, len(c.b)):], false
		}
		i += n
		slashes := 0
		for i-slashes > from && c.b[i-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			c.i = i + 1
			return c.b[from:i], true
		}
		i++
	}
}

// value reads a value and returns it as it is written.
func (c *cursor) value() []byte {
	x := c.next()
	from := c.i
	switch x {
	case 0, ',', ':', ']', '}':
		c.stop()
	case '"':
		c.str()
	case '{', '[':
		c.container()
	default:
		for c.i < len(c.b) && !ends(c.b[c.i]) {
			c.i++
		}
	}
	return c.b[from:c.i]
}

// container reads to the end of the container whose bracket is next.
func (c *cursor) container() {
	for depth := 0; c.i < len(c.b); {
		switch c.b[c.i] {
		case '"':
			c.str()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		c.i++
		if depth == 0 {
			return
		}
	}
	c.stop()
}

// ends reports whether a byte ends a number or a word.
func ends(x byte) bool {
	switch x {
	case ',', ']', '}', ':', '"', '[', '{', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}
