package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/warmroute/warmroute"
)

// ErrFixed is wrapped by the error about a field that cannot be changed while the
// gateway runs.
var ErrFixed = errors.New("cannot be changed while the gateway runs: restart it")

// Error is a mistake in a configuration text.
type Error struct {
	// File is the name that the text was given.
	File string
	// Line and Column are where it is, from 1, columns in bytes.
	Line, Column int
	// Field is the path of the field, such as pools.qwen.spill or endpoints[2].url;
	// empty if it is the text as a whole.
	Field string
	// Err is what is wrong: a [*warmroute.ConfigError] where the value is not allowed.
	Err error
}

// Error is file:line:column: field: what is wrong.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	var refused *warmroute.ConfigError
	if errors.As(e.Err, &refused) {
		fmt.Fprintf(&b, "%q refused; allowed: %s", refused.Value, refused.Allowed)
	} else {
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// maxErrors bounds how many mistakes are told of one text.
const maxErrors = 20

// mistakes collects those of one text.
type mistakes struct {
	file string
	all  []error
}

func (m *mistakes) add(n *Node, path []any, err error) {
	if len(m.all) < maxErrors {
		m.all = append(m.all, &Error{File: m.file, Line: n.Line, Column: n.Column, Field: pathText(path), Err: err})
	}
}

func (m *mistakes) err() error { return errors.Join(m.all...) }

func pathText(path []any) string {
	var b strings.Builder
	for i, step := range path {
		switch step := step.(type) {
		case int:
			b.WriteString("[" + strconv.Itoa(step) + "]")
		case string:
			if i > 0 {
				b.WriteByte('.')
			}
			if strings.ContainsAny(step, ".[] \"") || step == "" {
				step = strconv.Quote(step)
			}
			b.WriteString(step)
		}
	}
	return b.String()
}

// below is the path with more steps; a copy, for paths are kept.
func below(path []any, steps ...any) []any {
	return append(append(make([]any, 0, len(path)+len(steps)), path...), steps...)
}
