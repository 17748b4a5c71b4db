package bench

import (
	"math/rand/v2"
	"time"
)

// HotConversation is the conversations of [SeedTable] with a hot one beside
// them: the first client's sends twelve requests at the same time each turn, on
// a history of 5,000 tokens and more. 4, 8 and 12 clients, the hot one among
// them, for five minutes each. What the others lose to it shows in the tail of
// the TTFB and in the stayed share.
func HotConversation() Workload {
	w := SeedTable()
	w.Name = "hot conversation"
	w.About = "closed loop, conversations of the seed table, and one with 12 parallel requests a turn on 5,000 tokens and more; 5 minutes a step, caches kept"
	w.Steps, w.StepTime = []int{4, 8, 12}, 5*time.Minute
	w.Published = nil
	w.Hot = func(rng *rand.Rand) Conversation {
		c := Conversation{System: Text{"seed table", 3500}}
		for i := range 8 {
			t := Turn{New: 200 + rng.IntN(101), Answer: 128, Extra: 11}
			if i == 0 {
				t.New = 1500 + rng.IntN(201)
			}
			c.Turns = append(c.Turns, t)
		}
		return c
	}
	return w
}
