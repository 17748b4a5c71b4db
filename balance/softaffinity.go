package balance

import (
	"math"
	"strconv"

	"github.com/warmroute/warmroute/replica"
)

// SoftAffinity returns a [HomePicker] that keeps a conversation at home until
// that costs too much time: it leaves only for a replica on which the time to
// first token, as [ExpectedTTFT] has it, is shorter than the home's by more
// than margin, a fraction of the home's. With a margin of 0.25 a request that
// would wait 8 s at home leaves for one that is expected in less than 6 s. What
// is probably lost of its prefix there, [Request].HomeLost, is no reason to
// stay: with all of it lost the conversation goes by the queues, and the margin.
//
// A conversation without a home among the candidates goes where the expected
// time is shortest; so does one that leaves. Of equal ones, to within a
// billionth, the least [Candidate.Load] is chosen, of those the fewest
// sessions, and then they take turns.
//
// If neither [Request].PromptTokens nor HomeTokens is known, nobody can say
// what leaving costs, and the conversation stays.
//
// The margin is 0 or more and below 1, else a [*replica.ConfigError] is
// returned. A small one moves conversations for gains that are within the
// error of the estimate, each time at the price of a prefill; 0.25 is a
// cautious start.
func SoftAffinity(margin float64) (Picker, error) {
	if !(margin >= 0 && margin < 1) {
		return nil, &replica.ConfigError{Field: "margin", Allowed: "0 or more and below 1",
			Value: strconv.FormatFloat(margin, 'g', -1, 64)}
	}
	return &softAffinity{margin: margin}, nil
}

type softAffinity struct {
	margin float64
	times  []float64 // scratch
	turns  turns
}

var _ HomePicker = (*softAffinity)(nil)

// PicksAtHome marks the picker as one that is asked at home too.
func (p *softAffinity) PicksAtHome() {}

func (p *softAffinity) Pick(req *Request, candidates []Candidate) (int, error) {
	n := len(candidates)
	if n == 0 {
		return -1, ErrNoCandidate
	}
	home := req.home(candidates)
	if home >= 0 && req.size(home) == 0 {
		return home, nil
	}
	if cap(p.times) < n {
		p.times = make([]float64, n)
	}
	times := p.times[:n]
	expectTTFT(req, candidates, times)
	best := math.Inf(1)
	for _, t := range times {
		best = min(best, t)
	}
	enough := best * (1 + equalSums)
	// A home that is as good as the best is not left for a margin of 0 either.
	if home >= 0 && !(enough < times[home]*(1-p.margin)) {
		return home, nil
	}
	least, fewest := math.MaxInt, math.MaxInt
	for i := range candidates {
		c := &candidates[i]
		if load := c.Load(); times[i] <= enough && (load < least || load == least && c.Sessions < fewest) {
			least, fewest = load, c.Sessions
		}
	}
	return p.turns.next(candidates, func(i int) bool {
		c := &candidates[i]
		return times[i] <= enough && c.Load() == least && c.Sessions == fewest
	}), nil
}
