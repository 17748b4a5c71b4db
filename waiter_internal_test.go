package warmroute

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balance"
)

// sentTurn has a turn of a conversation be admitted and sent.
func sentTurn(t *testing.T, p *pool, prefix *balance.Prefix, now time.Time) *waiter {
	t.Helper()
	tk := new(ticket)
	a := &tk.waiter
	hash := p.table.Hash("s")
	a.Turn = balance.Turn{Owner: tk, Session: hash, PromptTokens: 100}
	a.session = p.table.Acquire("s", hash, now)
	a.prefix, a.placing = *prefix, true
	require.True(t, p.admission.Arrive(&a.Turn, now))
	if a.Room() == nil {
		p.pump(now)
	} else {
		p.send(a, now)
	}
	require.NotNil(t, a.member)
	return a
}

// TestATurnThatIsUndoneLeavesNothing has a turn that was sent be taken back, as
// when its caller has left at the same time.
func TestATurnThatIsUndoneLeavesNothing(t *testing.T) {
	r, err := New([]Endpoint{{URL: "http://a"}}, WithResidency(10_000), WithSharedPrefix(true))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	p := r.pools.Load().order[0]
	m := (*p.members.Load())[0]
	now := time.Now()
	prefix := &balance.Prefix{}
	prefix.Hashes[0], prefix.Hashes[1] = 7, 8
	m.slow.credit = 0.75
	p.mu.Lock()
	defer p.mu.Unlock()

	a := sentTurn(t, p, prefix, now)
	require.Zero(t, m.slow.credit)
	require.Equal(t, 1.0, m.log.Total(now))
	require.Same(t, m.home, a.session.Home())
	p.undo(a, now)
	assert.Zero(t, m.InFlight())
	assert.Zero(t, m.room.Residents())
	assert.Equal(t, 0.75, m.slow.credit, "it may still be given that")
	assert.Zero(t, m.log.Total(now))
	step, _ := m.log.Longest(prefix, now)
	assert.Equal(t, -1, step, "nothing of it was sent there")
	assert.Nil(t, a.session.Home(), "there is nothing to come home to")

	// One that another turn of the conversation has followed.
	first := sentTurn(t, p, prefix, now)
	second := sentTurn(t, p, prefix, now)
	p.undo(first, now)
	assert.Same(t, m.home, first.session.Home())
	assert.Equal(t, 1.0, m.log.Total(now))
	assert.Equal(t, 1, m.room.Residents())
	p.undo(second, now)
	assert.Zero(t, m.room.Residents())

	// One whose home another turn has answered at meanwhile.
	p.table.Unbind(a.session, m.home)
	first = sentTurn(t, p, prefix, now)
	p.table.Warm(first.session, m.home)
	p.undo(first, now)
	assert.Same(t, m.home, first.session.Home())
}

// TestATurnAtItsBoundHasHadItsTenantsTurn has the first of a tenant's turns leave
// the queue: one that is sent all the same does not have the next one move up.
func TestATurnAtItsBoundHasHadItsTenantsTurn(t *testing.T) {
	for err, next := range map[error]uint64{errReleased: 2, errGivenUp: 1} {
		r, e := New([]Endpoint{{URL: "http://a"}}, WithResidency(10_000))
		require.NoError(t, e)
		p := r.pools.Load().order[0]
		(*p.members.Load())[0].room.Open = false
		now := time.Now()
		var first *waiter
		for i, tenant := range []uint64{1, 1, 2} {
			tk := new(ticket)
			tk.waiter.Turn = balance.Turn{Owner: tk, Tenant: tenant}
			tk.waiter.waiting, tk.waiter.ready = true, make(chan struct{}, 1)
			require.True(t, p.admission.Arrive(&tk.waiter.Turn, now.Add(time.Duration(i))))
			if i == 0 {
				first = &tk.waiter
			}
		}
		require.Equal(t, err, p.takeBack(first, err))
		assert.Equal(t, next, p.admission.First().Tenant, "%v", err)
		assert.Equal(t, 2, p.admission.Waiting())
		require.NoError(t, r.Close())
	}
}

// TestATurnThatIsPushedOutAsItsCallerLeaves has a turn be taken back that has been
// pushed out of the queue at the same time: nothing was sent that is to be undone.
func TestATurnThatIsPushedOutAsItsCallerLeaves(t *testing.T) {
	for _, err := range []error{errReleased, errGivenUp, ErrClosed} {
		r, e := New([]Endpoint{{URL: "http://a"}}, WithResidency(10_000), WithMaxQueue(2))
		require.NoError(t, e)
		p := r.pools.Load().order[0]
		m := (*p.members.Load())[0]
		m.room.Open = false
		now := time.Now()
		var last *waiter
		for i, tenant := range []uint64{1, 1, 2} {
			tk := new(ticket)
			a := &tk.waiter
			a.Turn = balance.Turn{Owner: tk, Tenant: tenant}
			require.True(t, p.admission.Arrive(&a.Turn, now.Add(time.Duration(i))))
			p.mu.Lock()
			p.pushOut(a, now)
			p.mu.Unlock()
			a.waiting, a.ready = true, make(chan struct{}, 1)
			if i == 1 {
				last = a
			}
		}
		require.True(t, last.out)
		require.False(t, last.waiting)
		require.Equal(t, err, p.takeBack(last, err), "it goes on, or has that answer")
		assert.Empty(t, last.ready)
		assert.Zero(t, m.InFlight())
		assert.Equal(t, 2, p.admission.Waiting())
		assert.Zero(t, p.admission.overloaded.Load(), "it is not refused for that")
		require.NoError(t, r.Close())
	}
}
