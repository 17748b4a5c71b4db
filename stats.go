package warmroute

import (
	"math"
	"time"

	"github.com/warmroute/warmroute/metrics"
	"github.com/warmroute/warmroute/replica"
)

// Stats is what a router has counted, and what its replicas last said of
// themselves. A number that is not known is nil (null in JSON), never zero.
type Stats struct {
	// Since is when the counting began: when the router was made.
	Since time.Time   `json:"since"`
	Pools []PoolStats `json:"pools"`
	// UnknownModel counts requests for a model that no pool serves.
	UnknownModel uint64 `json:"unknown_model"`
	// Discovery is how the finding of endpoints goes; nil if nobody looks for any.
	Discovery *DiscoveryStats `json:"discovery,omitempty"`
}

// PoolStats is the pool of one model.
type PoolStats struct {
	// Model is empty for the default pool.
	Model    string    `json:"model"`
	Affinity bool      `json:"affinity"`
	Spill    Threshold `json:"spill"`
	// InFlight counts requests on removed replicas as well, until they end.
	InFlight int `json:"in_flight"`
	// Sessions is the number of conversations bound to a replica.
	Sessions int `json:"sessions"`
	// StickyShare is sticky / (sticky + placed + spilled); nil before the first.
	StickyShare *float64     `json:"sticky_share"`
	Requests    RequestStats `json:"requests"`
	Tokens      TokenStats   `json:"tokens"`
	// Turns counts turns at home by what the engines' own counts say of them.
	Turns         VerdictStats `json:"turns"`
	VerifiedShare *float64     `json:"verified_share"`
	// Queue is the queue for room in the prefix caches.
	Queue QueueStats `json:"queue"`
	// Gaps is how often a cache was still there after a pause of some length, on
	// all replicas, those that have left among them.
	Gaps []GapStats `json:"gaps"`
	// AnswersCached says that turns have shown to find the last answer in the cache
	// behind the last prompt, so that it is expected there. Where it is false, too
	// few have, or the chat template leaves something out of former answers.
	AnswersCached bool `json:"answers_cached"`
	// Problems are sentences about what keeps affinity from working.
	Problems []string       `json:"problems"`
	Replicas []ReplicaStats `json:"replicas"`
}

// QueueStats is what [WithResidency] does in a pool.
type QueueStats struct {
	Residency Residency `json:"residency"`
	// Active says that the capacity of a cache is known, so that turns may have to
	// wait.
	Active bool `json:"active"`
	// Waiting is the number of turns in the queue, at most MaxWaiting; Longest how
	// long one of them has waited by now, at most MaxWait, in seconds.
	Waiting    int     `json:"waiting"`
	MaxWaiting int     `json:"max_waiting"`
	Longest    float64 `json:"longest_wait_s"`
	MaxWait    float64 `json:"max_wait_s"`
	// Overloaded counts turns that were refused with [ErrOverloaded], those that
	// were pushed out of the queue ([WithMaxQueue]) among them.
	Overloaded uint64 `json:"overloaded"`
	// Waits is, in seconds, how long turns have waited, those that did not
	// included. It is not in the JSON.
	Waits metrics.HistogramSnapshot `json:"-"`
}

// RequestStats counts requests by outcome, once each; one that failed over to
// another replica by its outcome there. Failed ones are among them: no answer,
// a 5xx, a stream that broke, or an error that the engine reported inside its
// answer. Refused ones are not: there was nowhere to send them.
// A request that was sent again counts where it was sent last.
type RequestStats struct {
	Sticky  uint64 `json:"sticky"`
	Placed  uint64 `json:"placed"`
	Spilled uint64 `json:"spilled"`
	Pinned  uint64 `json:"pinned"`
	Unkeyed uint64 `json:"unkeyed"`
	Failed  uint64 `json:"failed"`
	Refused uint64 `json:"refused"`
	// PickerErrors counts placements in which the pool's picker failed and the
	// least loaded replica was taken.
	PickerErrors uint64 `json:"picker_errors"`
	// Retries counts attempts after a request's first, and RetriesRefused those
	// that the budget did not allow ([RetryPolicy]).
	Retries        uint64 `json:"retries"`
	RetriesRefused uint64 `json:"retries_refused"`
}

