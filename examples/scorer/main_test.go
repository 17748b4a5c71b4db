package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/bench"
)

func Example() {
	if err := run(context.Background(), os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// h100:8000: 9 conversations
	// a4000:8000: 3 conversations
}

// TestScorer compares the scorer with the built-in policies on two servers.
func TestScorer(t *testing.T) {
	w := bench.SeedTable()
	w.Engines.Endpoints, w.Engines.Ranks = 2, 2
	w.Steps, w.StepTime, w.Seeds, w.Published = []int{8}, time.Minute, nil, nil
	mine := bench.Scorers("by card", balance.Weight(cards{"http://engine-0:8000": 3, "http://engine-1:8000": 1}, 1))
	table := bench.Compare(t, w, bench.Off(), bench.Affinity(), mine)
	if err := table.WriteText(t.Output()); err != nil {
		t.Fatal(err)
	}
	if off, mine := table.Rows[0], table.Rows[2]; mine.Stayed != 1 || mine.HitShare < off.HitShare {
		t.Errorf("conversations do not stay: %+v", mine)
	}
}
