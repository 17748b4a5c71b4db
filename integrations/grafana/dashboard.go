// Package warmgrafana holds a Grafana dashboard over the metrics of
// [warmroute.Router.WriteMetrics], which are also those of the Prometheus
// collector: see the README beside it for how to import it.
package warmgrafana

import (
	_ "embed"
	"slices"
)

//go:embed dashboard.json
var dashboard []byte

// Dashboard returns the dashboard's JSON model, schema version 39 (Grafana 10.4 and
// newer), for a program that provisions it.
func Dashboard() []byte { return slices.Clone(dashboard) }
