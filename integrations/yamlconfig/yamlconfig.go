// Package yamlconfig reads a gateway's configuration that is written in YAML. It is
// the same as that in JSON, field by field, with the same checks and errors: see
// package config. It is a module of its own since the library needs no YAML.
package yamlconfig

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/warmroute/warmroute/config"
)

// Parse is [config.Parse] for YAML.
func Parse(file string, text []byte) (*config.Config, error) {
	root, err := Read(file, text)
	if err != nil {
		return nil, err
	}
	return config.FromNode(file, root)
}

// maxDepth is how deep values may lie in each other.
const maxDepth = 32

// Read makes nodes of one YAML document. Anchors and aliases, merge keys, keys that
// are no strings, tags of one's own, two fields of one name and further documents
// are refused: JSON has none of them, and a list of aliases of aliases grows without
// bound. The error is a [*config.Error].
func Read(file string, text []byte) (*config.Node, error) {
	r := reader{file}
	if len(text) > config.MaxSize {
		return nil, r.mistake(1, 1, "", fmt.Errorf("longer than %d bytes", config.MaxSize))
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	var document, more yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, r.syntax(err)
	}
	if err := decoder.Decode(&more); err == nil {
		return nil, r.mistake(more.Line, more.Column, "", errors.New("more text behind the configuration"))
	}
	if len(document.Content) != 1 {
		return nil, r.mistake(1, 1, "", errors.New("the text ends too early"))
	}
	return r.node(document.Content[0], "", 0)
}

type reader struct{ file string }

func (r reader) mistake(line, column int, field string, err error) error {
	return &config.Error{File: r.file, Line: max(line, 1), Column: max(column, 1), Field: field, Err: err}
}

var lineOf = regexp.MustCompile(`^yaml: line (\d+): `)

// syntax takes the line out of the text of an error, where the package has it.
func (r reader) syntax(err error) error {
	line := 1
	text := err.Error()
	if m := lineOf.FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
		text = strings.TrimPrefix(text, m[0])
	}
	if text == "EOF" {
		text = "the text ends too early"
	}
	return r.mistake(line, 1, "", errors.New(strings.TrimPrefix(text, "yaml: ")))
}

func (r reader) node(y *yaml.Node, path string, depth int) (*config.Node, error) {
	refuse := func(format string, args ...any) (*config.Node, error) {
		return nil, r.mistake(y.Line, y.Column, path, fmt.Errorf(format, args...))
	}
	switch {
	case depth > maxDepth:
		return refuse("values lie more than %d deep", maxDepth)
	case y.Anchor != "" || y.Kind == yaml.AliasNode:
		return refuse("anchors and aliases are not used here")
	}
	n := &config.Node{Line: y.Line, Column: y.Column, Text: y.Value}
	switch tag := y.ShortTag(); tag {
	case "!!null":
		n.Kind = config.Null
	case "!!bool":
		n.Kind, n.Text = config.Bool, strings.ToLower(y.Value)
	case "!!int", "!!float":
		n.Kind = config.Number
	case "!!str":
		n.Kind = config.String
	case "!!seq":
		n.Kind = config.List
		for i, item := range y.Content {
			one, err := r.node(item, path+"["+strconv.Itoa(i)+"]", depth+1)
			if err != nil {
				return nil, err
			}
			n.List = append(n.List, one)
		}
	case "!!map":
		n.Kind = config.Map
		if err := r.fields(n, y, path, depth); err != nil {
			return nil, err
		}
	default:
		return refuse("%s is no value of a configuration", tag)
	}
	return n, nil
}

func (r reader) fields(n *config.Node, y *yaml.Node, path string, depth int) error {
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" || key.Anchor != "" {
			return r.mistake(key.Line, key.Column, path, errors.New("a field's name must be a string"))
		}
		below := strings.TrimPrefix(path+"."+key.Value, ".")
		if n.Field(key.Value) != nil {
			return r.mistake(key.Line, key.Column, below, errors.New("field is there twice"))
		}
		value, err := r.node(y.Content[i+1], below, depth+1)
		if err != nil {
			return err
		}
		n.Fields = append(n.Fields, config.Field{Name: key.Value, Line: key.Line, Column: key.Column, Value: value})
	}
	return nil
}
