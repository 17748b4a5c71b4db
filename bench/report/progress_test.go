package report_test

import (
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/warmroute/warmroute/bench/report"
)

func TestProgressInALog(t *testing.T) {
	var b strings.Builder
	p := report.NewProgress(&b, 2, false)
	p.Step("4 sessions, off")
	p.Update("60 of 180 s")
	p.Step("4 sessions, \x1b[31maffinity\n")
	p.Step("one more than was said")
	assert.NoError(t, p.Close())
	p.Step("after the end")
	assert.Equal(t, "step 1 of 2: 4 sessions, off\n"+
		"step 2 of 2: 4 sessions, \uFFFD[31maffinity\uFFFD\n"+
		"step 3: one more than was said\n", b.String())
}

func TestProgressOnATerminal(t *testing.T) {
	var b strings.Builder
	p := report.NewProgress(&b, 2, true)
	p.Update("before the first step")
	p.Step("off")
	p.Update("60 of 180 s")
	p.Step(strings.Repeat("é", 200))
	assert.NoError(t, p.Close())
	lines := strings.Split(b.String(), "\r\x1b[K")
	assert.Equal(t, []string{"", "step 1 of 2: off", "step 1 of 2: off: 60 of 180 s"}, lines[:3])
	assert.Equal(t, 79, utf8.RuneCountInString(lines[3]))
	assert.Equal(t, []string{""}, lines[4:], "the line is cleared in the end")
}

func TestProgressOfAnUnknownNumberOfSteps(t *testing.T) {
	var b strings.Builder
	p := report.NewProgress(&b, 0, false)
	p.Step("off")
	assert.NoError(t, p.Close())
	assert.Equal(t, "step 1: off\n", b.String())
}

func TestProgressKeepsTheFirstError(t *testing.T) {
	p := report.NewProgress(&broken{20}, 0, false)
	p.Step("off")
	p.Step("does not fit")
	p.Step("x")
	assert.ErrorIs(t, p.Close(), errFull)
	assert.ErrorIs(t, p.Close(), errFull)
}

func TestProgressNil(t *testing.T) {
	var p *report.Progress
	p.Step("off")
	p.Update("60 of 180 s")
	assert.NoError(t, p.Close())
}

func TestProgressConcurrently(t *testing.T) {
	var b strings.Builder
	p := report.NewProgress(&b, 50, false)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { p.Step("off") })
	}
	wg.Wait()
	assert.NoError(t, p.Close())
	assert.Equal(t, 50, strings.Count(b.String(), "\n"))
	assert.Contains(t, b.String(), "step 50 of 50: off\n")
}
