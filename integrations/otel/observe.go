package warmotel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/families"
	"github.com/warmroute/warmroute/metrics"
)

// Source is what has stats: a [*warmroute.Router].
type Source interface{ Stats() warmroute.Stats }

// Observe has each collection of metrics read the source's stats once, and gives
// what [warmroute.Stats.Export] does, but for its histograms, which cannot be
// observed: see warmroute.queue.wait and warmroute.first_byte. The names are those
// of the Prometheus text without unit and suffix, warmroute_requests_total being
// warmroute.requests, so that an exporter to Prometheus gives them back.
//
// The registration's Unregister ends it. The error is a meter's that refuses an
// instrument.
func (i *Instrumentation) Observe(source Source) (metric.Registration, error) {
	o := observation{counters: map[string]metric.Float64ObservableCounter{}, gauges: map[string]metric.Float64ObservableGauge{}}
	var all []metric.Observable
	var errs []error
	for _, f := range families.All() {
		name, unit := instrumentOf(f)
		switch f.Kind {
		case metrics.KindCounter:
			c, err := i.meter.Float64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(f.Help))
			o.counters[f.Name], all, errs = c, append(all, c), append(errs, err)
		case metrics.KindGauge:
			g, err := i.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(f.Help))
			o.gauges[f.Name], all, errs = g, append(all, g), append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("warmotel: %w", err)
	}
	r, err := i.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		o := o // the family is that of one collection
		o.to = to
		source.Stats().Export(&o)
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("warmotel: %w", err)
	}
	return r, nil
}

// instrumentOf is a family's name and unit as OpenTelemetry has them.
func instrumentOf(f families.Family) (name, unit string) {
	name = strings.TrimSuffix(f.Name, "_total")
	for _, u := range [...]struct{ suffix, unit string }{{"_per_second", ""}, {"_seconds", "s"}, {"_ratio", "1"}} {
		if s, ok := strings.CutSuffix(name, u.suffix); ok {
			if u.unit != "" {
				name = s
			}
			unit = u.unit
			break
		}
	}
	return strings.Replace(name, "_", ".", 1), unit
}

// observation gives the samples of one collection to an observer.
type observation struct {
	counters map[string]metric.Float64ObservableCounter
	gauges   map[string]metric.Float64ObservableGauge
	to       metric.Observer
	family   string
}

// Family implements [metrics.Sink].
func (o *observation) Family(name, _ string, _ metrics.Kind) { o.family = name }

// Sample implements [metrics.Sink].
func (o *observation) Sample(value float64, labels ...string) {
	attributes := make([]attribute.KeyValue, 0, len(labels)/2)
	for pair := range slices.Chunk(labels, 2) {
		attributes = append(attributes, attribute.String(pair[0], strings.ToValidUTF8(pair[1], "\ufffd")))
	}
	with := metric.WithAttributes(attributes...)
	if c, ok := o.counters[o.family]; ok {
		o.to.ObserveFloat64(c, value, with)
	} else if g, ok := o.gauges[o.family]; ok {
		o.to.ObserveFloat64(g, value, with)
	}
}

// Histogram implements [metrics.Sink]. An instrument that is observed cannot be a
// histogram.
func (o *observation) Histogram(metrics.HistogramSnapshot, ...string) {}
