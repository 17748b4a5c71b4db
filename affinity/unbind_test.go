package affinity_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/affinity"
)

func TestUnbind(t *testing.T) {
	tb := newTable(t, affinity.Config{})
	one, two := tb.NewHome(1), tb.NewHome(2)
	tb.use("a", one)
	s := tb.begin("a", nil)
	tb.Unbind(s, two)
	assert.Equal(t, 1, tb.home("a"), "that is not its home")
	tb.Unbind(s, one)
	assert.Equal(t, -1, tb.home("a"))
	assert.Zero(t, one.Sessions())
	tb.end(s)
	assert.Zero(t, tb.Len())
}

// TestUnbindCold takes a home away where nothing was cached, and only there.
func TestUnbindCold(t *testing.T) {
	tb := newTable(t, affinity.Config{})
	home, other := tb.NewHome(1), tb.NewHome(2)
	s := tb.Acquire("s", tb.Hash("s"), time.Now())
	tb.Bind(s, home, time.Now())
	tb.UnbindCold(s, other)
	assert.Same(t, home, s.Home(), "it is another's")
	tb.UnbindCold(s, home)
	assert.Nil(t, s.Home())
	tb.UnbindCold(s, home)
	tb.Bind(s, home, time.Now())
	tb.Warm(s, home)
	tb.UnbindCold(s, home)
	assert.Same(t, home, s.Home(), "an answer has begun")
	assert.Equal(t, 1, home.Sessions())
}
