package bench_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/bench"
	"github.com/warmroute/warmroute/internal/fakevllm"
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

// A recorded conversation, here of two requests, on engines of one's own.
func ExampleTrace() {
	sessions, err := bench.ReadTrace(strings.NewReader(
		`{"id":"a","block":64,"tool":1000,"reqs":[[0,3000,100,0,47,4,0,0],[34,3500,200,46,55,6,30,0]]}`))
	if err != nil {
		log.Fatal(err)
	}
	w, err := bench.Trace(sessions, bench.TraceOptions{Speed: 10})
	if err != nil {
		log.Fatal(err)
	}
	w.Engines = bench.DefaultEngines()
	w.Steps, w.StepTime = []int{4}, 2*time.Minute
	rows, err := bench.Run(context.Background(), w, bench.Affinity(), 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("stayed: %.0f %%\n", rows[0].Stayed*100)
	// Output:
	// stayed: 100 %
}

// A server that is there, here a simulated one behind a socket. Its metrics page
// says what it took from its cache.
func ExampleLive() {
	engine, err := fakevllm.New(fakevllm.Config{Ranks: 1, StepTime: 100 * time.Microsecond, ContextCost: 1, PrefillRate: 1e6})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	server := httptest.NewServer(engine)
	defer server.Close()

	w := bench.SeedTable()
	w.Steps, w.Seeds = []int{2}, nil
	table, err := bench.Live{
		Metrics:     []string{server.URL},
		MaxRequests: 12, // ends a step before its time
	}.Table(context.Background(), w, bench.Target{Name: "direct", URLs: []string{server.URL}})
	if err != nil {
		log.Fatal(err)
	}
	r := table.Rows[0]
	fmt.Println("requests:", r.Requests, "failed:", r.Failed)
	fmt.Println("some of it cached:", r.HitShare > 0.3)
	// Output:
	// requests: 12 failed: 0
	// some of it cached: true
}
