// Scorer places conversations by a rule of its own: by how fast each replica's
// card is, beside the built-in ones.
//
//	go run ./examples/scorer
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
)

// cards is a balance.Scorer: the relative speed of the card behind each URL.
type cards map[string]float64

// Score rates a replica higher the faster its card is for each conversation it
// has, this one included.
func (c cards) Score(_ *balance.Request, candidates []balance.Candidate, scores []float64) {
	best := 0.0
	for i := range candidates {
		r := &candidates[i]
		scores[i] = c[r.Replica.Endpoint().URL] / float64(r.Sessions+1)
		best = max(best, scores[i])
	}
	for i := range scores {
		if best > 0 {
			scores[i] /= best // 0 to 1
		}
	}
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	speeds := cards{"http://h100:8000": 3, "http://a4000:8000": 1}
	router, err := warmroute.New(
		[]warmroute.Endpoint{{URL: "http://h100:8000"}, {URL: "http://a4000:8000"}},
		warmroute.WithScorers(
			balance.Weight(balance.InFlight(), 1),
			balance.Weight(speeds, 2),
		),
	)
	if err != nil {
		return err
	}
	defer router.Close()

	for i := range 12 {
		lease, err := router.Route(ctx, warmroute.Request{Session: fmt.Sprint("conversation-", i)})
		if err != nil {
			return err
		}
		lease.Answered()
		lease.Done(warmroute.Result{})
	}
	for _, r := range router.Stats().Pools[0].Replicas {
		fmt.Fprintf(out, "%s: %d conversations\n", r.Name, r.Sessions)
	}
	return nil
}
