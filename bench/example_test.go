package bench_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"time"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/bench"
)

// A program, which has no *testing.T, compares policies with a Runner.
func ExampleRunner_Table() {
	w := bench.SeedTable()
	w.Steps, w.StepTime, w.Seeds = []int{8}, time.Minute, nil

	table, err := bench.Runner{}.Table(context.Background(), w, bench.Off(), bench.Affinity())
	if err != nil {
		log.Fatal(err)
	}
	off, on := table.Rows[0], table.Rows[1]
	fmt.Println("more from the cache:", on.HitShare > off.HitShare)
	fmt.Println("sooner:", on.TTFB.P50 < off.TTFB.P50)
	fmt.Printf("stayed: %.0f %%\n", on.Stayed*100)
	// Output:
	// more from the cache: true
	// sooner: true
	// stayed: 100 %
}

// A workload of one's own: chats of four turns with half a minute between them,
// of users that come and go.
func ExampleWorkload() {
	chats := bench.Workload{
		Name:     "chats",
		Engines:  bench.DefaultEngines(),
		Steps:    []int{20},
		StepTime: 5 * time.Minute,
		Arrivals: bench.Poisson(2 * time.Minute),
		Think:    bench.Exponential(30 * time.Second),
		Conversation: func(rng *rand.Rand) bench.Conversation {
			c := bench.Conversation{System: bench.Text{Name: "be brief", Tokens: 800}}
			for range 4 {
				c.Turns = append(c.Turns, bench.Turn{New: 20 + rng.IntN(200), Answer: 150})
			}
			return c
		},
	}
	rows, err := bench.Run(context.Background(), chats, bench.Affinity(), 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("failed:", rows[0].Failed)
	// Output:
	// failed: 0
}

// Any options of a router make a policy, here one that knows nothing of
// conversations.
func ExampleOptions() {
	turns := bench.Options("round robin", func() []warmroute.Option {
		return []warmroute.Option{warmroute.WithAffinity(false), warmroute.WithPicker(balance.RoundRobin)}
	})
	fmt.Println(turns.Name)
	// Output:
	// round robin
}
