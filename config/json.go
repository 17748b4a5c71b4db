package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// MaxSize is the most that a configuration text may have, in bytes.
	MaxSize = 4 << 20
	// maxDepth is how deep values may lie in each other.
	maxDepth = 32
)

// ParseJSON reads JSON into nodes. Comments, // to the end of the line and /* */,
// count as spaces. Two fields of one name, text behind the value, and values that lie
// more than 32 deep are refused. The error is an [*Error].
func ParseJSON(file string, text []byte) (*Node, error) {
	p := parser{file: file, text: text}
	if len(text) > MaxSize {
		return nil, p.errorAt(0, nil, fmt.Errorf("longer than %d bytes", MaxSize))
	}
	if i := p.blankComments(); i >= 0 {
		return nil, p.errorAt(i, nil, errors.New("comment does not end"))
	}
	p.decoder = json.NewDecoder(bytes.NewReader(p.text))
	p.decoder.UseNumber()
	n, err := p.value(nil)
	if err != nil {
		return nil, err
	}
	at := p.next()
	if _, err := p.decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, p.errorAt(at, nil, errors.New("more text behind the configuration"))
	}
	return n, nil
}

type parser struct {
	file    string
	text    []byte // with spaces in the place of comments
	decoder *json.Decoder
	line    int // of offset, counted on as the text is read
	column  int
	offset  int
}

// blankComments returns where a comment begins that does not end, or -1.
func (p *parser) blankComments() int {
	text := bytes.Clone(p.text)
	p.text = text
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case bytes.HasPrefix(text[i:], []byte("//")):
			for ; i < len(text) && text[i] != '\n'; i++ {
				text[i] = ' '
			}
		case bytes.HasPrefix(text[i:], []byte("/*")):
			end := bytes.Index(text[i+2:], []byte("*/"))
			if end < 0 {
				return i
			}
			for end += i + 4; i < end; i++ {
				if text[i] != '\n' {
					text[i] = ' '
				}
			}
			i--
		}
	}
	return -1
}

// next is where the next token begins.
func (p *parser) next() int {
	i := int(p.decoder.InputOffset())
	for i < len(p.text) && bytes.IndexByte([]byte(" \t\r\n,:"), p.text[i]) >= 0 {
		i++
	}
	return i
}

// place is the line and column of an offset, which must not go back.
func (p *parser) place(offset int) (line, column int) {
	if p.line == 0 {
		p.line, p.column = 1, 1
	}
	for ; p.offset < min(offset, len(p.text)); p.offset++ {
		p.column++
		if p.text[p.offset] == '\n' {
			p.line, p.column = p.line+1, 1
		}
	}
	return p.line, p.column
}

func (p *parser) errorAt(offset int, path []any, err error) error {
	line, column := p.place(offset)
	return &Error{File: p.file, Line: line, Column: column, Field: pathText(path), Err: err}
}

func (p *parser) token(path []any) (json.Token, int, error) {
	at := p.next()
	token, err := p.decoder.Token()
	if err == nil {
		return token, at, nil
	}
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err, at = errors.New("the text ends too early"), len(p.text)
	case errors.As(err, &syntax):
		at = max(at, int(syntax.Offset)-1)
	}
	return nil, at, p.errorAt(at, path, err)
}

func (p *parser) value(path []any) (*Node, error) {
	token, at, err := p.token(path)
	if err != nil {
		return nil, err
	}
	if len(path) > maxDepth {
		return nil, p.errorAt(at, nil, fmt.Errorf("values lie more than %d deep", maxDepth))
	}
	n := new(Node)
	n.Line, n.Column = p.place(at)
	switch v := token.(type) {
	case nil:
		n.Kind = Null
	case bool:
		n.Kind, n.Text = Bool, fmt.Sprint(v)
	case json.Number:
		n.Kind, n.Text = Number, v.String()
	case string:
		n.Kind, n.Text = String, v
	case json.Delim:
		if v == '{' {
			err = p.fields(n, path)
		} else {
			err = p.items(n, path)
		}
	}
	return n, err
}

func (p *parser) items(n *Node, path []any) error {
	n.Kind = List
	for p.decoder.More() {
		item, err := p.value(below(path, len(n.List)))
		if err != nil {
			return err
		}
		n.List = append(n.List, item)
	}
	_, _, err := p.token(path) // the bracket
	return err
}

func (p *parser) fields(n *Node, path []any) error {
	n.Kind = Map
	names := map[string]bool{}
	for p.decoder.More() {
		token, at, err := p.token(path)
		if err != nil {
			return err
		}
		name, ok := token.(string)
		if !ok {
			return p.errorAt(at, path, errors.New("a field's name must be a string"))
		}
		if names[name] {
			return p.errorAt(at, below(path, name), errors.New("field is there twice"))
		}
		names[name] = true
		f := Field{Name: name}
		f.Line, f.Column = p.place(at)
		if f.Value, err = p.value(below(path, name)); err != nil {
			return err
		}
		n.Fields = append(n.Fields, f)
	}
	_, _, err := p.token(path) // the brace
	return err
}
