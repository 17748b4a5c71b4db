package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench/table"
)

func TestEveryTableHasARow(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(&out, strings.Fields("-n 2000 -hot 50 -ttl 200ms -sweep 20ms -tail 20ms")))
	lines := strings.Split(out.String(), "\n")
	for i, impl := range table.Impls() {
		fields := strings.Fields(lines[2+i])
		require.Greater(t, len(fields), 1)
		assert.Equal(t, impl.Name, fields[1])
	}
}

func TestOursIsGoneAfterItsTTL(t *testing.T) {
	r, err := trial{n: 2000, hot: 10, ttl: 100 * time.Millisecond, sweep: 5 * time.Millisecond, tail: time.Millisecond}.
		run(table.Impls()[0])
	require.NoError(t, err)
	assert.NotEqual(t, notGone, r.gone)
	assert.Less(t, r.left, r.peak)
	assert.Positive(t, r.longest)
	assert.LessOrEqual(t, r.p999, r.longest)
}

func TestLateLoadingIsSaid(t *testing.T) {
	tr := trial{ttl: time.Second}
	impls := table.Impls()[:2]
	results := map[string][]result{
		impls[0].Name: {{load: time.Second / 2, peak: 1}, {load: time.Second / 3, peak: 1}},
		impls[1].Name: {{load: time.Second, peak: 1}, {load: time.Second / 2, peak: 1, gone: notGone}},
	}
	var out bytes.Buffer
	require.NoError(t, report(&out, tr, impls, results))
	assert.Contains(t, out.String(), impls[1].Name+": in 1 of 2 rounds")
	assert.NotContains(t, out.String(), impls[0].Name+": in")
	assert.Contains(t, out.String(), "not within 30 s")
}

// TestForegroundCountsWhoHadToWait: an operation of three pauses and a half
// keeps three bursts waiting.
func TestForegroundCountsWhoHadToWait(t *testing.T) {
	var f foreground
	f.record(pause / 2)
	require.Len(t, f.times, 1)
	f.record(3*pause + pause/2)
	assert.Len(t, f.times, 2+3*burst)
	longest, p999 := f.summary()
	assert.Equal(t, 3*pause+pause/2, longest)
	assert.Equal(t, longest, p999)
}

func TestMedian(t *testing.T) {
	rs := []result{{lost: 3}, {lost: 1}, {lost: 9}}
	assert.EqualValues(t, 3, median(rs, func(r result) int64 { return r.lost }))
	assert.EqualValues(t, 3, median(rs[:1], func(r result) int64 { return r.lost }))
}
