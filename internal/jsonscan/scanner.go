// Package jsonscan finds the small scalars near the top of one large JSON
// object that arrives in pieces of any size, such as the model name in a
// request body or the token counts in a response.
//
// It reports the members of the outermost object, and of the objects and
// arrays below it that the caller asks to descend into; the rest is passed
// over at memory speed. It never keeps the document, never decodes what is
// passed over, and never grows with the input: nesting is a counter, a key or
// a value over its limit is not reported. It does not check the grammar of
// what it passes over, so a document it accepts is not always valid JSON;
// every valid JSON object is accepted.
package jsonscan

// Limits of a Scanner.
const (
	// MaxDepth is how many containers deep members are reported, the
	// outermost object being the first. The deepest token count of the served
	// APIs, response.usage.input_tokens_details.cached_tokens, is at four.
	MaxDepth = 4
	// MaxKey is the longest key, in bytes after decoding, that is reported. A
	// member with a longer key is passed over.
	MaxKey = 64
	// MinValue is the smallest limit on values, in bytes after decoding, and
	// the one of a zero Scanner.
	MinValue = 32
)

// Token is what Next stopped at.
type Token uint8

// The tokens.
const (
	More    Token = iota // all of the piece is read, the object has not ended
	Member               // a member was read: see Key, Kind, Value and Descend
	End                  // the object has ended; what follows it is not read
	Invalid              // not a JSON object; nothing more will be reported
)

// Kind is the type of a member's value.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	String
	Object
	Array
)

// state says what the next byte is read as.
type state uint8

const (
	atStart        state = iota // before the outermost object
	atFirstKey                  // after {
	atNextKey                   // after , in an object
	atColon                     // after a key
	atValue                     // after a colon
	atFirstElement              // after [
	atNextElement               // after , in an array
	atDelimiter                 // after a value
	inString                    // in a key or value that is being captured
	inLongString                // in one that is over its limit
	inWord                      // in a number, true, false or null
	inSkipped                   // in a container that is passed over
	inSkippedText               // in a string in such a container
	atEnd
	atError
)

// found is where the text of a scalar is.
type found uint8

const (
	nowhere   found = iota // it is over the limit
	inPiece                // whole in the piece
	inStorage              // put together from several, or decoded
)

// Scanner reads one JSON object. The zero value is ready, with a value limit
// of MinValue; Reset makes it ready again. It must not be copied after first
// use, nor used by two goroutines at once.
//
//	for {
//		n, token := s.Next(piece)
//		piece = piece[n:]
//		if token != jsonscan.Member {
//			break // More: give the next piece
//		}
//		...
//	}
type Scanner struct {
	state   state
	kind    Kind
	key     bool   // the string being read is a key
	mute    bool   // the member being read has a key over the limit
	opened  bool   // the last token was a container, Descend is allowed
	long    bool   // the word being read is over the limit
	where   found  // where the member's value is
	escaped bool   // in a string passed over: the next byte is escaped
	escape  escape // in a string being captured: where in an escape
	depth   uint8
	arrays  uint8  // bit i is set if the container i is an array
	skipped int    // containers open in the one passed over
	hex     uint16 // digits so far of a \u escape
	high    uint16 // high surrogate that waits for its low one, or 0

	limit  int    // of values, 0 means MinValue
	piece  []byte // value that is whole in the piece
	stored int    // bytes of the key or value in its storage
	large  []byte // stores a value that is not, under a large limit; made once
	small  [MinValue]byte

	keyLen [MaxDepth]uint8
	keys   [MaxDepth][MaxKey]byte
}

// Reset makes the Scanner ready for another object. Values over limit bytes,
// after decoding, are reported without their text; a limit under MinValue
// counts as MinValue. Memory made for an earlier object is kept.
func (s *Scanner) Reset(limit int) {
	s.state, s.depth, s.opened, s.where, s.piece = atStart, 0, false, nowhere, nil
	s.limit = limit
}

// Done reports whether the object was read to its end.
func (s *Scanner) Done() bool { return s.state == atEnd }

// Depth is the number of keys in the path of the member just reported, at
// least 1 and at most MaxDepth.
func (s *Scanner) Depth() int { return int(s.depth) }

// Key is the i-th key, decoded, in the path of the member just reported; the
// last is its own, at Depth()-1. An element of an array has an empty key of
// its own. The bytes are valid until the next call of Next.
func (s *Scanner) Key(i int) []byte { return s.keys[i][:s.keyLen[i]] }

