package warmroute_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/balance"
)

// brokenPicker fails in every way a picker can.
type brokenPicker struct{ n int }

func (p *brokenPicker) Pick(*balance.Request, []balance.Candidate) (int, error) {
	p.n++
	switch p.n % 4 {
	case 0:
		return 0, errors.New("broken")
	case 1:
		return -1, nil
	case 2:
		return 99, nil
	}
	panic("picker")
}

func TestABrokenPickerFailsNoRequest(t *testing.T) {
	router := newRouter(t, four(), warmroute.WithPicker(func() balance.Picker { return &brokenPicker{n: 3} }))
	for range 3 {
		route(t, router, warmroute.Request{Session: "s"}).Done(warmroute.Result{})
	}
	assert.Equal(t, uint64(3), router.Stats().Pools[0].Requests.PickerErrors)
	assert.Panics(t, func() { _, _ = router.Route(t.Context(), warmroute.Request{Session: "s"}) })
	assert.Zero(t, inFlight(t, router))
	route(t, router, warmroute.Request{Session: "s"}).Done(warmroute.Result{})
	assert.Zero(t, router.Stats().Pools[0].Sessions, "a panic leaves no lock, no count and no conversation in use")
}

// seen notes what a picker is told.
type seen struct {
	requests   []balance.Request
	candidates []balance.Candidate
}

func (p *seen) Pick(req *balance.Request, candidates []balance.Candidate) (int, error) {
	p.requests = append(p.requests, *req)
	p.candidates = append(p.candidates[:0], candidates...)
	return len(candidates) - 1, nil
}

func TestWhatAPickerIsTold(t *testing.T) {
	p := new(seen)
	router := newRouter(t, []warmroute.Endpoint{{URL: "http://a", Ranks: 2, Model: "m"}}, warmroute.WithPicker(newSeen(p)), warmroute.WithAffinity(false))
	turn(t, router, "parent")
	route(t, router, warmroute.Request{Session: "parent", PromptTokens: 7})
	route(t, router, warmroute.Request{Session: "child", Parent: "parent"})
	route(t, router, warmroute.Request{})
	require.Len(t, p.requests, 4)
	first, second, child, unkeyed := p.requests[0], p.requests[1], p.requests[2], p.requests[3]
	assert.Equal(t, "m", first.Model)
	assert.NotZero(t, first.Session)
	assert.Equal(t, -1, first.Home)
	assert.Equal(t, -1, first.ParentHome)
	assert.False(t, first.Now.IsZero())
	assert.Equal(t, 1, second.Home)
	assert.Equal(t, 7, second.PromptTokens)
	assert.Equal(t, first.Session, second.Session)
	assert.Equal(t, first.Session, child.Parent)
	assert.Equal(t, 1, child.ParentHome)
	assert.Zero(t, unkeyed.Session)
	require.Len(t, p.candidates, 2)
	c := p.candidates[1]
	assert.Equal(t, "a:80@1", c.Replica.Name())
	assert.Equal(t, 2, c.InFlight)
	assert.Equal(t, 2, c.Sessions)
	assert.Equal(t, balance.Unknown, c.Running, "never scraped is not zero")
	assert.Equal(t, balance.Unknown, c.Waiting)
	assert.InDelta(t, balance.Unknown, c.KVUsage, 0)
}

// newSeen gives a pool the picker itself.
func newSeen(p *seen) func() balance.Picker { return func() balance.Picker { return p } }
