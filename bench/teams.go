package bench

import (
	"math/rand/v2"
	"time"

	"github.com/warmroute/warmroute"
)

// SharedPrefix is [Affinity] with warmroute.WithSharedPrefix.
func SharedPrefix() Policy {
	return Options("shared-prefix", func() []warmroute.Option {
		return append(plain(), warmroute.WithSharedPrefix(true))
	})
}

// ResidentsSharedPrefix is [Residents] with warmroute.WithSharedPrefix.
func ResidentsSharedPrefix() Policy {
	return Options("residents-shared-prefix", func() []warmroute.Option {
		return []warmroute.Option{warmroute.WithSharedPrefix(true)}
	})
}

// OneAfterAnother is forty users of one assistant, a system prompt of 6,000
// tokens that all share and one short question each. Each comes when the one
// before has had its answer, so that nobody's load tells a router to spread them.
func OneAfterAnother() Workload {
	w := SharedPrompt()
	w.Name = "one after another"
	w.About = "open loop, a conversation each 20 s, one system prompt of 6,000 tokens, one question of about 100, answers of 200"
	w.Steps, w.StepTime, w.Think, w.Cold = []int{3}, 40*20*time.Second+time.Second, nil, true
	w.Arrivals = func(*rand.Rand, int) func() time.Duration {
		return func() time.Duration { return 20 * time.Second }
	}
	w.Conversation = func(rng *rand.Rand) Conversation {
		c := questions(rng, Text{"one assistant", 6000})
		c.Turns = c.Turns[:1]
		return c
	}
	return w
}

// FourTeams is [TwoTeams] with four system prompts of 9,000 tokens, one of more
// than half of the users and three of the others. A replica's cache has room for
// two of them.
func FourTeams() Workload {
	w := TwoTeams()
	w.Name = "four teams, one large"
	w.About = "closed loop, one of four system prompts of 9,000 tokens, by 55, 15, 15 and 15 % of the users, 1 to 3 questions of about 100, answers of 200, 20 s between them; 5 minutes a step, caches kept"
	w.Conversation = func(rng *rand.Rand) Conversation {
		team := Text{"team A", 9000}
		if n := rng.IntN(100); n >= 55 {
			team.Name = "team " + string(rune('B'+(n-55)/15))
		}
		return questions(rng, team)
	}
	return w
}
