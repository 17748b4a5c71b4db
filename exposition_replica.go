package warmroute

import (
	"slices"
	"strconv"

	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// exportReplicas exports what is known of the replicas themselves: their states,
// and what their engines said of themselves on their last metrics page.
func exportReplicas(w metrics.Sink, pools []PoolStats) {
	w.Family("warmroute_replica_info", "Always 1: where the replica is. The rank is empty if it is addressed without one.", metrics.KindGauge)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		rank := ""
		if m.Rank != nil {
			rank = strconv.Itoa(*m.Rank)
		}
		w.Sample(1, "model", p.Model, "replica", m.Name, "url", m.URL, "rank", rank)
	})
	w.Family("warmroute_replica_state", "1 for the state that the replica is in, 0 for the others.", metrics.KindGauge)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		states := []replica.State{replica.Up, replica.Draining, replica.Down, replica.Open, replica.Probing, replica.Held, replica.Suspect, replica.Asleep, replica.Wedged, replica.Foreign}
		if !slices.Contains(states, m.State) {
			states = append(states, m.State)
		}
		for _, s := range states {
			w.Sample(flag(s == m.State), "model", p.Model, "replica", m.Name, "state", string(s))
		}
	})
	w.Family("warmroute_engine_running", "Requests that the replica's engine runs, as scraped.", metrics.KindGauge)
	eachKnown(w, pools, func(m *ReplicaStats) *float64 { return floating(m.Running) })
	w.Family("warmroute_engine_waiting", "Requests that wait in the replica's engine, as scraped.", metrics.KindGauge)
	eachKnown(w, pools, func(m *ReplicaStats) *float64 { return floating(m.Waiting) })
	w.Family("warmroute_engine_kv_usage_ratio", "Part of the engine's KV cache that is in use, as scraped.", metrics.KindGauge)
	eachKnown(w, pools, func(m *ReplicaStats) *float64 { return m.KVUsage })
	w.Family("warmroute_engine_prefix_hit_ratio", "Part of all prompt tokens since the engine started that it found in its prefix cache, as scraped.", metrics.KindGauge)
	eachKnown(w, pools, func(m *ReplicaStats) *float64 { return m.PrefixHitRate })
	w.Family("warmroute_scrape_age_seconds", "Age of the replica's scraped values.", metrics.KindGauge)
	eachKnown(w, pools, func(m *ReplicaStats) *float64 { return m.ScrapedAgo })
}

// eachKnown writes a sample for each replica of which the value is known.
func eachKnown(w metrics.Sink, pools []PoolStats, value func(*ReplicaStats) *float64) {
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		if v := value(m); v != nil {
			w.Sample(*v, "model", p.Model, "replica", m.Name)
		}
	})
}

func floating(v *int) *float64 {
	if v == nil {
		return nil
	}
	f := float64(*v)
	return &f
}