// Kind is the type of the member just reported. An Object or Array is
// reported where it opens, a scalar where it has ended.
func (s *Scanner) Kind() Kind { return s.kind }

// Value is the text of the scalar just reported: a decoded string, or a
// number, true, false or null as written. It is not ok for a container and
// for a scalar over the limit. The bytes are valid until the next call of
// Next. As encoding/json does, a lone surrogate is decoded as U+FFFD; invalid
// UTF-8 is left as it is.
func (s *Scanner) Value() (text []byte, ok bool) {
	if s.where == inStorage {
		return s.text(), true
	}
	return s.piece, s.where == inPiece
}

// Descend asks for the members of the Object or the elements of the Array
// just reported, which is otherwise passed over. It reports false, and the
// container is passed over, below MaxDepth.
func (s *Scanner) Descend() bool {
	if !s.opened || s.depth == MaxDepth {
		return false
	}
	s.opened = false
	s.keyLen[s.depth] = 0
	if s.kind == Array {
		s.arrays |= 1 << s.depth
		s.state = atFirstElement
	} else {
		s.arrays &^= 1 << s.depth
		s.state = atFirstKey
	}
	s.depth++
	return true
}

// Next reads p up to the next token and returns how many bytes of p it read.
// After a Member, the rest of p is to be given again; after More, the next
// piece. End and Invalid are final until Reset.
func (s *Scanner) Next(p []byte) (n int, token Token) {
	s.opened, s.where, s.piece = false, nowhere, nil
	i := 0
	for i < len(p) {
		switch s.state {
		case inSkipped, inSkippedText:
			i = s.skip(p, i)
			continue
		case inLongString:
			var ended bool
			if i, ended = s.skipString(p, i); ended && s.endString(nowhere, nil) {
				return i, Member
			}
			continue
		case inString:
			var report bool
			if i, report = s.capture(p, i); report {
				return i, Member
			}
			continue
		case inWord:
			var report bool
			if i, report = s.word(p, i); report {
				return i, Member
			}
			continue
		case atEnd:
			return i, End
		case atError:
			return i, Invalid
		}

		c := p[i]
		if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
			i++
			continue
		}
		switch s.state {
		case atStart:
			if c != '{' {
				return s.fail(i)
			}
			i++
			s.depth, s.arrays, s.mute = 1, 0, false
			s.state = atFirstKey
		case atFirstKey, atNextKey:
			if c == '}' && s.state == atFirstKey {
				i++
				if s.close() {
					return i, End
				}
				continue
			}
			if c != '"' {
				return s.fail(i)
			}
			i, _ = s.openString(true, p, i+1)
		case atColon:
			if c != ':' {
				return s.fail(i)
			}
			i++
			s.state = atValue
		case atValue, atFirstElement, atNextElement:
			if c == ']' && s.state == atFirstElement {
				i++
				s.close() // an array is never the outermost container
				continue
			}
			switch {
			case c == '"':
				var report bool
				if i, report = s.openString(false, p, i+1); report {
					return i, Member
				}
			case c == '{' || c == '[':
				i++
				s.kind = Object
				if c == '[' {
					s.kind = Array
				}
				s.state, s.skipped = inSkipped, 1
				if !s.mute {
					s.opened = true
					return i, Member
				}
			case isWordByte(c):
				s.state, s.key, s.stored, s.long = inWord, false, 0, false
			default:
				return s.fail(i)
			}
		case atDelimiter:
			array := s.arrays&(1<<(s.depth-1)) != 0
			switch {
			case c == ',' && array:
				s.state = atNextElement
			case c == ',':
				s.state = atNextKey
			case c == ']' && array, c == '}' && !array:
				if s.close() {
					return i + 1, End
				}
			default:
				return s.fail(i)
			}
			i++
		}
	}
	switch s.state {
	case atEnd:
		return i, End
	case atError:
		return i, Invalid
	}
	return i, More
}

func (s *Scanner) fail(i int) (int, Token) {
	s.state = atError
	return i, Invalid
}

// close leaves the innermost container and reports whether it was the
// outermost one.
func (s *Scanner) close() bool {
	s.depth--
	s.mute = false
	if s.depth == 0 {
		s.state = atEnd
		return true
	}
	s.state = atDelimiter
	return false
}

// end takes a scalar that has been read and reports whether its member is to
// be reported.
func (s *Scanner) end(kind Kind, where found, piece []byte) bool {
	s.state = atDelimiter
	if s.mute {
		return false
	}
	s.kind, s.where = kind, where
	if where == inPiece {
		s.piece = piece
	}
	return true
}
