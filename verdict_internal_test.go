package warmroute

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// turnOf is a measured turn on an engine with blocks of 16 of which nothing else
// is known.
func turnOf(before, prompt, cached int64) turnEvidence {
	return turnEvidence{left: left{prompt: uint32(before)}, block: 16, prompt: prompt, cached: cached, measured: true, written: -1}
}

func TestVerdict(t *testing.T) {
	with := func(e turnEvidence, change func(*turnEvidence)) turnEvidence {
		change(&e)
		return e
	}
	written := func(e turnEvidence, written, capacity int64) turnEvidence {
		return with(e, func(e *turnEvidence) { e.written, e.capacity = written, capacity })
	}
	cold := func(e *turnEvidence) { e.cold = true }
	unmeasured := func(e *turnEvidence) { e.measured = false }
	unranked := func(e *turnEvidence) { e.unranked = true }
	for name, tc := range map[string]struct {
		turnEvidence
		want Verdict
	}{
		"all there":                           {turnOf(5125, 5500, 5120), Verified},
		"with the answer":                     {turnOf(5125, 5500, 5392), Verified},
		"the same prompt again":               {turnOf(1000, 1000, 992), Verified},
		"an undone turn, still there":         {turnOf(8000, 5000, 4992), Verified},
		"compacted":                           {written(turnOf(80_000, 9000, 3500), 1, 1e6), Rewritten},
		"evicted":                             {written(turnOf(5000, 5500, 3000), 30_000, 20_000), Lost},
		"could not have been evicted":         {written(turnOf(5000, 5500, 16), 6000, 100_000), Rewritten},
		"half a cache is too much to be sure": {written(turnOf(5000, 5500, 16), 44_500, 100_000), Lost},
		"and less is not":                     {written(turnOf(5000, 5500, 16), 44_499, 100_000), Rewritten},
		"compacted to a twentieth":            {turnOf(150_000, 7000, 0), Rewritten},
		"shorter by a template's tail alone":  {turnOf(5000, 4984, 0), Lost},
		"shorter by more":                     {turnOf(5000, 4983, 0), Rewritten},
		"restarted":                           {with(written(turnOf(5000, 5500, 0), 6000, 100_000), cold), Lost},
		"restarted, found all the same":       {with(turnOf(5000, 5500, 5000), cold), Verified},
		"nothing known of what was written":   {written(turnOf(5000, 5500, 0), -1, 100_000), Lost},
		"nothing known of its size":           {written(turnOf(5000, 5500, 0), 10, 0), Lost},
		"no cached count":                     {with(turnOf(5000, 5500, 0), unmeasured), Unmeasured},
		"no cached count after a restart":     {with(with(turnOf(5000, 5500, 0), cold), unmeasured), Unmeasured},
		"the engine chose the rank":           {with(turnOf(5000, 5500, 16), unranked), Ignored},
		"the engine chose the right rank":     {with(turnOf(5000, 5500, 5000), unranked), Verified},
		"a short prompt, below one block":     {turnOf(11, 20, 0), ""},
		"a short prompt after a long one":     {turnOf(5000, 40, 0), ""},
		"almost long enough":                  {turnOf(5000, 127, 0), ""},
		"long enough":                         {turnOf(5000, 128, 0), Rewritten},
		"almost long enough before":           {turnOf(127, 5000, 0), ""},
		"long enough before":                  {turnOf(128, 5000, 0), Lost},
		"long enough, but not for its blocks": {with(turnOf(2000, 5000, 0), func(e *turnEvidence) { e.block = 1056 }), ""},
	} {
		assert.Equal(t, tc.want, tc.verdict(), name)
	}
}

// Of what a prefix has, whole blocks are cached, the last token never is, the tail
// of a prompt may be the template's, and EAGLE leaves out a block.
func TestVerdictBorders(t *testing.T) {
	for _, tc := range []struct {
		name                  string
		block, before, prompt int64
		least                 int64 // cached tokens that are enough
	}{
		{"blocks of 16", 16, 1000, 1100, 976 - 16},
		{"a multiple of the block", 16, 1024, 1100, 1008 - 16},
		{"one token more", 16, 1025, 1100, 1008 - 16},
		{"a block more", 16, 1040, 1100, 1024 - 16},
		{"blocks of 64", 64, 1000, 1100, 960 - 64},
		{"blocks of 128", 128, 1040, 1100, 1024 - 128},
		{"blocks of 128, one token less", 128, 1039, 1100, 896 - 128},
		{"blocks of a model with state layers", 544, 5000, 6000, 4896 - 544},
		{"the prompt ends before", 16, 5000, 1100, 1088 - 16},
		{"the prompt ends at a block: its last token is computed", 16, 5000, 1104, 1088 - 16},
		{"the prompt ends behind a block", 16, 5000, 1105, 1104 - 16},
	} {
		e := turnOf(tc.before, tc.prompt, tc.least)
		e.block = tc.block
		assert.Equal(t, Verified, e.verdict(), tc.name)
		e.cached--
		assert.NotEqual(t, Verified, e.verdict(), "%s, and one token less", tc.name)
	}
}

