package balance

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAdmissionAccounts does what a router may do, in any order, and has the
// counters agree with the conversations all along and come back to nothing.
func TestAdmissionAccounts(t *testing.T) {
	pushed := 0
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		most := 3 + 9*int(seed%4)
		a, err := NewAdmission(AdmissionConfig{MaxQueue: most, MaxWait: time.Minute})
		require.NoError(t, err)
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		rooms := []*Room{a.Join(), a.Join(), a.Join()}
		for _, r := range rooms[seed%2:] { // one may not tell its own
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
			require.Equal(t, len(waiting), a.Waiting())
			require.Nil(t, nextOfAll(a, now), "one that could have gone")
			for x := range waiting {
				reach := slices.ContainsFunc(a.rooms, func(r *Room) bool { return x.mayEnter(r) })
				require.False(t, reach && now.Sub(x.arrived) >= time.Minute && now.Sub(a.overdueAt) == 0, "it has waited for too long")
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
		for range 2000 {
			now = now.Add(time.Duration(rnd.IntN(int(2 * time.Second))))
			arrived := (*Turn)(nil)
			switch op := rnd.IntN(20); {
			case op < 8:
				x := &Turn{
					Session: uint64(rnd.IntN(40)), Tenant: uint64(rnd.IntN(3) * rnd.IntN(2)), Priority: rnd.IntN(2), PromptTokens: 1 + rnd.IntN(8000),
					Home: rooms[rnd.IntN(len(rooms))],
				}
				if rnd.IntN(10) == 0 {
					x.Since = now.Add(-time.Second)
				}
				if rnd.IntN(10) == 0 {
					x.Avoid = rooms[:1]
				}
				x.Lost = rnd.IntN(4) == 0
				if a.Arrive(x, now) {
					if x.Room() != nil {
						sent = append(sent, x)
					} else {
						waiting[x] = true
					}
				}
				arrived = x
			case op < 15 && len(sent) > 0:
				finish(rnd.IntN(len(sent)))
			case op == 15:
				for x := range waiting {
					if rnd.IntN(2) == 0 {
						a.Cancel(x)
					} else {
						a.Release(x)
					}
					a.Cancel(x) // a second time does nothing
					a.Release(x)
					delete(waiting, x)
					break
				}
				if rnd.IntN(4) == 0 {
					for _, x := range a.Stranded(nil) {
						require.False(t, slices.ContainsFunc(rooms, func(r *Room) bool { return !r.Draining && x.mayEnter(r) }))
						a.Release(x)
						delete(waiting, x)
					}
				}
				if len(sent) > 0 {
					a.FirstByte(sent[rnd.IntN(len(sent))], now)
				}
			case op == 16:
				r := rooms[rnd.IntN(len(rooms))]
				switch rnd.IntN(3) {
				case 0:
					r.Draining = !r.Draining
				case 1:
					r.SetCapacity(rnd.IntN(3)*rnd.IntN(20_000), rnd.IntN(2) == 0)
				default:
					r.Open = !r.Open
				}
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
			if out := pushOut(t, a, arrived); out != nil {
				require.True(t, waiting[out])
				delete(waiting, out)
				pushed++
				pump()
			}
			require.LessOrEqual(t, a.Waiting(), most)
			check(t, a, sent)
		}
		for x := range waiting {
			a.Cancel(x)
		}
		for len(sent) > 0 {
			finish(0)
		}
		check(t, a, nil)
		for _, r := range rooms {
			require.Zero(t, r.busy)
			require.Zero(t, r.turns)
			require.Zero(t, r.firm)
			require.Empty(t, r.prefilling)
			a.Leave(r)
			require.Zero(t, r.total)
			require.Zero(t, r.Residents())
		}
		a.Tick(now.Add(2 * maxHold))
		require.Empty(t, a.conversations, "nothing is remembered for good")
		require.Empty(t, a.ended)
		require.Zero(t, a.Waiting())
	}
	require.Greater(t, pushed, 100)
}

// pushOut is what PushOut does for a turn that has come, nil if there is none,
// having seen that it is right.
func pushOut(t *testing.T, a *Admission, came *Turn) *Turn {
	t.Helper()
	if came == nil {
		return nil
	}
	full := a.Waiting() > a.cfg.MaxQueue
	before := map[uint64]int{}
	for x := range a.Queued() {
		before[x.Tenant]++
	}
	out := a.PushOut(came)
	require.Equal(t, full, out != nil)
	require.Nil(t, a.PushOut(came), "one alone")
	if out != nil {
		require.False(t, out.queued)
		require.Zero(t, out.Since)
		require.Greater(t, before[out.Tenant], before[came.Tenant], "its tenant had two more than the other before")
		require.GreaterOrEqual(t, out.Priority, came.Priority)
	}
	return out
}

// nextOfAll is the turn that is to go next, found by trying every one.
func nextOfAll(a *Admission, now time.Time) *Turn {
	for _, r := range a.rooms {
		r.claimed = false
	}
	for _, x := range a.queue.turns {
		if !a.mayEnterAny(x) {
			continue
		}
		if a.place(x, now) != nil {
			return x
		}
		if !a.claim(x, now) {
			return nil
		}
	}
	return nil
}

// check compares each room's counters with its residents, of which those without
// a key are known by the turns that were sent alone, and the queue's with its turns.
func check(t *testing.T, a *Admission, sent []*Turn) {
	t.Helper()
	checkCounts(t, &a.queue)
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
		all := slices.Collect(maps.Values(a.conversations))
		for _, x := range sent {
			all = append(all, x.conv)
		}
		for _, c := range all {
			if c.room != r || seen[c] {
				continue
			}
			seen[c] = true
			require.Positive(t, c.inFlight)
			require.GreaterOrEqual(t, c.beside, 0)
			require.GreaterOrEqual(t, c.turns, c.inFlight)
			busy++
			turns += c.inFlight
			firm += c.footprint + c.beside
			total += c.footprint + c.beside
		}
		unanswered := 0
		for _, x := range sent {
			if x.room == r && !x.answered {
				unanswered++
			}
		}
		require.Equal(t, unanswered, r.unanswered)
		require.Equal(t, busy, r.busy)
		require.Equal(t, turns, r.turns)
		require.Equal(t, firm, r.firm)
		require.Equal(t, total, r.total)
		for _, x := range r.prefilling {
			require.Same(t, r, x.room)
			require.True(t, x.cold)
			require.False(t, x.answered)
		}
	}
}
