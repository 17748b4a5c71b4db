package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// short is a value that may be written as one string instead of an object.
type short interface{ fromString(string) }

// decode puts a node into what v points to, by the json tags of structs. Fields
// that are not known, values of another kind and null are mistakes.
func (m *mistakes) decode(n *Node, path []any, v reflect.Value) {
	kind := func(want Kind) bool {
		if n.Kind == want {
			return true
		}
		m.add(n, path, fmt.Errorf("%s is wanted, not %s", want, n.Kind))
		return false
	}
	if n.Kind == Null {
		m.add(n, path, errors.New("null is no value: leave the field out"))
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if text, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if n.Kind != String && n.Kind != Number {
			m.add(n, path, fmt.Errorf("a string or a number is wanted, not %s", n.Kind))
		} else if err := text.UnmarshalText([]byte(n.Text)); err != nil {
			m.add(n, path, err)
		}
		return
	}
	if s, ok := v.Addr().Interface().(short); ok && n.Kind == String {
		s.fromString(n.Text)
		return
	}
	switch v.Kind() {
	case reflect.String:
		if kind(String) {
			v.SetString(n.Text)
		}
	case reflect.Bool:
		if kind(Bool) {
			v.SetBool(n.Text == "true")
		}
	case reflect.Int, reflect.Int64:
		if kind(Number) {
			i, err := strconv.ParseInt(n.Text, 10, 64)
			if err != nil {
				m.add(n, path, fmt.Errorf("%s is no whole number of 64 bits", n.Text))
			}
			v.SetInt(i)
		}
	case reflect.Float64:
		if kind(Number) {
			f, err := strconv.ParseFloat(n.Text, 64)
			if err != nil {
				m.add(n, path, fmt.Errorf("%s is no number of 64 bits", n.Text))
			}
			v.SetFloat(f)
		}
	case reflect.Slice:
		if kind(List) {
			v.Set(reflect.MakeSlice(v.Type(), len(n.List), len(n.List)))
			for i, item := range n.List {
				m.decode(item, below(path, i), v.Index(i))
			}
		}
	case reflect.Map:
		if kind(Map) {
			v.Set(reflect.MakeMap(v.Type()))
			for _, f := range n.Fields {
				value := reflect.New(v.Type().Elem()).Elem()
				m.decode(f.Value, below(path, f.Name), value)
				v.SetMapIndex(reflect.ValueOf(f.Name), value)
			}
		}
	case reflect.Struct:
		if kind(Map) {
			m.decodeStruct(n, path, v)
		}
	}
}

func (m *mistakes) decodeStruct(n *Node, path []any, v reflect.Value) {
	index := map[string]int{}
	var names []string
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("json"); name != "" {
			index[name] = i
			names = append(names, name)
		}
	}
	for _, f := range n.Fields {
		i, ok := index[f.Name]
		if !ok {
			m.add(&Node{Line: f.Line, Column: f.Column}, below(path, f.Name),
				fmt.Errorf("unknown field; known are %s", strings.Join(names, ", ")))
			continue
		}
		m.decode(f.Value, below(path, f.Name), v.Field(i))
	}
}