// TokenStats counts tokens as the engines' usage says.
type TokenStats struct {
	PromptCached   uint64 `json:"prompt_cached"`
	PromptComputed uint64 `json:"prompt_computed"`
	Completion     uint64 `json:"completion"`
	// UnmeasuredRequests finished without a cached count; their prompts, where
	// the response had a usage at all, count as computed.
	UnmeasuredRequests uint64 `json:"unmeasured_requests"`
	// CachedShareLastHour is cached / prompt tokens; nil if there were none.
	CachedShareLastHour *float64 `json:"cached_share_last_hour"`
}

// ReplicaStats is one replica, counted since it joined.
type ReplicaStats struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Rank is nil if the replica is addressed without a rank header.
	Rank  *int          `json:"rank"`
	State replica.State `json:"state"`
	// Finding is what [WithHealth] has found, nil if nothing. It is there beside a
	// State that is another, such as that of an operator's drain.
	Finding *FindingStats `json:"finding"`
	// InFlight and Sessions are the router's own, exact.
	InFlight int `json:"in_flight"`
	Sessions int `json:"sessions"`
	// Residents is the number of conversations whose KV is meant to stay in the
	// replica's cache, nil if its capacity is not known.
	Residents *int   `json:"residents"`
	Sticky    uint64 `json:"sticky"`
	Placed    uint64 `json:"placed"`
	SpilledIn uint64 `json:"spilled_in"`
	Pinned    uint64 `json:"pinned"`
	Unkeyed   uint64 `json:"unkeyed"`
	// Failed counts attempts: a request that could not be delivered here and
	// went to another replica is among them.
	Failed uint64 `json:"failed"`
	// HeaderTimeouts and IdleTimeouts are those of Failed that took too long.
	HeaderTimeouts uint64 `json:"header_timeouts"`
	IdleTimeouts   uint64 `json:"idle_timeouts"`
	// Breaker is the state of the replica's breaker, or of its endpoint's if that is
	// less closed, and BreakerOpens how often they have opened ([WithBreaker]).
	Breaker      replica.BreakerState `json:"breaker"`
	BreakerOpens uint64               `json:"breaker_opens"`
	// Running, Waiting and KVUsage (0 to 1) are the engine's, as scraped.
	Running *int     `json:"running"`
	Waiting *int     `json:"waiting"`
	KVUsage *float64 `json:"kv_usage"`
	// PrefixHitRate is the share of all prompt tokens since the engine started
	// that it found in its prefix cache.
	PrefixHitRate *float64 `json:"prefix_hit_rate"`
	// Turns counts turns at home here, as [PoolStats].Turns does.
	Turns         VerdictStats `json:"turns"`
	VerifiedShare *float64     `json:"verified_share"`
	// PrefillRate is computed prompt tokens a second, learned from first bytes of
	// streamed requests that had the replica to themselves.
	PrefillRate *float64 `json:"prefill_tokens_per_s"`
	// MaxRunning is the most requests that its engine was seen to run. What of it
	// was seen while others waited for capacity sets the spill threshold, where it
	// is [Auto] and max_num_seqs is not known.
	MaxRunning int `json:"max_running"`
	// Gaps is how often the cache was still there after a pause of some length.
	Gaps []GapStats `json:"gaps"`
	// ScrapedAgo is the age of the scraped values in seconds. Stale says that
	// they are too old to count in placements, or were never scraped.
	ScrapedAgo *float64 `json:"scraped_ago_s"`
	Stale      bool     `json:"stale"`

	// FirstByte is, in seconds, the time from routing a streamed request to the
	// first byte of its answer's body. It is not in the JSON.
	FirstByte metrics.HistogramSnapshot `json:"-"`
}

// Stats returns the current counts. Each number is exact; they are read one
// after another while requests go on.
func (r *Router) Stats() Stats {
	now := time.Now()
	s := Stats{Since: r.since, Pools: []PoolStats{}, UnknownModel: r.unknownModel.Load(), Discovery: r.discovery.stats()}
	for _, p := range r.pools.Load().order {
		s.Pools = append(s.Pools, p.stats(now))
	}
	return s
}

