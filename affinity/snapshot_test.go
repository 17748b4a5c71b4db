package affinity_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/affinity"
)

func sample() *affinity.Snapshot {
	return &affinity.Snapshot{
		Time: time.Unix(1_795_954_915, 123),
		Homes: []affinity.HomeSnapshot{
			{Table: "", Home: "10.0.0.1:8000@0", Bindings: []affinity.Binding{{Key: "a", Idle: time.Minute}, {Key: "b/ü\x00", Idle: 0}}},
			{Table: "qwen3", Home: "10.0.0.2:8000"},
			{Table: "qwen3", Home: "10.0.0.3:8000", Bindings: []affinity.Binding{{Key: strings.Repeat("k", affinity.MaxKeyLen), Idle: 1<<63 - 1}}},
		},
	}
}

func written(t *testing.T, s *affinity.Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.Write(&b))
	return b.Bytes()
}

func TestSnapshotIsReadBack(t *testing.T) {
	for _, s := range []*affinity.Snapshot{sample(), {Time: time.Unix(0, 0)}} {
		got, err := affinity.ReadSnapshot(iotest.OneByteReader(bytes.NewReader(written(t, s))))
		require.NoError(t, err)
		assert.Equal(t, s, got)
	}
}

func TestADamagedSnapshotIsRefused(t *testing.T) {
	whole := written(t, sample())
	refused := func(b []byte, what string, at int) {
		s, err := affinity.ReadSnapshot(bytes.NewReader(b))
		require.ErrorIs(t, err, affinity.ErrSnapshot, "%s %d", what, at)
		assert.Nil(t, s)
	}
	for i := range whole {
		refused(whole[:i], "cut at", i)
		for bit := range 8 {
			changed := bytes.Clone(whole)
			changed[i] ^= 1 << bit
			refused(changed, "changed at", i)
		}
	}
	refused(append(bytes.Clone(whole), 0), "longer than", len(whole))
	refused([]byte(strings.Replace(string(whole), "sessions 1", "sessions 2", 1)), "of another version", 0)
	refused([]byte("<html>"), "something else", 0)

	broken := errors.New("disk")
	_, err := affinity.ReadSnapshot(io.MultiReader(bytes.NewReader(whole[:30]), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, affinity.ErrSnapshot)
}

func TestSnapshotThatCannotBeWritten(t *testing.T) {
	long := &affinity.Snapshot{Homes: []affinity.HomeSnapshot{{Home: strings.Repeat("x", 5000)}}}
	require.Error(t, long.Write(io.Discard))
	require.Error(t, sample().Write(failing{}))
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func FuzzReadSnapshot(f *testing.F) {
	var b bytes.Buffer
	if err := sample().Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:40])
	f.Add([]byte("warmroute sessions 1\n\x00\x01\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := affinity.ReadSnapshot(bytes.NewReader(in))
		if err != nil {
			assert.ErrorIs(t, err, affinity.ErrSnapshot)
			return
		}
		again, err := affinity.ReadSnapshot(bytes.NewReader(written(t, s)))
		require.NoError(t, err)
		assert.Equal(t, s, again)
		tb := affinity.NewTable[int](affinity.Config{MaxSessions: 10})
		home := tb.NewHome(1)
		for _, h := range s.Homes {
			for _, binding := range h.Bindings {
				home.Restore(binding, time.Now())
			}
		}
		assert.LessOrEqual(t, tb.Len(), 10)
		assert.Equal(t, tb.Len(), home.Sessions())
	})
}

func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t, affinity.Config{TTL: time.Hour, MaxSessions: 100})
		one, two, closed := tb.NewHome(1), tb.NewHome(2), tb.NewHome(3)
		closed.Close()
		now := time.Now()
		assert.True(t, one.Restore(affinity.Binding{Key: "old", Idle: 59 * time.Minute}, now))
		assert.True(t, one.Restore(affinity.Binding{Key: "new"}, now))
		assert.False(t, two.Restore(affinity.Binding{Key: "new"}, now), "what is there wins")
		assert.False(t, one.Restore(affinity.Binding{Key: "gone", Idle: time.Hour}, now))
		assert.False(t, closed.Restore(affinity.Binding{Key: "x"}, now))
		assert.False(t, one.Restore(affinity.Binding{Key: ""}, now))
		assert.False(t, one.Restore(affinity.Binding{Key: strings.Repeat("k", affinity.MaxKeyLen+1)}, now))
		assert.False(t, one.Restore(affinity.Binding{Key: "x", Idle: -1}, now))
		assert.Equal(t, 2, one.Sessions())
		assert.Equal(t, 1, one.Active(now))
		assert.Equal(t, 1, tb.home("old"))
		time.Sleep(time.Minute)
		assert.Equal(t, -1, tb.home("old"), "its TTL goes on where it was")
		time.Sleep(tb.Tick())
		assert.Equal(t, 1, tb.Sweep(time.Now()))
		for i := range 200 {
			one.Restore(affinity.Binding{Key: strconv.Itoa(i)}, time.Now())
		}
		assert.Equal(t, 100, tb.Len())
		assert.Equal(t, 1, tb.home("new"), "a full table takes no more, and loses nothing")
	})
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := affinity.NewClock()
		start := time.Now()
		time.Sleep(3 * time.Nanosecond)
		assert.Equal(t, 3*time.Nanosecond, c.Now().Sub(start), "exact while it does not run")
		ctx, stop := context.WithCancel(t.Context())
		go c.Run(ctx)
		for range 1000 {
			time.Sleep(7 * time.Millisecond)
			behind := time.Since(c.Now())
			assert.GreaterOrEqual(t, behind, time.Duration(0))
			assert.LessOrEqual(t, behind, affinity.ClockStep)
		}
		stop()
		synctest.Wait()
		time.Sleep(time.Hour)
		assert.Zero(t, time.Since(c.Now()), "exact again")
		assert.Zero(t, testing.AllocsPerRun(100, func() { c.Now() }))
	})
}
