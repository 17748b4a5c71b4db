package config

import (
	"reflect"
	"slices"
)

// Fixed returns an error that joins an [*Error], which wraps [ErrFixed], for each
// field in which next differs and that cannot be changed in a gateway that runs
// with c. What can are endpoints, discovery, and the affinity and spill of pools; of
// pools whose model is not among those in use, everything.
func (c *Config) Fixed(next *Config, inUse ...string) error {
	m := &mistakes{file: next.file}
	fixed := func(path []any) { m.add(next.root.find(path), path, ErrFixed) }
	was, is := reflect.ValueOf(c).Elem(), reflect.ValueOf(next).Elem()
	for i := range is.NumField() {
		switch name := is.Type().Field(i).Tag.Get("json"); name {
		case "", "endpoints", "discovery", "defaults", "pools":
		default:
			differences(was.Field(i), is.Field(i), []any{name}, fixed)
		}
	}
	for _, model := range inUse {
		differences(reflect.ValueOf(c.pool(model)), reflect.ValueOf(next.pool(model)), nil, func(path []any) {
			field, _ := path[0].(string)
			if field == "affinity" || field == "spill" {
				return
			}
			where := below([]any{"pools", model}, path...)
			if !next.has(where) {
				where = below([]any{"defaults"}, path...)
			}
			fixed(where)
		})
	}
	return m.err()
}

// pool is what holds for a model: its own, else the defaults'. Adapters add up.
func (c *Config) pool(model string) Pool {
	p, own := c.Defaults, c.Pools[model]
	for i := range reflect.TypeFor[Pool]().NumField() {
		if v := reflect.ValueOf(own).Field(i); !v.IsZero() {
			reflect.ValueOf(&p).Elem().Field(i).Set(v)
		}
	}
	p.Adapters = slices.Concat(c.Defaults.Adapters, own.Adapters)
	return p
}

// differences tells the paths of the fields in which two values of one type differ,
// the innermost structs' fields.
func differences(a, b reflect.Value, path []any, tell func([]any)) {
	if a.Kind() == reflect.Struct {
		for i := range a.NumField() {
			if name := a.Type().Field(i).Tag.Get("json"); name != "" {
				differences(a.Field(i), b.Field(i), below(path, name), tell)
			}
		}
		return
	}
	if empty(a) && empty(b) {
		return // [] and nothing say the same
	}
	if !reflect.DeepEqual(a.Interface(), b.Interface()) {
		tell(path)
	}
}

func empty(v reflect.Value) bool { return v.Kind() == reflect.Slice && v.Len() == 0 }