func TestAnswerSeen(t *testing.T) {
	type answered struct {
		answer, prompt, cached int64
	}
	for name, tc := range map[string]struct {
		answered
		want answerSeen
	}{
		"found":                     {answered{500, 1700, 1488}, answerFound},
		"found, but EAGLE's block":  {answered{500, 1700, 1472}, answerFound},
		"gone":                      {answered{500, 1700, 1471}, answerGone},
		"the prompt alone":          {answered{500, 1700, 992}, answerGone},
		"no room for it":            {answered{500, 1500, 992}, answerLeftOut},
		"room for one token more":   {answered{500, 1501, 1488}, answerFound},
		"the turn made once more":   {answered{500, 1000, 992}, answerUnknown},
		"again, by another tail":    {answered{500, 1032, 992}, answerUnknown},
		"no answer":                 {answered{0, 1700, 992}, answerUnknown},
		"too short to tell":         {answered{64, 1700, 1040}, answerUnknown},
		"just long enough to tell":  {answered{65, 1700, 1048}, answerFound},
		"longer than what followed": {answered{100_000, 20_000, 992}, answerLeftOut},
	} {
		e := turnOf(1000, tc.prompt, tc.cached)
		e.left.answer = uint32(tc.answer)
		assert.Equal(t, tc.want, e.answer(), name)
	}
}

// Where answers are found again, one that is not is lost, but only if it can have
// been evicted: the template may have left it out.
func TestVerdictOfAnAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		answers           bool
		cold              bool
		prompt, cached    int64
		written, capacity int64
		want              Verdict
	}{
		"found":                              {true, false, 1700, 1488, 30_000, 20_000, Verified},
		"evicted, its tail goes first":       {true, false, 1700, 1200, 30_000, 20_000, Lost},
		"the engine was restarted":           {true, true, 1700, 1200, 0, 20_000, Lost},
		"left out by the template":           {true, false, 1700, 992, 100, 20_000, Verified},
		"left out, nothing known":            {true, false, 1700, 992, -1, 0, Verified},
		"no room for it":                     {true, false, 1400, 992, 30_000, 20_000, Verified},
		"evicted where no answers are found": {false, false, 1700, 1200, 30_000, 20_000, Verified},
		"its prompt is lost as well":         {true, false, 1700, 400, 30_000, 20_000, Lost},
	} {
		e := turnOf(1000, tc.prompt, tc.cached)
		e.left.answer, e.answers, e.cold, e.written, e.capacity = 500, tc.answers, tc.cold, tc.written, tc.capacity
		assert.Equal(t, tc.want, e.verdict(), name)
	}
}

func TestKeptPart(t *testing.T) {
	e := turnOf(1000, 2000, 250)
	kept := func(shared int64) float64 {
		part, ok := e.kept(shared)
		assert.True(t, ok)
		return part
	}
	assert.InDelta(t, 0.25, kept(0), 1e-9)
	assert.InDelta(t, 50.0/800, kept(200), 1e-9, "of what is the conversation's own")
	assert.Zero(t, kept(300), "less than others find")
	_, ok := e.kept(990)
	assert.False(t, ok, "nothing is its own")
	e.left.answer = 1000
	assert.InDelta(t, 0.25, kept(0), 1e-9, "answers are not counted on")
	e.answers = true
	assert.InDelta(t, 250.0/1999, kept(0), 1e-9)
	e.prompt = 501
	assert.InDelta(t, 0.5, kept(0), 1e-9, "of what it can have")
	e.cached = 4000
	assert.InDelta(t, 1, kept(0), 1e-9)
	e.cached, e.prompt = -4, 0
	_, ok = e.kept(0)
	assert.False(t, ok)
}

func TestVerifiedShare(t *testing.T) {
	assert.Nil(t, VerdictStats{Unmeasured: 3}.VerifiedShare())
	assert.InDelta(t, 0.5, *VerdictStats{Verified: 4, Lost: 2, Ignored: 1, Rewritten: 1, Unmeasured: 9}.VerifiedShare(), 1e-9)
}
