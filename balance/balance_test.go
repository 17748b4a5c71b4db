package balance_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balance"
	"github.com/warmroute/warmroute/replica"
)

func TestLoad(t *testing.T) {
	assert.Equal(t, 7, (&balance.Candidate{InFlight: 3, Others: 4, Running: 100, Waiting: 50}).Load())
	assert.Zero(t, (&balance.Candidate{Running: balance.Unknown, Waiting: balance.Unknown}).Load())
}

func TestPickersRefuseAnEmptySlice(t *testing.T) {
	for _, b := range builtins(t) {
		t.Run(b.name, func(t *testing.T) {
			p := b.make()
			for _, candidates := range [][]balance.Candidate{nil, {}} {
				_, err := p.Pick(request(1), candidates)
				require.ErrorIs(t, err, balance.ErrNoCandidate)
			}
			pick(t, p, request(1), fleet(t, 3))
			_, err := p.Pick(request(1), nil)
			require.ErrorIs(t, err, balance.ErrNoCandidate)
			_, err = p.Pick(request(0), nil)
			require.ErrorIs(t, err, balance.ErrNoCandidate)
		})
	}
}

func TestPickersTakeAnySize(t *testing.T) {
	all := ranks(t, 4, replica.MaxRanks)
	for _, b := range builtins(t) {
		t.Run(b.name, func(t *testing.T) {
			p := b.make()
			for _, n := range []int{1, len(all), 2, 1, 300} {
				for s := range uint64(3) {
					pick(t, p, request(s), all[len(all)-n:])
				}
			}
		})
	}
}

func TestPickersTakeCandidatesWithoutAReplica(t *testing.T) {
	for _, b := range builtins(t) {
		t.Run(b.name, func(t *testing.T) {
			pick(t, b.make(), request(1), make([]balance.Candidate, 3))
		})
	}
}

// Two pickers that saw the same choose the same, although the slice that one
// of them was given was written over after each pick; and neither changes it.
func TestPickersAreRepeatableAndLeaveTheSliceAlone(t *testing.T) {
	for _, b := range builtins(t) {
		t.Run(b.name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(3, 4))
			all := fleet(t, 40)
			p, twin := b.make(), b.make()
			for range 1000 {
				n := 1 + rnd.IntN(len(all))
				candidates := slices.Clone(all[:n])
				rnd.Shuffle(n, func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
				randomize(rnd, candidates)
				req := randomRequest(rnd, n)
				before, reqBefore := slices.Clone(candidates), *req

				got := pick(t, p, req, candidates)
				requireSame(t, before, candidates)
				require.Equal(t, reqBefore, *req)
				clear(candidates)
				randomize(rnd, candidates)

				require.Equal(t, pick(t, twin, req, before), got)
			}
		})
	}
}

// requireSame compares field by field, since NaN is not equal to itself.
func requireSame(t *testing.T, want, got []balance.Candidate) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		w, g := want[i], got[i]
		if math.IsNaN(w.KVUsage) && math.IsNaN(g.KVUsage) {
			w.KVUsage, g.KVUsage = 0, 0
		}
		if math.IsNaN(w.PrefillRate) && math.IsNaN(g.PrefillRate) {
			w.PrefillRate, g.PrefillRate = 0, 0
		}
		require.True(t, reflect.DeepEqual(w, g), "candidate %d: %+v became %+v", i, w, g)
	}
}

func TestEqualReplicasAreNotStarvedByTheirOrder(t *testing.T) {
	const n, rounds = 8, 250
	orders := map[string]func(*rand.Rand, []balance.Candidate){
		"fixed": func(*rand.Rand, []balance.Candidate) {},
		"shuffled": func(rnd *rand.Rand, c []balance.Candidate) {
			rnd.Shuffle(len(c), func(i, j int) { c[i], c[j] = c[j], c[i] })
		},
		"rotating forwards":  func(_ *rand.Rand, c []balance.Candidate) { rotate(c, 1) },
		"rotating backwards": func(_ *rand.Rand, c []balance.Candidate) { rotate(c, len(c)-1) },
	}
	for _, b := range builtins(t) {
		for order, change := range orders {
			t.Run(b.name+"/"+order, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(5, 6))
				candidates, p := fleet(t, n), b.make()
				counts := map[*replica.Replica]int{}
				for k := range n * rounds {
					change(rnd, candidates)
					i := pick(t, p, request(uint64(k+1)), candidates)
					candidates[i].InFlight++
					counts[candidates[i].Replica]++
				}
				require.Len(t, counts, n)
				for r, got := range counts {
					if b.turns {
						require.Equal(t, rounds, got, r)
					} else {
						require.InDelta(t, rounds, got, rounds/4, r)
					}
				}
			})
		}
	}
}

func rotate(c []balance.Candidate, by int) {
	copy(c, slices.Concat(c[by:], c[:by]))
}

func TestPickersDoNotAllocate(t *testing.T) {
	for _, b := range builtins(t) {
		t.Run(b.name, func(t *testing.T) {
			p, candidates := b.make(), fleet(t, 8)
			randomize(rand.New(rand.NewPCG(7, 8)), candidates)
			for i := range candidates {
				candidates[i].Stale, candidates[i].Running, candidates[i].Waiting = false, i, 8-i
			}
			req := request(0)
			once := func() {
				req.Session++
				if _, err := p.Pick(req, candidates); err != nil {
					t.Error(err)
				}
			}
			for range 100 {
				once()
			}
			assert.Zero(t, testing.AllocsPerRun(1000, once))
		})
	}
}

func TestPickerFunc(t *testing.T) {
	last := balance.PickerFunc(func(_ *balance.Request, candidates []balance.Candidate) (int, error) {
		if len(candidates) == 0 {
			return 0, errors.New("none")
		}
		return len(candidates) - 1, nil
	})
	assert.Equal(t, 2, pick(t, last, request(1), fleet(t, 3)))
	_, err := last.Pick(request(1), nil)
	assert.EqualError(t, err, "none")
}
