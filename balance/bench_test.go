package balance_test

import (
	"fmt"
	"testing"
)

// BenchmarkPick measures one pick with what it changes on a busy fleet, where
// candidates differ, and on an idle one, where all are equal.
func BenchmarkPick(b *testing.B) {
	for _, n := range []int{8, 64} {
		for _, picker := range builtins(b) {
			for _, state := range []string{"busy", "idle"} {
				b.Run(fmt.Sprintf("%s/%s/%d", picker.name, state, n), func(b *testing.B) {
					p, candidates := picker.make(), fleet(b, n)
					if state == "busy" {
						for i := range candidates {
							c := &candidates[i]
							c.InFlight, c.Sessions = i*7%n, i*5%n
							c.Running, c.Waiting, c.KVUsage = c.InFlight, i%3, float64(i*3%n)/float64(n)
						}
					}
					req := request(0)
					b.ReportAllocs()
					for b.Loop() {
						req.Session++
						if _, err := p.Pick(req, candidates); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
