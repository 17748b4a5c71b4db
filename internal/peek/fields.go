package peek

import (
	"bytes"
	"slices"
	"strings"

	"github.com/warmroute/warmroute/internal/jsonscan"
)

// Limits of Fields.
const (
	// MaxValue is the longest value kept, in bytes after decoding.
	MaxValue = 1 << 10
	// MaxFields is how many fields are kept.
	MaxFields = 64
	// MaxNested is how many of them may be one level down, so that no object
	// however large can displace the fields of the top level.
	MaxNested = 32
)

// Fields are the short strings, numbers and bools at the top level of a JSON
// object, and the short strings one level down: what names a conversation is a
// string, and the numbers of one logit_bias would leave no room for it. Of several members with one key the last counts,
// as in Python's decoder and Go's, even if it is of another type and no field.
type Fields struct {
	entries  []entry
	complete bool
}

// entry is one field: text is its path and its value, one after the other.
type entry struct {
	text   string
	path   int // bytes of the path
	str    bool
	nested bool
}

// String returns the string at path, such as "model" or "metadata.user_id".
// It is "" when there is none, when the value is no string, is longer than
// MaxValue, or came after MaxFields others. A key with a dot is found one
// level down only.
func (f *Fields) String(path string) string { return f.find(path, true) }

// Raw returns the number or bool at the top level as it is written, such as "true" or
// "1.5", and otherwise "" as String does.
func (f *Fields) Raw(key string) string { return f.find(key, false) }

// Complete reports whether the object was read to its end. If it was not, a
// field that String misses, and a later value of one it has, may be in the
// rest.
func (f *Fields) Complete() bool { return f.complete }

func (f *Fields) find(path string, str bool) string {
	for _, e := range f.entries {
		if e.str == str && e.text[:e.path] == path {
			return e.text[e.path:]
		}
	}
	return ""
}

// member takes the member that s has just reported.
func (f *Fields) member(s *jsonscan.Scanner) {
	top := s.Key(0)
	if bytes.IndexByte(top, '.') >= 0 {
		return // its path could be mistaken for one of two levels
	}
	var nested []byte
	down := s.Depth() > 1
	if down {
		nested = s.Key(1)
	}
	f.forget(top, nested, down)
	if string(top) == "messages" {
		return // of no use to anyone here, whatever its type
	}

	switch s.Kind() {
	case jsonscan.Object:
		if !down {
			s.Descend()
		}
	case jsonscan.String, jsonscan.Number, jsonscan.Bool:
		if down && s.Kind() != jsonscan.String {
			return
		}
		value, ok := s.Value()
		if !ok || len(f.entries) == MaxFields || down && f.countNested() == MaxNested {
			return
		}
		e := entry{path: len(top), str: s.Kind() == jsonscan.String, nested: down}
		if down {
			e.path += 1 + len(nested)
			e.text = string(top) + "." + string(nested) + string(value)
		} else {
			e.text = string(top) + string(value)
		}
		f.entries = append(f.entries, e)
	}
}

// forget drops what an earlier member with the same key left behind. A member
// of the top level takes those of an earlier object with it.
func (f *Fields) forget(top, nested []byte, down bool) {
	f.entries = slices.DeleteFunc(f.entries, func(e entry) bool {
		path := e.text[:e.path]
		if !strings.HasPrefix(path, string(top)) {
			return false
		}
		rest := path[len(top):]
		if down {
			return e.nested && rest[:1] == "." && rest[1:] == string(nested)
		}
		return rest == "" || e.nested && rest[:1] == "."
	})
}

func (f *Fields) countNested() int {
	n := 0
	for _, e := range f.entries {
		if e.nested {
			n++
		}
	}
	return n
}
