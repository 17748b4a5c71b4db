// Command expiry has a million conversations fall due at about the same time,
// beside a light foreground that goes on using a thousand others, and prints
// what that costs in each table.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/warmroute/warmroute/bench/table"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "expiry:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, args []string) error {
	var tr trial
	flags := flag.NewFlagSet("expiry", flag.ContinueOnError)
	flags.IntVar(&tr.n, "n", 1_000_000, "conversations that fall due")
	flags.IntVar(&tr.hot, "hot", 1000, "conversations that stay in use")
	flags.DurationVar(&tr.ttl, "ttl", 4*time.Second, "how long a conversation without a use is remembered")
	flags.DurationVar(&tr.sweep, "sweep", time.Second, "how often tables without a goroutine of their own are swept")
	flags.DurationVar(&tr.tail, "tail", 2*time.Second, "how long after the last has fallen due the window ends")
	count := flags.Int("count", 1, "rounds, in each of which every table has a turn; medians are printed")
	only := flags.String("impl", "", "which tables, comma-separated (default all)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if tr.n < 1 || tr.hot < 1 || tr.ttl <= 0 || tr.sweep <= 0 || *count < 1 {
		return errors.New("-n, -hot, -ttl, -sweep and -count must be positive")
	}
	impls := slices.DeleteFunc(table.Impls(), func(impl table.Impl) bool {
		return *only != "" && !slices.Contains(strings.Split(*only, ","), impl.Name)
	})
	results := map[string][]result{}
	for range *count {
		for _, impl := range impls {
			r, err := tr.run(impl)
			if err != nil {
				return err
			}
			results[impl.Name] = append(results[impl.Name], r)
		}
	}
	return report(w, tr, impls, results)
}

func report(w io.Writer, tr trial, impls []table.Impl, results map[string][]result) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "| impl\t| longest op\t| p99.9\t| CPU\t| all gone after\t| heap peak\t| heap left\t| of peak\t| hot lost\t| loaded in\t|\n")
	fmt.Fprintln(tw, "| :--\t"+strings.Repeat("| --:\t", 9)+"|")
	var notes []string
	for _, impl := range impls {
		rs := results[impl.Name]
		longest := show(median(rs, func(r result) time.Duration { return r.longest }))
		if len(rs) > 1 {
			byLongest := func(a, b result) int { return cmp.Compare(a.longest, b.longest) }
			longest += fmt.Sprintf(" (%s to %s)", show(slices.MinFunc(rs, byLongest).longest), show(slices.MaxFunc(rs, byLongest).longest))
		}
		gone := show(median(rs, func(r result) time.Duration { return r.gone }))
		if slices.ContainsFunc(rs, func(r result) bool { return r.gone == notGone }) {
			gone = "not within " + show(patience)
		}
		fmt.Fprintf(tw, "| %s\t| %s\t| %s\t| %s\t| %s\t| %.1f MB\t| %.1f MB\t| %.1f %%\t| %d\t| %s\t|\n", impl.Name,
			longest,
			show(median(rs, func(r result) time.Duration { return r.p999 })),
			show(median(rs, func(r result) time.Duration { return r.cpu })),
			gone,
			median(rs, func(r result) float64 { return r.peak / 1e6 }),
			median(rs, func(r result) float64 { return r.left / 1e6 }),
			median(rs, func(r result) float64 { return 100 * r.left / r.peak }),
			median(rs, func(r result) int64 { return r.lost }),
			show(median(rs, func(r result) time.Duration { return r.load })),
		)
		late := 0
		for _, r := range rs {
			if r.load >= tr.ttl {
				late++
			}
		}
		if late > 0 {
			notes = append(notes, fmt.Sprintf("%s: in %d of %d rounds loading took longer than the TTL, so that part had expired before all were there: not to be compared.", impl.Name, late, len(rs)))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, note := range notes {
		if _, err := fmt.Fprintf(w, "\n%s\n", note); err != nil {
			return err
		}
	}
	return nil
}

func median[T cmp.Ordered](rs []result, of func(result) T) T {
	var values []T
	for _, r := range rs {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// show is a duration to three digits or so.
func show(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.3g s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
	default:
		return fmt.Sprintf("%.3g µs", float64(d)/float64(time.Microsecond))
	}
}
