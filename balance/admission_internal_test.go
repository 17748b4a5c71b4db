package balance

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAdmissionAccounts does what a router may do, in any order, and has the
// counters agree with the conversations all along and come back to nothing.
func TestAdmissionAccounts(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		a, err := NewAdmission(AdmissionConfig{MaxQueue: 30, MaxWait: time.Minute})
		require.NoError(t, err)
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		rooms := []*Room{a.Join(), a.Join(), a.Join()}
		for _, r := range rooms {
			r.SetCapacity(10_000+rnd.IntN(20_000), rnd.IntN(2) == 0)
		}
		waiting, sent := map[*Turn]bool{}, []*Turn(nil)
		pump := func() {
			for x := a.Admit(now); x != nil; x = a.Admit(now) {
				require.True(t, waiting[x])
				delete(waiting, x)
				sent = append(sent, x)
			}
			if len(waiting) > 0 {
				require.True(t, a.Wake().After(now))
			}
		}
		finish := func(i int) {
			x := sent[i]
			if rnd.IntN(3) > 0 {
				a.FirstByte(x, now)
			}
			s := Served{Failed: rnd.IntN(10) == 0, Known: rnd.IntN(10) > 0}
			if s.Known {
				s.Prompt, s.Completion, s.Measured = x.PromptTokens, rnd.IntN(300), rnd.IntN(5) > 0
				s.Cached = rnd.IntN(s.Prompt + 1)
			}
			a.Finish(x, s, now)
			a.Finish(x, s, now) // a second time does nothing
			sent = append(sent[:i], sent[i+1:]...)
		}
		for range 3000 {
			now = now.Add(time.Duration(rnd.IntN(int(2 * time.Second))))
			switch op := rnd.IntN(20); {
			case op < 8:
				x := &Turn{
					Session: uint64(rnd.IntN(40)), Tenant: uint64(rnd.IntN(3)), Priority: rnd.IntN(2), PromptTokens: 1 + rnd.IntN(8000),
					Home: rooms[rnd.IntN(len(rooms))],
				}
				if rnd.IntN(10) == 0 {
					x.Since = now.Add(-time.Second)
				}
				if rnd.IntN(10) == 0 {
					x.Avoid = rooms[:1]
				}
				if a.Arrive(x, now) {
					if x.Room() != nil {
						sent = append(sent, x)
					} else {
						waiting[x] = true
					}
				}
			case op < 15 && len(sent) > 0:
				finish(rnd.IntN(len(sent)))
			case op == 15:
				for x := range waiting {
					a.Cancel(x)
					delete(waiting, x)
					break
				}
			case op == 16:
				r := rooms[rnd.IntN(len(rooms))]
				r.Open = !r.Open
			case op == 17:
				a.Evict(rooms[rnd.IntN(len(rooms))])
			case op == 18 && rnd.IntN(10) == 0:
				i := rnd.IntN(len(rooms))
				a.Leave(rooms[i])
				rooms[i] = a.Join()
				rooms[i].SetCapacity(20_000, true)
			case op == 19:
				a.Tick(now)
				x := &Turn{Session: uint64(rnd.IntN(80)), PromptTokens: 1 + rnd.IntN(8000)}
				r := rooms[rnd.IntN(len(rooms))]
				a.Pass(x, r, now)
				require.Same(t, r, x.Room())
				sent = append(sent, x)
			}
			pump()
			check(t, a)
		}
		for x := range waiting {
			a.Cancel(x)
		}
		for len(sent) > 0 {
			finish(0)
		}
		check(t, a)
		for _, r := range rooms {
			require.Zero(t, r.busy)
			require.Zero(t, r.turns)
			require.Zero(t, r.firm)
			require.Empty(t, r.prefilling)
			a.Leave(r)
		}
		a.Tick(now.Add(2 * maxHold))
		require.Empty(t, a.conversations, "nothing is remembered for good")
		require.Empty(t, a.ended)
		require.Zero(t, a.Waiting())
	}
}

// check compares each room's counters with its residents.
func check(t *testing.T, a *Admission) {
	t.Helper()
	for _, r := range a.rooms {
		busy, firm, total, idle, turns := 0, 0, 0, 0, 0
		seen := map[*conversation]bool{}
		for c := r.idle.first; c != nil; c = c.next {
			require.Same(t, r, c.room)
			require.Zero(t, c.inFlight)
			require.Zero(t, c.beside)
			if c.prev != nil {
				require.False(t, c.idleAt.Before(c.prev.idleAt), "the longest idle is first")
			}
			seen[c] = true
			total += c.footprint
			idle++
		}
		require.Equal(t, idle, r.idle.n)
		for _, c := range a.conversations {
			if c.room != r || seen[c] {
				continue
			}
			require.Positive(t, c.inFlight)
			busy++
			turns += c.inFlight
			firm += c.footprint + c.beside
			total += c.footprint + c.beside
		}
		// Turns without a key are in no map.
		require.GreaterOrEqual(t, r.busy, busy)
		require.GreaterOrEqual(t, r.turns, turns)
		require.GreaterOrEqual(t, r.firm, firm)
		require.GreaterOrEqual(t, r.total, total)
		for _, x := range r.prefilling {
			require.Same(t, r, x.room)
			require.True(t, x.cold)
			require.False(t, x.answered)
		}
	}
}
