package bench

import (
	"math/rand/v2"
	"time"

	"github.com/warmroute/warmroute/bench/report"
)

// SeedTable is the workload of the published figures: conversations of six
// turns, one after another without a pause, with a system prompt of 3,500
// tokens that all share, a first message of their own (7,300 tokens of prompt in
// all), five further messages of about 400 tokens, and answers of 256 tokens;
// 4, 8, 16, 24 and 32 at a time for three minutes each, caches kept between.
// Figures are means of four runs: those of a single one with few conversations
// depend on where they chance to go.
func SeedTable() Workload {
	return Workload{
		Name:     "seed table",
		About:    "closed loop, shared system prompt 3,500 tokens, first prompt 7,300, 5 more turns of 400, answers of 256; 3 minutes a step, caches kept",
		Engines:  DefaultEngines(),
		Steps:    []int{4, 8, 16, 24, 32},
		StepTime: 3 * time.Minute,
		Seeds:    []uint64{1, 2, 3, 4},
		Conversation: func(rng *rand.Rand) Conversation {
			c := Conversation{System: Text{"seed table", 3500}}
			for i := range 6 {
				t := Turn{New: 350 + rng.IntN(101), Answer: 256}
				if i == 0 {
					t.New = 3700 + rng.IntN(201)
				}
				c.Turns = append(c.Turns, t)
			}
			return c
		},
		Published: seedTablePublished(),
	}
}

// seedTablePublished are the figures of single runs on 4 RTX A4000 with
// Qwen3-4B on vLLM 0.26. Off is the engine's own balancing, on is least-loaded
// placement, stickiness and a spill threshold of 8. A session more or less
// moves the sessions per hour by 20.
func seedTablePublished() []report.Row {
	var rows []report.Row
	for _, p := range []struct {
		sessions                                      int
		policy                                        string
		perHour, output, p50, p95, busy, hits, stayed float64
	}{
		{4, "off", 180, 5886, 2.05, 3.5, 2.71, 56.2, -1},
		{4, "affinity", 240, 6744, 0.38, 2.84, 2.83, 86.4, 100},
		{8, "off", 300, 8364, 2.33, 6.32, 3.74, 44.3, -1},
		{8, "affinity", 380, 10752, 0.48, 5.03, 3.74, 86.1, 100},
		{16, "off", 300, 9558, 3.25, 26.24, 3.91, 33.2, -1},
		{16, "affinity", 360, 12204, 0.85, 24.88, 3.69, 48.6, 100},
		{24, "off", 300, 9048, 5.06, 58.82, 3.91, 32.8, -1},
		{24, "affinity", 420, 11178, 13.14, 38.34, 4, 37.9, 89.1},
		{32, "off", 520, 14760, 12.32, 82.84, 4, 31.6, -1},
		{32, "affinity", 620, 16638, 27.66, 38.92, 4, 31.6, 67.3},
	} {
		row := report.NewRow(p.policy, p.sessions)
		row.SessionsPerHour = report.Value(p.perHour)
		row.OutputPerMinute = report.Value(p.output)
		row.TTFB.P50, row.TTFB.P95 = report.Value(p.p50), report.Value(p.p95)
		row.Busy, row.HitShare = report.Value(p.busy), report.Value(p.hits/100)
		if p.stayed >= 0 {
			row.Stayed = report.Value(p.stayed / 100)
		}
		rows = append(rows, row)
	}
	return rows
}