func (p *pool) stats(now time.Time) PoolStats {
	c := &p.counts
	s := PoolStats{
		Model:    p.model,
		Affinity: p.affinity.Load(),
		Spill:    p.spill.Load().Threshold,
		InFlight: int(c.inFlight.Load()),
		Requests: RequestStats{
			Sticky: c.sticky.Load(), Placed: c.placed.Load(), Spilled: c.spilled.Load(),
			Pinned: c.pinned.Load(), Unkeyed: c.unkeyed.Load(), Failed: c.failed.Load(),
			Refused: c.refused.Load(), PickerErrors: c.pickerErrors.Load(),
			Retries: c.retries.Load(), RetriesRefused: c.retriesRefused.Load(),
		},
		Tokens: TokenStats{
			PromptCached: c.cached.Load(), PromptComputed: c.computed.Load(),
			Completion: c.completion.Load(), UnmeasuredRequests: c.unmeasured.Load(),
			CachedShareLastHour: c.hour.share(now),
		},
		Queue: p.admission.stats(&p.mu, now),
		Turns: p.turns.stats(), AnswersCached: p.answers.kept.Load(),
		Problems: p.problems(),
		Replicas: []ReplicaStats{},
	}
	expected := p.survival.estimates(nil, now)
	s.Gaps = p.survival.stats(expected)
	s.VerifiedShare = s.Turns.VerifiedShare()
	if keyed := s.Requests.Sticky + s.Requests.Placed + s.Requests.Spilled; keyed > 0 {
		share := float64(s.Requests.Sticky) / float64(keyed)
		s.StickyShare = &share
	}
	for _, m := range *p.members.Load() {
		rs := m.stats(now, p.router.staleAfter())
		if s.Queue.Active {
			rs.Residents = p.residents(m)
		}
		rs.Gaps = m.survival.stats(m.survival.estimates(&expected, now))
		s.Sessions += rs.Sessions
		s.Replicas = append(s.Replicas, rs)
	}
	return s
}

// problems are those of the pool and of its endpoints.
func (p *pool) problems() []string {
	out := []string{}
	if p.recent.mostlyRewritten() {
		out = append(out, rewrittenProblem)
	}
	out = append(out, p.healthProblems()...)
	out = append(out, p.sources.problems()...)
	p.router.mu.Lock()
	var watchers []*watcher
	for _, e := range p.router.set.Endpoints() {
		if w := p.router.watchers[e.ID]; w != nil && e.Model == p.model {
			watchers = append(watchers, w)
		}
	}
	p.router.mu.Unlock()
	for _, w := range watchers {
		out = append(out, w.problems()...)
	}
	return out
}

func (m *member) stats(now time.Time, staleAfter time.Duration) ReplicaStats {
	c := &m.counts
	s := ReplicaStats{
		Name: m.Name(), URL: m.URL().String(), State: m.state(now), Finding: m.findingStats(),
		InFlight: m.InFlight(), Sessions: m.home.Sessions(),
		Sticky: c.sticky.Load(), Placed: c.placed.Load(), SpilledIn: c.spilledIn.Load(),
		Pinned: c.pinned.Load(), Unkeyed: c.unkeyed.Load(), Failed: c.failed.Load(),
		HeaderTimeouts: c.headerTimeouts.Load(), IdleTimeouts: c.idleTimeouts.Load(),
		Breaker: m.Breaker(now), BreakerOpens: m.BreakerOpens(),
		Stale: true, FirstByte: c.firstByte.Snapshot(),
	}
	s.Turns = c.turns.stats()
	s.VerifiedShare = s.Turns.VerifiedShare()
	s.MaxRunning = int(m.learned.maxRunning.Load())
	if rate := m.learned.rate(); rate > 0 {
		s.PrefillRate = &rate
	}
	if rank := m.Rank(); rank != replica.NoRank {
		s.Rank = &rank
	}
	sc := m.scraped.Load()
	if sc == nil {
		return s
	}
	ago := max(0, now.Sub(sc.at))
	seconds := ago.Seconds()
	s.ScrapedAgo, s.Stale = &seconds, ago > staleAfter
	s.Running, s.Waiting = whole(sc.Running), whole(sc.Waiting)
	if sc.KVUsage.OK {
		s.KVUsage = &sc.KVUsage.Value
	}
	if q, h := sc.PrefixQueries, sc.PrefixHits; q.OK && h.OK && q.Value > 0 {
		rate := min(1, h.Value/q.Value)
		s.PrefixHitRate = &rate
	}
	return s
}

// whole is a count; nil if it is not known, or too large to be one.
func whole(n metrics.Number) *int {
	if !n.OK || n.Value > math.MaxInt32 {
		return nil
	}
	v := int(n.Value)
	return &v
}
