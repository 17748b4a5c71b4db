package bench

import (
	"math/rand/v2"
	"time"
)

// LongContext is seven replicas of one endpoint each with conversations that
// grow to 58,000 tokens in 12 turns, 5 seconds apart on average: 26 and 16 at a
// time for ten minutes each.
func LongContext() Workload {
	return Workload{
		Name:  "long context",
		About: "closed loop, conversations of 12 turns that grow to 58,000 tokens, 5 s between turns, answers of 400; 10 minutes a step, caches kept",
		Engines: Engines{
			Name:      "7 replicas",
			Endpoints: 7, Ranks: 1, MaxNumSeqs: 32,
			KVTokens: 200_000, PrefillRate: 3500, StepTime: 28 * time.Millisecond, ContextCost: 100 * time.Microsecond,
			BatchedTokens: 2048, BlockSize: 16, StreamInterval: 16, APIServers: 1,
		},
		Steps:    []int{26, 16},
		StepTime: 10 * time.Minute,
		Think:    Exponential(5 * time.Second),
		Conversation: func(rng *rand.Rand) Conversation {
			c := Conversation{System: Text{"long context", 12_000}}
			for i := range 12 {
				t := Turn{New: 1200 + rng.IntN(801), Answer: 400}
				if i == 0 {
					t.New = 20_000 + rng.IntN(8001)
				}
				c.Turns = append(c.Turns, t)
			}
			return c
		},
	}
}
