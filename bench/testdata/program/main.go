// Program runs a simulation outside of any test.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/warmroute/warmroute/bench"
)

func main() {
	w := bench.SeedTable()
	w.Steps, w.StepTime = []int{4}, 10*time.Second
	table, err := bench.Runner{}.Table(context.Background(), w, bench.Off(), bench.Affinity())
	if err != nil {
		log.Fatal(err)
	}
	flags := 0
	flag.VisitAll(func(*flag.Flag) { flags++ })
	fmt.Printf("%d flags, %d rows, failed %v\n", flags, len(table.Rows), table.Rows[0].Failed+table.Rows[1].Failed)
}
