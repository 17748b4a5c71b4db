// Package families lists the metric families that a router's stats are exported
// as, with what is not known until there is a sample: their label names. The
// integrations describe their instruments by it.
package families

import (
	"reflect"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/metrics"
)

// Family is one metric family.
type Family struct {
	Name, Help string
	Kind       metrics.Kind
	Labels     []string
}

// All returns all families in the order of [warmroute.Stats.Export].
func All() []Family {
	// Of these stats nothing is unknown, so that each family has a sample.
	var s warmroute.Stats
	fill(reflect.ValueOf(&s).Elem())
	var l list
	s.Export(&l)
	return l
}

// fill sets every pointer, and gives every slice one element.
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

type list []Family

func (l *list) Family(name, help string, kind metrics.Kind) {
	*l = append(*l, Family{Name: name, Help: help, Kind: kind})
}

func (l *list) Sample(_ float64, labels ...string) { l.labels(labels) }

func (l *list) Histogram(_ metrics.HistogramSnapshot, labels ...string) { l.labels(labels) }

func (l *list) labels(labels []string) {
	f := &(*l)[len(*l)-1]
	if f.Labels != nil {
		return
	}
	f.Labels = make([]string, 0, len(labels)/2)
	for i := 0; i < len(labels); i += 2 {
		f.Labels = append(f.Labels, labels[i])
	}
}
