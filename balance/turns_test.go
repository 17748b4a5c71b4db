package balance_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/replica"
)

// Replicas that are gone must not be kept for ever by the pickers that chose
// them.
func TestPickersForgetReplicas(t *testing.T) {
	const generations, n = 500, 4
	for _, b := range builtins(t) {
		t.Run(b.name, func(t *testing.T) {
			p := b.make()
			var seen []weak.Pointer[replica.Replica]
			for range generations {
				candidates := fleet(t, n)
				for i := range candidates {
					seen = append(seen, weak.Make(candidates[i].Replica))
					pick(t, p, request(uint64(i+1)), candidates)
				}
			}
			runtime.GC()
			alive := 0
			for _, r := range seen {
				if r.Value() != nil {
					alive++
				}
			}
			assert.Less(t, alive, 100, "of %d", len(seen))
			runtime.KeepAlive(p)
		})
	}
}

// What a picker forgets must not be what it needs: a long line of newcomers
// does not disturb the turns of those that stay.
func TestTurnsOfThoseThatStay(t *testing.T) {
	p, stay := balance.RoundRobin(), fleet(t, 3)
	counts := make([]int, len(stay)+1)
	for range 300 {
		newcomer := fleet(t, 1)
		for range len(counts) {
			counts[pick(t, p, request(1), append(stay[:3:3], newcomer...))]++
		}
	}
	for i, got := range counts {
		assert.InDelta(t, 300, got, 10, "candidate %d", i)
	}
}
