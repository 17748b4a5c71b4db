package warmroute

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRefute(t *testing.T) {
	for name, tc := range map[string]struct {
		claims  []claim
		counted float64
		wrong   []int64 // their prompts
	}{
		"none":                       {nil, 1000, nil},
		"counted":                    {[]claim{{before: 0, prompt: 1000, turn: judgedTurn{verdict: Lost}}}, 1000, nil},
		"counted, and others'":       {[]claim{{before: 0, prompt: 1000, turn: judgedTurn{verdict: Lost}}}, 9000, nil},
		"not counted":                {[]claim{{before: 0, prompt: 1000, turn: judgedTurn{verdict: Lost}}}, 999, []int64{1000}},
		"not counted, a first turn":  {[]claim{{before: 500, prompt: 1000}}, 600, []int64{1000}},
		"both counted":               {[]claim{{before: 0, prompt: 10, turn: judgedTurn{verdict: Lost}}, {before: 10, prompt: 20, turn: judgedTurn{verdict: Lost}}}, 30, nil},
		"each alone fits, not both":  {[]claim{{before: 0, prompt: 1000, turn: judgedTurn{verdict: Lost}}, {before: 0, prompt: 1000, turn: judgedTurn{verdict: Lost}}}, 1500, nil},
		"the suspect one of two":     {[]claim{{before: 0, prompt: 1000, turn: judgedTurn{verdict: Lost}}, {before: 0, prompt: 1000, suspect: true}}, 1500, []int64{1000}},
		"both warm: by luck":         {[]claim{{before: 0, prompt: 1000, turn: judgedTurn{verdict: Verified}}, {before: 0, prompt: 1000, turn: judgedTurn{verdict: Verified}}}, 1500, nil},
		"no rank to claim it of":     {[]claim{{before: -1, prompt: 1000}, {before: 0, prompt: 1000}}, 1000, nil},
		"an earlier one gives slack": {[]claim{{before: 0, prompt: 10, turn: judgedTurn{verdict: Lost}}, {before: 5000, prompt: 1000, turn: judgedTurn{verdict: Lost}}}, 6000, nil},
	} {
		wrong, right := refute(tc.claims, tc.counted)
		var got []int64
		for _, c := range wrong {
			got = append(got, c.prompt)
		}
		assert.Equal(t, tc.wrong, got, name)
		assert.Len(t, right, len(tc.claims)-len(wrong), name)
	}
}

func TestClaimsRipenByPages(t *testing.T) {
	var c claims
	at := time.Unix(1000, 0)
	later := func(d time.Duration) time.Time { return at.Add(countedWithin + d) }
	settled := func(counted float64, asked time.Time) (int, int) {
		wrong, right := c.page(counted, asked)
		return len(wrong), len(right)
	}
	assert.True(t, c.add(claim{prompt: 10, turn: judgedTurn{verdict: Lost}, ended: at}))
	for range 3 {
		wrong, right := settled(0, later(-1))
		assert.Zero(t, wrong+right, "those pages may have been written before the engine counted it")
	}
	wrong, right := settled(0, later(0))
	assert.Zero(t, wrong+right, "one page proves nothing")
	wrong, right = settled(0, later(time.Second))
	assert.Equal(t, []int{1, 0}, []int{wrong, right}, "two do")

	c.add(claim{prompt: 10, turn: judgedTurn{verdict: Lost}, ended: at})
	settled(0, later(0))
	wrong, right = settled(10, later(time.Second))
	assert.Equal(t, []int{0, 1}, []int{wrong, right}, "the count was late")

	// What ran there since does not hide what did not.
	c.add(claim{prompt: 1000, turn: judgedTurn{verdict: Verified}, ended: at})
	settled(0, later(0))
	c.add(claim{before: 0, prompt: 1100, turn: judgedTurn{verdict: Verified}, ended: at.Add(time.Second)})
	w, r := c.page(1100, later(time.Second))
	assert.Len(t, w, 1)
	assert.Len(t, r, 1)
	assert.EqualValues(t, 1000, w[0].prompt)

	c.add(claim{prompt: 1, ended: at})
	assert.Len(t, c.drop(), 1)
	assert.Empty(t, c.drop())
	for range maxClaims {
		assert.True(t, c.add(claim{}))
	}
	assert.False(t, c.add(claim{}), "bounded")
}

func TestWrittenLog(t *testing.T) {
	var l writtenLog
	start := time.Unix(1000, 0)
	assert.EqualValues(t, -1, l.since(start))
	for i := range 400 {
		l.add(start.Add(time.Duration(i)*10*time.Second), int64(i)*100) // each second one is kept
	}
	end := start.Add(3990 * time.Second)
	assert.EqualValues(t, 39_900-39_800, l.since(end))
	assert.EqualValues(t, 39_900-38_000, l.since(start.Add(3815*time.Second)), "since the last sample before")
	assert.EqualValues(t, 39_900, l.since(start.Add(5*time.Second)))
	assert.EqualValues(t, -1, l.since(start.Add(-time.Second)))
	for i := range 400 {
		l.add(end.Add(time.Duration(i)*20*time.Second), 40_000+int64(i))
	}
	assert.EqualValues(t, -1, l.since(start), "forgotten")
	assert.EqualValues(t, 0, l.since(end.Add(9000*time.Second)))
	l.reset()
	assert.EqualValues(t, -1, l.since(end.Add(9000*time.Second)))
}
