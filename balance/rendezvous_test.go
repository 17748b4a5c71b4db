package balance_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balance"
)

func TestRendezvousIsEven(t *testing.T) {
	sessions := map[string]func(k int) uint64{
		"hashes":    func(k int) uint64 { return rand.New(rand.NewPCG(uint64(k), 23)).Uint64() | 1 },
		"in a row":  func(k int) uint64 { return uint64(k + 1) },
		"high bits": func(k int) uint64 { return uint64(k+1) << 40 },
	}
	fleets := map[string][]balance.Candidate{"2": fleet(t, 2), "8": fleet(t, 8), "100": fleet(t, 100), "16 ranks": ranks(t, 1, 16)}
	for of, session := range sessions {
		for size, candidates := range fleets {
			t.Run(of+"/"+size, func(t *testing.T) {
				p, counts := balance.Rendezvous(), make([]int, len(candidates))
				for k := range 500 * len(candidates) {
					counts[pick(t, p, request(session(k)), candidates)]++
				}
				requireEven(t, counts)
			})
		}
	}
}

func TestRendezvousMovesOnlyWhatItMust(t *testing.T) {
	const sessions = 8000
	all := fleet(t, 8)
	homes := func(candidates []balance.Candidate) []string {
		p, names := balance.Rendezvous(), make([]string, sessions)
		for k := range names {
			names[k] = candidates[pick(t, p, request(uint64(k+1)), candidates)].Replica.Name()
		}
		return names
	}
	before := homes(all)
	for leaving := range all {
		gone := all[leaving].Replica.Name()
		after := homes(slices.Delete(slices.Clone(all), leaving, leaving+1))
		moved := map[string]int{}
		for k := range before {
			if before[k] != gone {
				require.Equal(t, before[k], after[k])
			} else {
				moved[after[k]]++
			}
		}
		counts := []int{}
		for _, n := range moved {
			counts = append(counts, n)
		}
		require.Len(t, counts, 7, "the conversations of the one that left go to all others")
		requireEven(t, counts)
	}
}

// Gateways that have the same replicas must agree without talking: whatever
// their order, and whatever was picked before.
func TestRendezvousAgreesBetweenProcesses(t *testing.T) {
	here, there := fleet(t, 9), fleet(t, 9)
	slices.Reverse(there)
	p, other := balance.Rendezvous(), balance.Rendezvous()
	for k := range 500 {
		some := there[k%9:]
		require.Equal(t, pick(t, balance.Rendezvous(), request(uint64(k+1)), some), pick(t, other, request(uint64(k+1)), some))
		i := pick(t, p, request(uint64(k+1)), here)
		j := pick(t, other, request(uint64(k+1)), there)
		require.Equal(t, here[i].Replica.Name(), there[j].Replica.Name())
	}
}

// The hash is part of what gateways of different builds share.
func TestRendezvousIsFixed(t *testing.T) {
	candidates, p, got := fleet(t, 4), balance.Rendezvous(), make([]int, 12)
	for k := range got {
		got[k] = pick(t, p, request(uint64(k+1)), candidates)
	}
	assert.Equal(t, []int{1, 2, 0, 1, 3, 3, 0, 3, 3, 1, 3, 1}, got)
}

func TestHashingPickersPlaceRequestsWithoutASessionByLoad(t *testing.T) {
	bounded, err := balance.BoundedLoad(1.25)
	require.NoError(t, err)
	for _, p := range []balance.Picker{balance.Rendezvous(), bounded} {
		candidates, counts := fleet(t, 4), make([]int, 4)
		for range 40 {
			i := pick(t, p, request(0), candidates)
			counts[i]++
			candidates[i].InFlight++
		}
		assert.Equal(t, []int{10, 10, 10, 10}, counts)
	}
}
