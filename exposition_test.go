package warmroute_test

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/metrics"
)

// filler gives every number, text and list in a value something that is found
// nowhere else, and writes down where it put it.
type filler struct {
	next  int
	paths map[string]string // by what was put there
	flags []reflect.Value
}

func (f *filler) fill(v reflect.Value, path string) {
	put := func() int {
		f.next++
		f.paths[fmt.Sprint(f.next)] = path
		return f.next
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0), path)
	case reflect.Struct:
		switch v.Type() {
		case reflect.TypeFor[time.Time]():
			v.Set(reflect.ValueOf(time.Unix(int64(put()), 0)))
			return
		case reflect.TypeFor[metrics.HistogramSnapshot]():
			v.Set(reflect.ValueOf(metrics.HistogramSnapshot{Bounds: []float64{1}, Counts: []uint64{0, 0}, Sum: float64(put())}))
			return
		}
		for i := range v.NumField() {
			f.fill(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.String:
		v.SetString(fmt.Sprint("text-", put()))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(put()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(put()))
	case reflect.Float64:
		v.SetFloat(float64(put()))
	case reflect.Bool:
		v.SetBool(true)
		f.flags = append(f.flags, v)
	default:
		panic("stats have a field of a kind that this test does not know: " + path)
	}
}

// everything is a sink that keeps all that it is given.
type everything struct{ said map[string]bool }

func (e *everything) Family(string, string, metrics.Kind) {}

func (e *everything) Sample(value float64, labels ...string) {
	e.said[fmt.Sprint(value)] = true
	for i := 1; i < len(labels); i += 2 {
		e.said[strings.TrimPrefix(labels[i], "text-")] = true
	}
}

func (e *everything) Histogram(h metrics.HistogramSnapshot, labels ...string) {
	e.Sample(h.Sum, labels...)
}

// Whatever the stats count is exported, but for what follows from the rest.
func TestExportLeavesNothingOut(t *testing.T) {
	var s warmroute.Stats
	f := filler{next: 10, paths: map[string]string{}}
	f.fill(reflect.ValueOf(&s).Elem(), "Stats")
	got := everything{said: map[string]bool{}}
	s.Export(&got)
	var missing []string
	for said, path := range f.paths {
		if !got.said[said] {
			missing = append(missing, path)
		}
	}
	slices.Sort(missing)
	assert.Equal(t, []string{
		"Stats.Discovery.Failing", // that it is
		"Stats.Discovery.Problem",
		"Stats.Pools.Gaps.Expected", // by replica
		"Stats.Pools.Gaps.Kept",
		"Stats.Pools.Gaps.Turns",
		"Stats.Pools.Gaps.UpTo",
		"Stats.Pools.Problems",                // their number
		"Stats.Pools.Queue.Residency",         // a setting; Active tells what comes of it
		"Stats.Pools.Replicas.Finding.Reason", // for people
		"Stats.Pools.Replicas.Finding.Since",
		"Stats.Pools.Replicas.Finding.Source",
		"Stats.Pools.Replicas.Finding.State",     // one of those that there are, which this is not
		"Stats.Pools.Replicas.Gaps.Turns",        // less Kept
		"Stats.Pools.Replicas.VerifiedShare",     // of Turns
		"Stats.Pools.Sessions",                   // the sum over the replicas
		"Stats.Pools.StickyShare",                // of Requests
		"Stats.Pools.Tokens.CachedShareLastHour", // of PromptCached and PromptComputed
		"Stats.Pools.VerifiedShare",              // of Turns
	}, missing)
}

func TestExportTellsFlags(t *testing.T) {
	var s warmroute.Stats
	f := filler{paths: map[string]string{}}
	f.fill(reflect.ValueOf(&s).Elem(), "Stats")
	text := func() string {
		var b strings.Builder
		s.Export(metrics.NewWriter(&b))
		return b.String()
	}
	all := text()
	assert.NotEmpty(t, f.flags)
	for _, flag := range f.flags {
		flag.SetBool(false)
		assert.NotEqual(t, all, text())
		flag.SetBool(true)
	}
}

// The text is what Prometheus itself reads, also with names that need escapes and
// numbers of any size.
func TestExportIsReadable(t *testing.T) {
	for name, strange := range map[string]string{"plain": "m", "escapes": "a\"b\\c\nd", "not UTF-8": "\xff\xfe", "empty": ""} {
		t.Run(name, func(t *testing.T) {
			var s warmroute.Stats
			f := filler{paths: map[string]string{}}
			f.fill(reflect.ValueOf(&s).Elem(), "Stats")
			s.Pools[0].Model, s.Pools[0].Replicas[0].Name = strange, strange
			huge := math.Inf(1)
			s.Pools[0].Replicas[0].KVUsage = &huge
			var text strings.Builder
			w := metrics.NewWriter(&text)
			s.Export(w)
			require.NoError(t, w.Err())
			parser := expfmt.NewTextParser(model.LegacyValidation)
			families, err := parser.TextToMetricFamilies(strings.NewReader(text.String()))
			require.NoError(t, err)
			for _, name := range slices.Sorted(maps.Keys(families)) {
				family := families[name]
				assert.NotEmpty(t, family.GetHelp(), name)
				require.NotEmpty(t, family.GetMetric(), "%s: every family has a sample if all is known", name)
				assert.Equal(t, family.GetType().String() == "COUNTER", strings.HasSuffix(name, "_total"), name)
				seen := map[string]bool{}
				for _, m := range family.GetMetric() {
					series := fmt.Sprint(m.GetLabel())
					assert.False(t, seen[series], "%s has %s twice", name, series)
					seen[series] = true
				}
			}
		})
	}
}
