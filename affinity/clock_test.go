package affinity_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/affinity"
)

// clockSet returns t as it would have been read if the machine's wall clock had
// been set by d meanwhile: its monotonic clock reading is the same.
func clockSet(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	// As package time documents its Time: with a monotonic reading, 33 bits of
	// seconds above 30 of nanoseconds.
	wall := (*uint64)(unsafe.Pointer(&at))
	*wall += uint64(int64(d/time.Second)) << 30
	assert.Equal(t, d, at.Round(0).Sub(time.Now().Round(0)).Round(time.Second), "the wall clock's reading")
	assert.Less(t, time.Since(at).Abs(), time.Minute, "the monotonic one")
	return at
}

func TestClockSteady(t *testing.T) {
	c := affinity.NewClock()
	now := time.Now()
	// The two clocks are not read at the same moment, nor run at the same speed.
	within := float64(time.Second)
	assert.InDelta(t, now.UnixNano(), c.Steady(now).UnixNano(), within)
	for _, d := range []time.Duration{8 * time.Hour, -8 * time.Hour} {
		set := clockSet(t, now, d)
		assert.InDelta(t, now.Add(d).UnixNano(), set.UnixNano(), within)
		assert.InDelta(t, now.UnixNano(), c.Steady(set).UnixNano(), within)
	}
	bare := now.Round(0)
	assert.InDelta(t, bare.UnixNano(), c.Steady(bare).UnixNano(), within)
}

// A table's times are monotonic: a clock that is set expires nothing and keeps
// nothing too long.
func TestTableWhenTheClockIsSet(t *testing.T) {
	table := affinity.NewTable[int](affinity.Config{TTL: time.Hour, MaxSessions: 10})
	home := table.NewHome(1)
	now := time.Now()
	s := table.Acquire("s", table.Hash("s"), now)
	table.Bind(s, home, now)
	table.Warm(s, home)
	table.Release(s, now)
	for _, d := range []time.Duration{100 * time.Hour, -100 * time.Hour} {
		set := clockSet(t, now, d)
		table.Sweep(set)
		assert.NotNil(t, table.Peek("s", set))
		assert.Equal(t, 1, home.Active(set))
	}
}
