// Package warmprom hands the counts of a [warmroute.Router] to the Prometheus
// client library (client_golang), for programs that have a registry of their own:
//
//	registry.MustRegister(warmprom.NewCollector(router))
//
// The families are those of [warmroute.Router.WriteMetrics], name for name and
// label for label. A program needs one of the two, not both: a server that scrapes
// both pages counts everything twice.
package warmprom

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/families"
	"github.com/warmroute/warmroute/metrics"
)

// Source is what has stats: a [*warmroute.Router].
type Source interface{ Stats() warmroute.Stats }

// Collector is a [prometheus.Collector] over a router's stats, which it reads once
// for each scrape. It keeps no counts of its own. It is safe for concurrent use.
//
// Several routers in one registry are told apart by a label:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"router": "a"}, registry)
type Collector struct{ source Source }

// NewCollector returns a collector of the source's stats.
func NewCollector(source Source) *Collector { return &Collector{source: source} }

// Describe sends the descriptors of all families, also of those that have no
// sample yet.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range families.All() {
		out <- prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
	}
}

// Collect sends the current counts. A family that cannot be given to the client
// library is sent as an invalid metric, which has the scrape report why.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.source.Stats().Export(&sink{out: out})
}

// sink makes metrics of families.
type sink struct {
	out        chan<- prometheus.Metric
	name, help string
	kind       metrics.Kind
	desc       *prometheus.Desc // of the family; nil before its first sample
	values     []string         // of the sample's labels
}

// Family implements [metrics.Sink].
func (s *sink) Family(name, help string, kind metrics.Kind) {
	s.name, s.help, s.kind, s.desc = name, help, kind, nil
}

// Sample implements [metrics.Sink].
func (s *sink) Sample(value float64, labels ...string) {
	s.begin(labels)
	switch s.kind {
	case metrics.KindCounter:
		s.send(prometheus.NewConstMetric(s.desc, prometheus.CounterValue, value, s.values...))
	case metrics.KindGauge:
		s.send(prometheus.NewConstMetric(s.desc, prometheus.GaugeValue, value, s.values...))
	default:
		s.send(nil, fmt.Errorf("warmprom: sample in %s, a family of kind %s", s.name, s.kind))
	}
}

// Histogram implements [metrics.Sink].
func (s *sink) Histogram(h metrics.HistogramSnapshot, labels ...string) {
	s.begin(labels)
	if len(h.Counts) != len(h.Bounds)+1 {
		s.send(nil, errors.New("warmprom: histogram of another number of counts than buckets in "+s.name))
		return
	}
	buckets := make(map[float64]uint64, len(h.Bounds))
	count := uint64(0)
	for i, bound := range h.Bounds {
		count += h.Counts[i]
		buckets[bound] = count
	}
	count += h.Counts[len(h.Bounds)]
	s.send(prometheus.NewConstHistogram(s.desc, count, h.Sum, buckets, s.values...))
}

// begin splits a sample's labels, and makes the family's descriptor at its first
// sample.
func (s *sink) begin(labels []string) {
	if s.desc == nil {
		names := make([]string, 0, len(labels)/2)
		for i := 0; i < len(labels); i += 2 {
			names = append(names, labels[i])
		}
		s.desc = prometheus.NewDesc(s.name, s.help, names, nil)
	}
	s.values = s.values[:0]
	for i := 1; i < len(labels); i += 2 {
		// As the text has it: what is not UTF-8 would fail the whole scrape.
		s.values = append(s.values, strings.ToValidUTF8(labels[i], "\ufffd"))
	}
}

func (s *sink) send(m prometheus.Metric, err error) {
	if err != nil {
		m = prometheus.NewInvalidMetric(s.desc, err)
	}
	s.out <- m
}
