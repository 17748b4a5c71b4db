package warmroute

import (
	"sync"
	"time"

	"github.com/warmroute/warmroute/metrics"
)

const (
	historyStep  = 5 * time.Second
	historySlots = int64(time.Hour / historyStep)
	// historyWindow is how many steps a quantile is drawn from: a minute, since
	// few answers begin in five seconds.
	historyWindow = int64(time.Minute / historyStep)
)

// History is what [Router.Run] has recorded of the last hour. It is kept in
// memory, 58 KB a pool, from the pool's first step on.
type History struct {
	// Step is the distance of two points, in seconds: 5.
	Step  float64       `json:"step_s"`
	Pools []PoolHistory `json:"pools"`
}

// PoolHistory is the history of one model's pool.
type PoolHistory struct {
	// Model is empty for the default pool.
	Model string `json:"model"`
	// Points are at most 720, the oldest first. A step in which the router was not
	// run has none; one without requests has a point of zeros.
	Points []HistoryPoint `json:"points"`
}

// HistoryPoint is what was counted in one step. Tokens count when their request
// ends, since its usage comes last.
type HistoryPoint struct {
	// End is when the step ended: a multiple of Step, by the router's monotonic
	// clock, so that a wall clock that is set makes no hole.
	End time.Time `json:"end"`
	// Seconds is the time in which it was counted, about Step: what a rate is to be
	// made with.
	Seconds        float64 `json:"seconds"`
	PromptCached   uint64  `json:"prompt_cached"`
	PromptComputed uint64  `json:"prompt_computed"`
	Completion     uint64  `json:"completion"`
	// FirstByteP50 and FirstByteP95 are estimates, in seconds, of the median and
	// the 95th percentile of the time to first byte of the streamed requests that
	// ended in the minute up to End; nil if none did. Their accuracy is that of the
	// buckets of warmroute_first_byte_seconds.
	FirstByteP50 *float64 `json:"first_byte_p50_s"`
	FirstByteP95 *float64 `json:"first_byte_p95_s"`
}

// History returns the last hour as far as it was recorded. It is nobody's to
// keep between processes: a router that is made anew begins anew.
func (r *Router) History() History { return r.history(historySlots) }

// history is the last so many steps of all pools.
func (r *Router) history(steps int64) History {
	now := r.historySlot(time.Now())
	h := History{Step: historyStep.Seconds(), Pools: []PoolHistory{}}
	for _, p := range r.pools.Load().order {
		points := p.history.points(now-steps, func(slot int64) time.Time {
			return r.since.Truncate(historyStep).Add(time.Duration(slot+1) * historyStep).UTC()
		})
		h.Pools = append(h.Pools, PoolHistory{Model: p.model, Points: points})
	}
	return h
}

// historySlot numbers the steps since the router was made. The difference of
// two times goes by the monotonic clock, a truncated time would not.
func (r *Router) historySlot(now time.Time) int64 {
	into := r.since.Sub(r.since.Truncate(historyStep))
	return int64((now.Sub(r.since) + into) / historyStep)
}

// record ends the pool's step if it is over. Run does it each second.
func (p *pool) record() {
	now := time.Now()
	p.history.record(now, p.router.historySlot(now), &p.counts)
}

// history is a ring of one hour of steps.
type history struct {
	mu   sync.Mutex // short
	ring []historyStepCounts
	// counted is what the counts were at the time at, in step slot.
	counted historyCounts
	at      time.Time
	slot    int64
}

type historyCounts struct {
	cached, computed, completion uint64
	firstByte                    [len(firstByteBounds) + 1]uint64
}

// historyStepCounts are differences, which fit into 32 bits: no pool counts a
// billion tokens a second.
type historyStepCounts struct {
	slot                         int64
	seconds                      float32
	cached, computed, completion uint32
	firstByte                    [len(firstByteBounds) + 1]uint32
}

// read takes the counts, which are the pool's and not its members': they never
// go back when a replica leaves.
func (c *historyCounts) read(from *poolCounts) {
	c.cached, c.computed, c.completion = from.cached.Load(), from.computed.Load(), from.completion.Load()
	copy(c.firstByte[:], from.firstByte.Snapshot().Counts)
}

func (h *history) record(now time.Time, slot int64, counts *poolCounts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.at.IsZero() && slot <= h.slot {
		return
	}
	before, since := h.counted, h.at
	h.counted.read(counts)
	h.at, h.slot = now, slot
	elapsed := now.Sub(since)
	if since.IsZero() || elapsed >= 2*historyStep {
		return // nobody looked: what was counted belongs to no step
	}
	if h.ring == nil {
		h.ring = make([]historyStepCounts, historySlots)
		for i := range h.ring {
			h.ring[i].slot = -1
		}
	}
	step := &h.ring[(slot-1)%historySlots]
	*step = historyStepCounts{
		slot: slot - 1, seconds: float32(elapsed.Seconds()),
		cached: uint32(h.counted.cached - before.cached), computed: uint32(h.counted.computed - before.computed),
		completion: uint32(h.counted.completion - before.completion),
	}
	for i := range step.firstByte {
		step.firstByte[i] = uint32(h.counted.firstByte[i] - before.firstByte[i])
	}
}

// points are those from the step first on; end says when a step ended.
func (h *history) points(first int64, end func(slot int64) time.Time) []HistoryPoint {
	h.mu.Lock()
	defer h.mu.Unlock()
	points := []HistoryPoint{}
	if h.ring == nil {
		return points
	}
	for slot := max(0, first, h.slot-historySlots); slot < h.slot; slot++ {
		step := h.step(slot)
		if step == nil {
			continue
		}
		point := HistoryPoint{
			End: end(slot), Seconds: float64(step.seconds),
			PromptCached: uint64(step.cached), PromptComputed: uint64(step.computed), Completion: uint64(step.completion),
		}
		minute := h.firstBytes(slot)
		if p50, ok := minute.Quantile(.5); ok {
			point.FirstByteP50 = &p50
		}
		if p95, ok := minute.Quantile(.95); ok {
			point.FirstByteP95 = &p95
		}
		points = append(points, point)
	}
	return points
}

// step is nil if nothing was recorded of it.
func (h *history) step(slot int64) *historyStepCounts {
	if s := &h.ring[slot%historySlots]; s.slot == slot {
		return s
	}
	return nil
}

// firstBytes are those of the minute that ends with the step.
func (h *history) firstBytes(slot int64) metrics.HistogramSnapshot {
	var counts [len(firstByteBounds) + 1]uint64
	for s := max(0, slot-historyWindow+1); s <= slot; s++ {
		if step := h.step(s); step != nil {
			for i, n := range step.firstByte {
				counts[i] += uint64(n)
			}
		}
	}
	return metrics.HistogramSnapshot{Bounds: firstByteBounds[:], Counts: counts[:]}
}
