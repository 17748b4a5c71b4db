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
							c.PrefillRate, c.PendingPrefill = float64(3000+i*11%n), c.InFlight*2000
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

// BenchmarkPickAtHome measures what a request costs that a HomePicker is asked
// for although its conversation has a home.
func BenchmarkPickAtHome(b *testing.B) {
	for _, n := range []int{8, 64} {
		b.Run(fmt.Sprintf("SoftAffinity/%d", n), func(b *testing.B) {
			p, candidates := softAffinity(b, 0.25), fleet(b, n)
			for i := range candidates {
				candidates[i].PrefillRate, candidates[i].PendingPrefill = 3000, i*2000
			}
			req := request(1)
			req.Home, req.PromptTokens, req.HomeTokens = n/2, 30_000, 28_000
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Pick(req, candidates); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
