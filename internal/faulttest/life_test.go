package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/fakevllm"
)

// typed reports whether a caller can tell by its type what an error is.
func typed(err error) bool {
	var op *net.OpError
	var late *warmroute.TimeoutError
	return errors.As(err, &op) || errors.As(err, &late) || errors.Is(err, warmroute.ErrNoReplica) || errors.Is(err, warmroute.ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func TestAnEngineRestarts(t *testing.T) {
	virtual(t, []int{1, 1, 1}, func(t *testing.T, f *fleet) {
		home := f.ok(ask{session: "s"}).replica
		other := f.ok(ask{session: "t"}).replica
		f.engineOf(home).Stop()
		moved := f.ok(ask{session: "s", turn: 1})
		require.NotEqual(t, home, moved.replica)
		f.engineOf(home).Start()
		time.Sleep(time.Minute)
		next := f.ok(ask{session: "s", turn: 2})
		assert.Equal(t, [2]string{moved.replica, "sticky"}, [2]string{next.replica, next.outcome}, "a cold cache pulls nobody back")
		next = f.ok(ask{session: "t", turn: 1})
		assert.Equal(t, [2]string{other, "sticky"}, [2]string{next.replica, next.outcome})
		assert.Equal(t, uint64(1), f.replicas()[home].Failed)
		assert.Zero(t, f.replicas()[home].Sessions)
	})
}

// A restart between two turns, so short that no request meets it.
func TestAnEngineRestartsUnseen(t *testing.T) {
	virtual(t, []int{1, 1, 1}, func(t *testing.T, f *fleet) {
		home := f.ok(ask{session: "s"}).replica
		time.Sleep(time.Second)
		f.engineOf(home).Stop()
		f.engineOf(home).Start()
		time.Sleep(3 * time.Second)
		next := f.ok(ask{session: "s", turn: 1})
		assert.Equal(t, "placed", next.outcome, "what was there is gone")
		assert.Zero(t, f.replicas()[home].Failed)
		again := f.ok(ask{session: "s", turn: 2})
		assert.Equal(t, [2]string{next.replica, "sticky"}, [2]string{again.replica, again.outcome})
		assert.Equal(t, 1, f.sessions())
	})
}

func TestAnEngineRestartsUnderAStream(t *testing.T) {
	virtual(t, []int{1, 1}, func(t *testing.T, f *fleet) {
		home := f.ok(ask{session: "s"}).replica
		id := f.newID()
		resp, err := f.transport.RoundTrip(ask{session: "s", turn: 1, tokens: 1000}.request(id))
		require.NoError(t, err)
		time.Sleep(time.Second)
		f.engineOf(home).Stop()
		got := read(resp, nil)
		require.ErrorIs(t, got.err, syscall.ECONNRESET)
		assert.Contains(t, got.body, `"role":"assistant"`)
		f.quiet()
		assert.Equal(t, uint64(1), f.replicas()[home].Failed)
		assert.Equal(t, ran, f.engineOf(home).Delivery(id), "it had begun, and is not begun again elsewhere")
		f.engineOf(home).Start()
	})
}

func TestAnEngineSleeps(t *testing.T) {
	virtual(t, []int{1, 1}, func(t *testing.T, f *fleet) {
		home := f.ok(ask{session: "s"}).replica
		f.engineOf(home).Sleep()
		time.Sleep(2 * time.Second)
		assert.Equal(t, "asleep", string(f.replicas()[home].State))
		moved := f.ok(ask{session: "s", turn: 1})
		require.NotEqual(t, home, moved.replica)
		for i := range 5 {
			assert.NotEqual(t, home, f.ok(ask{session: fmt.Sprint("new", i)}).replica)
		}
		f.engineOf(home).Wake()
		time.Sleep(2 * time.Second)
		assert.Equal(t, "up", string(f.replicas()[home].State))
		assert.Equal(t, moved.replica, f.ok(ask{session: "s", turn: 2}).replica)
		time.Sleep(time.Minute)
		assert.Equal(t, home, f.ok(ask{session: "another"}).replica, "it takes new ones again, and has the least")
	})
}

// An engine that stands still while its health says 200 is found out by its
// counters within wedgedAfter, and gets no new conversations until it moves.
func TestAnEngineIsWedged(t *testing.T) {
	virtual(t, []int{1, 1}, func(t *testing.T, f *fleet) {
		home := f.ok(ask{session: "s"}).replica
		require.NoError(t, f.engineOf(home).SetFault(fakevllm.Fault{Kind: fakevllm.Wedge}))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		hung := make(chan seen, 1)
		go func() { hung <- f.do(ask{session: "s", turn: 1, ctx: ctx}) }()
		time.Sleep(90 * time.Second)
		assert.Equal(t, "wedged", string(f.replicas()[home].State))
		for i := range 5 {
			assert.NotEqual(t, home, f.ok(ask{session: fmt.Sprint("new", i)}).replica)
		}
		require.NoError(t, f.engineOf(home).SetFault(fakevllm.Fault{}))
		got := <-hung
		require.NoError(t, got.err, "it goes on where it stood still")
		assert.Equal(t, home, got.replica)
		time.Sleep(3 * time.Second)
		assert.Equal(t, "up", string(f.replicas()[home].State))
		assert.Zero(t, f.replicas()[home].Failed)
	})
}

// An engine that dies and comes back every second costs its conversation a
// turn now and then, which fails with an error that says so, and no other one
// anything.
func TestAnEngineFlaps(t *testing.T) {
	virtual(t, []int{1, 1, 1}, func(t *testing.T, f *fleet) {
		home := f.ok(ask{session: "s"}).replica
		steady := f.ok(ask{session: "t"}).replica
		ctx, cancel := context.WithCancel(t.Context())
		flapping := make(chan struct{})
		go func() {
			f.engineOf(home).Flap(ctx, time.Second)
			close(flapping)
		}()
		failed, worked := 0, 0
		for i := range 100 {
			// Some of them long enough to be under way when it dies.
			got := f.do(ask{session: fmt.Sprint("s", i%10), tokens: 1 + i%3*60})
			if got.err != nil {
				assert.True(t, typed(got.err), "%v", got.err)
				failed++
			} else {
				assert.Equal(t, 200, got.status)
				worked++
			}
			assert.Equal(t, steady, f.ok(ask{session: "t", turn: 1}).replica)
			time.Sleep(330 * time.Millisecond)
		}
		cancel()
		<-flapping
		assert.Less(t, failed, 20)
		assert.Equal(t, 100, failed+worked)
		t.Log("failed:", failed)
		time.Sleep(time.Minute)
		f.ok(ask{session: "s", turn: 1})
		assert.Equal(t, uint64(0), f.replicas()[steady].Failed)
	})
}

// A replica that leaves while a request of it is under way and comes back under
// its address is another one, whose counts begin at zero and stay right.
func TestAReplicaLeavesAndReturns(t *testing.T) {
	for _, residency := range []warmroute.Residency{warmroute.ResidencyAuto, warmroute.ResidencyOff} {
		virtual(t, []int{1, 1}, func(t *testing.T, f *fleet) {
			home := f.ok(ask{session: "s"}).replica
			url := "http://" + home
			resp, err := f.transport.RoundTrip(ask{session: "s", turn: 1, tokens: 500}.request(f.newID()))
			require.NoError(t, err)
			require.NoError(t, f.router.Remove(url))
			require.ErrorIs(t, f.router.Remove(url), warmroute.ErrUnknownReplica)
			require.NoError(t, f.router.Add(warmroute.Endpoint{URL: url}))
			require.ErrorIs(t, f.router.Add(warmroute.Endpoint{URL: url}), warmroute.ErrDuplicate)
			assert.Equal(t, 1, f.router.Stats().Pools[0].InFlight, "on the one that has left")
			assert.Zero(t, f.replicas()[home].InFlight)
			assert.Zero(t, f.replicas()[home].Sessions)
			got := read(resp, nil)
			require.NoError(t, got.err)
			f.quiet()
			m := f.replicas()[home]
			assert.Equal(t, [3]uint64{}, [3]uint64{m.Sticky, m.Placed, m.Failed})
			time.Sleep(2 * time.Second)
			next := f.ok(ask{session: "s", turn: 2})
			assert.Equal(t, "placed", next.outcome)
			again := f.ok(ask{session: "s", turn: 3})
			assert.Equal(t, [2]string{next.replica, "sticky"}, [2]string{again.replica, again.outcome})
		}, warmroute.WithResidency(residency))
	}
}

// An engine that comes back with other ranks: more are used as they are found.
// Fewer are believed after some pages; a request for a rank that is gone until
// then gets the engine's own refusal.
func TestAnEngineChangesItsRanks(t *testing.T) {
	virtual(t, []int{2, 2}, func(t *testing.T, f *fleet) {
		require.Len(t, f.replicas(), 4)
		for _, ranks := range []int{4, 1, 3} {
			e := f.engineOf("a:1")
			e.Stop()
			e.StartAs(ranks, "")
			time.Sleep(time.Minute) // they are found, and have started slowly
			assert.Len(t, f.replicas(), 2+ranks)
			homes, used := map[string]string{}, map[string]bool{}
			for turn := range 2 {
				for i := range 24 {
					session := fmt.Sprint(ranks, "-", i)
					got := f.ok(ask{session: session, turn: turn})
					used[got.replica] = true
					if turn == 0 {
						homes[session] = got.replica
					}
					assert.Equal(t, homes[session], got.replica)
				}
			}
			assert.Len(t, used, 2+ranks, "each takes its part")
			for _, m := range f.replicas() {
				assert.Zero(t, m.Failed, m.Name)
			}
		}
	})
}

func TestAllReplicasAreDown(t *testing.T) {
	virtual(t, []int{1, 1, 1}, func(t *testing.T, f *fleet) {
		home := f.ok(ask{session: "s"}).replica
		for _, e := range f.all() {
			e.Stop()
		}
		for i := range 10 {
			got := f.do(ask{session: "s", turn: 1})
			require.ErrorIs(t, got.err, warmroute.ErrNoReplica)
			require.ErrorIs(t, got.err, syscall.ECONNREFUSED, "and why")
			f.quiet()
			assert.Equal(t, 1, f.sessions())
			for _, m := range f.replicas() {
				assert.Equal(t, uint64(i+1), m.Failed, "each was tried: no refusal of our own making")
				assert.Equal(t, "down", string(m.State))
			}
		}
		f.engineOf(home).Start()
		got := f.ok(ask{session: "s", turn: 1})
		assert.Equal(t, home, got.replica, "the first request that can finds it, at once")
	})
}

// Close in the middle of everything: what is under way ends, what waits or comes
// is told so, and Run returns.
func TestCloseInTheMiddleOfEverything(t *testing.T) {
	virtual(t, []int{1}, func(t *testing.T, f *fleet) {
		results := make(chan seen, 100)
		for i := range 40 {
			go func() { results <- f.do(ask{session: fmt.Sprint("s", i), tokens: 200, whole: i%2 == 0}) }()
		}
		time.Sleep(time.Second)
		s := f.router.Stats().Pools[0]
		require.Positive(t, s.InFlight)
		require.Positive(t, s.Queue.Waiting, "not all of them fit the cache")
		for range 3 {
			go func() { assert.NoError(t, f.router.Close()) }()
		}
		require.NoError(t, f.router.Close())
		answered, closed := 0, 0
		for range 40 {
			got := <-results
			switch {
			case errors.Is(got.err, warmroute.ErrClosed):
				closed++
			case assert.NoError(t, got.err):
				assert.Equal(t, 200, got.status)
				answered++
			}
		}
		assert.Equal(t, s.Queue.Waiting, closed)
		assert.Equal(t, s.InFlight, answered, "streams go on to their end")
		require.ErrorIs(t, f.do(ask{}).err, warmroute.ErrClosed)
		require.ErrorIs(t, f.router.Run(t.Context()), warmroute.ErrClosed)
	}, warmroute.WithResidency(2000))
}

// An engine that comes back as another model is left out as soon as its list of
// models says so, while another serves what it did, and is given conversations
// again when it is what it was.
func TestAnEngineComesBackAsAnotherModel(t *testing.T) {
	virtual(t, []int{1, 1}, func(t *testing.T, f *fleet) {
		home := f.ok(ask{session: "s", model: "sim"}).replica
		other := f.ok(ask{session: "t", model: "sim"}).replica
		require.NotEqual(t, home, other)
		e := f.engineOf(home)
		e.Stop()
		e.StartAs(0, "another")
		time.Sleep(3 * time.Second)
		assert.Equal(t, "foreign", string(f.replicas()[home].State))
		assert.Contains(t, strings.Join(f.router.Stats().Pools[0].Problems, "; "), "does not serve sim any more")
		for i := range 10 {
			assert.Equal(t, other, f.ok(ask{session: fmt.Sprint("u", i), model: "sim"}).replica)
			assert.Equal(t, other, f.ok(ask{session: "s", turn: i + 1, model: "sim"}).replica)
			next := f.ok(ask{session: "t", turn: i + 1, model: "sim"})
			assert.Equal(t, [2]string{other, "sticky"}, [2]string{next.replica, next.outcome})
		}
		f.quiet()
		for name, m := range f.replicas() {
			assert.Zero(t, m.Failed, name)
		}
		e.Stop()
		e.StartAs(0, "sim")
		time.Sleep(time.Minute)
		assert.Equal(t, "up", string(f.replicas()[home].State))
		assert.Empty(t, f.router.Stats().Pools[0].Problems)
		var back []string
		for i := range 6 {
			back = append(back, f.ok(ask{session: fmt.Sprint("v", i), model: "sim"}).replica)
		}
		assert.Contains(t, back, home)
	})
}

// If all engines of a pool come back as another model the requests reach them.
func TestAllEnginesComeBackAsAnotherModel(t *testing.T) {
	virtual(t, []int{1, 1}, func(t *testing.T, f *fleet) {
		for _, session := range []string{"s", "t"} {
			f.ok(ask{session: session, model: "sim"})
		}
		for _, e := range f.all() {
			e.Stop()
			e.StartAs(0, "another")
			time.Sleep(3 * time.Second)
		}
		time.Sleep(2 * time.Minute)
		for i := range 6 {
			f.ok(ask{session: fmt.Sprint("v", i), model: "another"})
		}
		got := f.do(ask{session: "s", turn: 1, model: "sim"})
		require.NoError(t, got.err)
		assert.Equal(t, 404, got.status)
		assert.Contains(t, got.body, "does not exist")
		for name, m := range f.replicas() {
			assert.Equal(t, "up", string(m.State), name)
		}
	})
}
