package bench

import (
	"math/rand/v2"
	"time"
)

// SharedPrompt is many users of one assistant: a system prompt of 6,000 tokens
// that all share, one to three short questions each, 20 seconds between them on
// average; 16, 32, 64 and 128 users at a time for five minutes each. Nearly all
// that a cache can save is on every replica before long, so that the load alone
// should decide.
func SharedPrompt() Workload {
	return Workload{
		Name:     "shared prompt",
		About:    "closed loop, one system prompt of 6,000 tokens, 1 to 3 questions of about 100, answers of 200, 20 s between them; 5 minutes a step, caches kept",
		Engines:  DefaultEngines(),
		Steps:    []int{16, 32, 64, 128},
		StepTime: 5 * time.Minute,
		Stagger:  20 * time.Second,
		Think:    Exponential(20 * time.Second),
		Conversation: func(rng *rand.Rand) Conversation {
			return questions(rng, Text{"one assistant", 6000})
		},
	}
}

// TwoTeams is [SharedPrompt] with two system prompts of 9,000 tokens, each of
// half of the users. A replica's cache has room for both and little else.
func TwoTeams() Workload {
	w := SharedPrompt()
	w.Name = "two teams"
	w.About = "closed loop, one of two system prompts of 9,000 tokens, 1 to 3 questions of about 100, answers of 200, 20 s between them; 5 minutes a step, caches kept"
	w.Conversation = func(rng *rand.Rand) Conversation {
		team := Text{"team A", 9000}
		if rng.IntN(2) == 1 {
			team.Name = "team B"
		}
		return questions(rng, team)
	}
	return w
}

func questions(rng *rand.Rand, system Text) Conversation {
	c := Conversation{System: system}
	for range 1 + rng.IntN(3) {
		c.Turns = append(c.Turns, Turn{New: 50 + rng.IntN(101), Answer: 200})
	}
	return c
}
