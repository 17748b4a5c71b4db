package warmroute

import (
	"io"

	"github.com/warmroute/warmroute/metrics"
)

// WriteMetrics writes the router's counts in the Prometheus text format 0.0.4.
// The label model is empty for the default pool. Series of a replica that was
// removed end; those of the pool go on.
func (r *Router) WriteMetrics(out io.Writer) error {
	w := metrics.NewWriter(out)
	r.Stats().Export(w)
	return w.Err()
}

// Export gives the counts to a sink as metric families, for a client library of
// your own: a [metrics.Writer] writes what [Router.WriteMetrics] does. Durations
// are in seconds, shares 0 to 1, counters since [Stats].Since or, with the label
// replica, since the replica joined. A number that is not known is left out.
//
// Shares that the stats have beside the counts they come from are left to the
// query, which can take them over any time.
func (s Stats) Export(w metrics.Sink) {
	pools := s.Pools

	w.Family("warmroute_start_time_seconds", "When the counting began, in seconds since the Unix epoch.", metrics.KindGauge)
	w.Sample(float64(s.Since.UnixMilli()) / 1000)
	exportDiscovery(w, s.Discovery)
	w.Family("warmroute_requests_total", "Requests routed, by replica and by what routing did with them.", metrics.KindCounter)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		for _, o := range [...]struct {
			outcome Outcome
			n       uint64
		}{{Sticky, m.Sticky}, {Placed, m.Placed}, {Spilled, m.SpilledIn}, {Pinned, m.Pinned}, {Unkeyed, m.Unkeyed}} {
			w.Sample(float64(o.n), "model", p.Model, "replica", m.Name, "outcome", string(o.outcome))
		}
	})
	w.Family("warmroute_pool_requests_total", "The same for the pool, those of replicas that have left among them.", metrics.KindCounter)
	eachPool(pools, func(p *PoolStats) {
		r := p.Requests
		for _, o := range [...]struct {
			outcome Outcome
			n       uint64
		}{{Sticky, r.Sticky}, {Placed, r.Placed}, {Spilled, r.Spilled}, {Pinned, r.Pinned}, {Unkeyed, r.Unkeyed}} {
			w.Sample(float64(o.n), "model", p.Model, "outcome", string(o.outcome))
		}
	})
	w.Family("warmroute_failed_attempts_total", "Attempts without a good answer: none at all, a 5xx, a broken stream, an engine's error.", metrics.KindCounter)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		w.Sample(float64(m.Failed), "model", p.Model, "replica", m.Name)
	})
	w.Family("warmroute_failed_requests_total", "Requests of which the last attempt failed.", metrics.KindCounter)
	eachPool(pools, func(p *PoolStats) { w.Sample(float64(p.Requests.Failed), "model", p.Model) })
	w.Family("warmroute_refused_requests_total", "Requests that could be sent nowhere.", metrics.KindCounter)
	eachPool(pools, func(p *PoolStats) { w.Sample(float64(p.Requests.Refused), "model", p.Model) })
	w.Family("warmroute_unknown_model_requests_total", "Requests for a model that no pool serves.", metrics.KindCounter)
	w.Sample(float64(s.UnknownModel))
	w.Family("warmroute_picker_errors_total", "Placements in which the picker failed and the least loaded replica was taken.", metrics.KindCounter)
	eachPool(pools, func(p *PoolStats) { w.Sample(float64(p.Requests.PickerErrors), "model", p.Model) })

	w.Family("warmroute_retries_total", "Attempts after a request's first one.", metrics.KindCounter)
	eachPool(pools, func(p *PoolStats) { w.Sample(float64(p.Requests.Retries), "model", p.Model) })
	w.Family("warmroute_retries_refused_total", "Attempts that the retry budget did not allow.", metrics.KindCounter)
	eachPool(pools, func(p *PoolStats) { w.Sample(float64(p.Requests.RetriesRefused), "model", p.Model) })
	w.Family("warmroute_timeouts_total", "Failed attempts that took too long, by what did: the header of the answer, or a read of its body.", metrics.KindCounter)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		w.Sample(float64(m.HeaderTimeouts), "model", p.Model, "replica", m.Name, "timeout", "header")
		w.Sample(float64(m.IdleTimeouts), "model", p.Model, "replica", m.Name, "timeout", "idle")
	})
	w.Family("warmroute_breaker_state", "The replica's breaker: 0 closed, 1 half-open, 2 open.", metrics.KindGauge)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		w.Sample(float64(m.Breaker), "model", p.Model, "replica", m.Name)
	})
	w.Family("warmroute_breaker_opens_total", "Times that the replica's breaker, or its endpoint's, has opened.", metrics.KindCounter)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		w.Sample(float64(m.BreakerOpens), "model", p.Model, "replica", m.Name)
	})

	w.Family("warmroute_in_flight", "Requests sent to the replica and not finished.", metrics.KindGauge)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		w.Sample(float64(m.InFlight), "model", p.Model, "replica", m.Name)
	})
	w.Family("warmroute_pool_in_flight", "The same for the pool, those on replicas that have left among them.", metrics.KindGauge)
	eachPool(pools, func(p *PoolStats) { w.Sample(float64(p.InFlight), "model", p.Model) })
	w.Family("warmroute_sessions", "Conversations bound to the replica.", metrics.KindGauge)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		w.Sample(float64(m.Sessions), "model", p.Model, "replica", m.Name)
	})
	w.Family("warmroute_replica_up", "1 if the replica takes new conversations.", metrics.KindGauge)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		w.Sample(flag(m.State == "up"), "model", p.Model, "replica", m.Name)
	})
	w.Family("warmroute_replica_finding", "1 if the replica was found to be in the state by what is watched beside the requests, its GPUs or probes.", metrics.KindGauge)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		for _, s := range foundStates {
			w.Sample(flag(m.Finding != nil && m.Finding.State == s), "model", p.Model, "replica", m.Name, "state", string(s))
		}
	})
	exportReplicas(w, pools)
	w.Family("warmroute_scrape_stale", "1 if the replica's scraped values are too old to count, or missing.", metrics.KindGauge)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		w.Sample(flag(m.Stale), "model", p.Model, "replica", m.Name)
	})

	w.Family("warmroute_prompt_tokens_total", "Prompt tokens of finished requests, by where the engine took them from. Unmeasured ones count as computed.", metrics.KindCounter)
	eachPool(pools, func(p *PoolStats) {
		w.Sample(float64(p.Tokens.PromptCached), "model", p.Model, "source", "cached")
		w.Sample(float64(p.Tokens.PromptComputed), "model", p.Model, "source", "computed")
	})
	w.Family("warmroute_completion_tokens_total", "Completion tokens of finished requests.", metrics.KindCounter)
	eachPool(pools, func(p *PoolStats) { w.Sample(float64(p.Tokens.Completion), "model", p.Model) })
	w.Family("warmroute_unmeasured_requests_total", "Finished requests whose response had no cached token count.", metrics.KindCounter)
	eachPool(pools, func(p *PoolStats) { w.Sample(float64(p.Tokens.UnmeasuredRequests), "model", p.Model) })

	w.Family("warmroute_turns_total", "Turns at home, by what the engine's own counts say of their prefix.", metrics.KindCounter)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		for _, v := range verdicts(m.Turns) {
			w.Sample(float64(v.n), "model", p.Model, "replica", m.Name, "verdict", string(v.verdict))
		}
	})
	w.Family("warmroute_pool_turns_total", "The same for the pool, those of replicas that have left among them.", metrics.KindCounter)
	eachPool(pools, func(p *PoolStats) {
		for _, v := range verdicts(p.Turns) {
			w.Sample(float64(v.n), "model", p.Model, "verdict", string(v.verdict))
		}
	})
	w.Family("warmroute_gap_turns_total", "Turns at home that found their prefix or had lost it, by the longest pause before them in seconds.", metrics.KindCounter)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		for _, g := range m.Gaps {
			w.Sample(float64(g.Kept), "model", p.Model, "replica", m.Name, "up_to", g.upTo(), "verdict", string(Verified))
			w.Sample(float64(g.Turns-g.Kept), "model", p.Model, "replica", m.Name, "up_to", g.upTo(), "verdict", string(Lost))
		}
	})
	w.Family("warmroute_gap_expected_ratio", "Part of its prefix that a conversation is expected to find at home after a pause of so many seconds.", metrics.KindGauge)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		for _, g := range m.Gaps {
			w.Sample(g.Expected, "model", p.Model, "replica", m.Name, "up_to", g.upTo())
		}
	})
	w.Family("warmroute_prefill_tokens_per_second", "Speed of prefill in computed prompt tokens, as learned; missing until it is.", metrics.KindGauge)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		if m.PrefillRate != nil {
			w.Sample(*m.PrefillRate, "model", p.Model, "replica", m.Name)
		}
	})
	w.Family("warmroute_max_running", "The most requests that the replica's engine was seen to run.", metrics.KindGauge)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		w.Sample(float64(m.MaxRunning), "model", p.Model, "replica", m.Name)
	})
	w.Family("warmroute_answers_cached", "1 if turns have shown to find the last answer in the cache behind the last prompt.", metrics.KindGauge)
	eachPool(pools, func(p *PoolStats) { w.Sample(flag(p.AnswersCached), "model", p.Model) })
	w.Family("warmroute_problems", "Things that keep affinity from working; the stats say which.", metrics.KindGauge)
	eachPool(pools, func(p *PoolStats) { w.Sample(float64(len(p.Problems)), "model", p.Model) })

	w.Family("warmroute_affinity", "1 if conversations stay at home.", metrics.KindGauge)
	eachPool(pools, func(p *PoolStats) { w.Sample(flag(p.Affinity), "model", p.Model) })
	w.Family("warmroute_spill_threshold", "Requests in flight on a home above which it is left.", metrics.KindGauge)
	eachPool(pools, func(p *PoolStats) {
		w.Sample(float64(p.Spill.Value), "model", p.Model, "source", p.Spill.Source)
	})

	w.Family("warmroute_queue_length", "Turns that wait for room in a prefix cache.", metrics.KindGauge)
	eachPool(pools, func(p *PoolStats) { w.Sample(float64(p.Queue.Waiting), "model", p.Model) })
	w.Family("warmroute_queue_active", "1 if the capacity of a prefix cache is known, so that turns may have to wait.", metrics.KindGauge)
	eachPool(pools, func(p *PoolStats) { w.Sample(flag(p.Queue.Active), "model", p.Model) })
	w.Family("warmroute_queue_max_length", "How many turns wait at most; a further one is refused, or another tenant's in its stead.", metrics.KindGauge)
	eachPool(pools, func(p *PoolStats) { w.Sample(float64(p.Queue.MaxWaiting), "model", p.Model) })
	w.Family("warmroute_queue_longest_wait_seconds", "How long the turn that has waited longest has by now.", metrics.KindGauge)
	eachPool(pools, func(p *PoolStats) { w.Sample(p.Queue.Longest, "model", p.Model) })
	w.Family("warmroute_queue_max_wait_seconds", "How long a turn waits at most.", metrics.KindGauge)
	eachPool(pools, func(p *PoolStats) { w.Sample(p.Queue.MaxWait, "model", p.Model) })
	w.Family("warmroute_overloaded_requests_total", "Turns refused because too many waited already, those pushed out of the queue included, or because they were not to wait.", metrics.KindCounter)
	eachPool(pools, func(p *PoolStats) { w.Sample(float64(p.Queue.Overloaded), "model", p.Model) })
	w.Family("warmroute_wait_seconds", "Time that turns waited for room in a prefix cache, those that did not wait included.", metrics.KindHistogram)
	eachPool(pools, func(p *PoolStats) { w.Histogram(p.Queue.Waits, "model", p.Model) })
	w.Family("warmroute_residents", "Conversations whose KV is meant to stay in the replica's prefix cache.", metrics.KindGauge)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		if m.Residents != nil {
			w.Sample(float64(*m.Residents), "model", p.Model, "replica", m.Name)
		}
	})

	w.Family("warmroute_first_byte_seconds", "Time from routing a streamed request to the first byte of its answer's body.", metrics.KindHistogram)
	eachReplica(pools, func(p *PoolStats, m *ReplicaStats) {
		w.Histogram(m.FirstByte, "model", p.Model, "replica", m.Name)
	})
}

type verdictCount struct {
	verdict Verdict
	n       uint64
}

func verdicts(s VerdictStats) [5]verdictCount {
	return [...]verdictCount{
		{Verified, s.Verified}, {Lost, s.Lost}, {Ignored, s.Ignored}, {Rewritten, s.Rewritten}, {Unmeasured, s.Unmeasured},
	}
}

func eachPool(pools []PoolStats, visit func(*PoolStats)) {
	for i := range pools {
		visit(&pools[i])
	}
}

func eachReplica(pools []PoolStats, visit func(*PoolStats, *ReplicaStats)) {
	eachPool(pools, func(p *PoolStats) {
		for i := range p.Replicas {
			visit(p, &p.Replicas[i])
		}
	})
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
