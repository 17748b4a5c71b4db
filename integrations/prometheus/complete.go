package warmprom

import (
	"reflect"

	"github.com/warmroute/warmroute"
)

// complete is stats of which nothing is unknown: one pool, one replica, one of
// whatever else there may be several of. Exported, they have a sample in every
// family, and so tell the label names of all.
func complete() warmroute.Stats {
	var s warmroute.Stats
	fill(reflect.ValueOf(&s).Elem())
	return s
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() { // not those of a time.Time
				fill(f)
			}
		}
	}
}
