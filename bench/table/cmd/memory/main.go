// Command memory prints what a conversation costs in each table: heap bytes an
// entry once all are loaded and the collector has run, and allocations a
// creation. Each key is a string of its own that the caller lets go of, as a
// server does with a request's: what the table keeps of it is counted.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/bench/table"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, args []string) error {
	flags := flag.NewFlagSet("memory", flag.ContinueOnError)
	n := flags.Int("n", 1_000_000, "conversations")
	only := flags.String("impl", "", "which tables, comma-separated (default all)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	clock := affinity.NewClock()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go clock.Run(ctx)
	keys := table.NewKeys(*n, 1)

	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "| impl\t| bytes/entry\t| beyond the key's %d\t| allocs/create\t|\n| :--\t| --:\t| --:\t| --:\t|\n", table.KeyLen)
	for _, impl := range table.Impls() {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), impl.Name) {
			continue
		}
		bytes, allocs, err := measure(impl, keys, clock)
		if err != nil {
			return err
		}
		fmt.Fprintf(tw, "| %s\t| %.1f\t| %.1f\t| %.2f\t|\n", impl.Name, bytes, bytes-table.KeyLen, allocs)
	}
	return tw.Flush()
}

// measure returns heap bytes an entry, with its key, and the table's allocations
// a creation.
func measure(impl table.Impl, keys table.Keys, clock *affinity.Clock) (bytes, allocs float64, err error) {
	replicas, choose := table.RoundRobin(8)
	before := settled()
	tb := impl.New(table.Config{TTL: time.Hour, Clock: clock, Replicas: replicas, Choose: choose})
	defer tb.Close()
	for i := range keys.Len() {
		tb.GetOrCreate(strings.Clone(keys.At(i)))
	}
	// Before the collector runs, for it allocates a little of its own.
	var loaded runtime.MemStats
	runtime.ReadMemStats(&loaded)
	after := settled()
	if tb.Len() != keys.Len() {
		return 0, 0, fmt.Errorf("%s holds %d of %d entries", impl.Name, tb.Len(), keys.Len())
	}
	n := float64(keys.Len())
	return (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / n, float64(loaded.Mallocs-before.Mallocs)/n - 1, nil
}

// settled is the heap with no garbage in it. The pause lets a table's own
// goroutine come to the end of what it has to do.
func settled() (m runtime.MemStats) {
	for range 3 {
		time.Sleep(50 * time.Millisecond)
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m
}
