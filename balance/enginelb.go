package balance

import (
	"math"
	"time"
)

// EngineLB returns a [Picker] that follows the rule by which vLLM's own front
// end, of the given version and with one API server, chooses between its
// data-parallel ranks (DPLBAsyncMPClient in v1/engine/core_client.py). It is
// there to compare with: it knows nothing of sessions.
//
//   - up to 0.9.0: the fewest requests of its own in flight.
//   - 0.9.1 to 0.10.0: the fewest waiting, of those the fewest running.
//   - 0.10.1 to 0.26: the lowest waiting*4 + running.
//   - from 0.27 (vllm#49204): the lowest of the larger of its own in flight
//     and waiting + running, to which waiting*6*(KV usage - 0.5) is added
//     where some wait and usage is above one half.
//
// Of equal ones up to 0.24 the first is chosen; from 0.25 (vllm#47420) the
// search starts one further at each pick. Waiting and running are the last
// report's, with each of the picker's own picks since then added as one
// waiting (0.9.1 to 0.10.0: as one running if none wait). That a report is new
// is seen by its time, [Request.Now] minus [Candidate.Age]. vLLM's
// coordinator reports every 100 ms; here a report is a scrape.
//
// The ranks of a dense model report nothing to the front end from 0.14
// (vllm#30739) to 0.26 (mended by vllm#49204), so that it goes round them in
// turn, whatever is on them: compare with [RoundRobin] there.
//
// While the counts of any candidate are unknown or stale, requests in flight
// decide alone: it is the only number that all have.
//
// The version is as vLLM's /version has it: "0.26.0", "v0.27", "0.26.0+cpu",
// "0.27.1rc1". A [*replica.ConfigError] is returned for any other.
func EngineLB(version string) (Picker, error) {
	v, err := parseVersion(version)
	if err != nil {
		return nil, err
	}
	p := &engineLB{rotates: !v.before(0, 25, 0)}
	switch {
	case v.before(0, 9, 1):
	case v.before(0, 10, 1):
		p.score, p.addsRunning = waitingThenRunning, true
	case v.before(0, 27, 0):
		p.score = waitingTimesFour
	default:
		p.score = loadAndPressure
	}
	return p, nil
}

type engineLB struct {
	// score is lowest for the best. It is nil for a rule that knows only
	// the requests that the front end has in flight itself.
	score       func(c *Candidate, waiting, running int) float64
	rotates     bool
	addsRunning bool
	start       int
	reports     memory[report]
}

// report is what has been picked since a replica's last report.
type report struct {
	at               time.Time
	waiting, running int
}

// sameReport is the difference up to which two times are those of one report:
// whoever measures the age may take the time apart from the request.
const sameReport = time.Millisecond

func (p *engineLB) Pick(req *Request, candidates []Candidate) (int, error) {
	n := len(candidates)
	if n == 0 {
		return -1, ErrNoCandidate
	}
	counted := p.score != nil
	for i := range candidates {
		counted = counted && candidates[i].counted()
	}
	p.start %= n
	best, lowest := p.start, math.Inf(1)
	for k := range n {
		i := p.start + k
		if i >= n {
			i -= n
		}
		c := &candidates[i]
		s := float64(c.InFlight)
		if counted {
			picked := p.since(req, c)
			s = p.score(c, c.Waiting+picked.waiting, c.Running+picked.running)
		}
		if s < lowest {
			best, lowest = i, s
		}
	}
	if c := &candidates[best]; p.score != nil && c.counted() {
		p.add(req, c, n)
	}
	if p.rotates {
		p.start++
	}
	return best, nil
}

// since returns what has been picked since the candidate's report.
func (p *engineLB) since(req *Request, c *Candidate) report {
	at := req.Now.Add(-c.Age)
	if r := p.reports.get(c.Replica); at.Sub(r.at).Abs() <= sameReport {
		return r
	}
	return report{at: at}
}

func (p *engineLB) add(req *Request, c *Candidate, candidates int) {
	r := p.since(req, c)
	if p.addsRunning && c.Waiting+r.waiting == 0 {
		r.running++
	} else {
		r.waiting++
	}
	p.reports.set(c.Replica, r, candidates)
}

// counted reports whether the engine's own counts are known.
func (c *Candidate) counted() bool { return !c.Stale && c.Waiting >= 0 && c.Running >= 0 }

// waitingThenRunning orders by waiting first: no engine runs 2^20 requests.
func waitingThenRunning(_ *Candidate, waiting, running int) float64 {
	return float64(waiting)*(1<<20) + float64(running)
}

func waitingTimesFour(_ *Candidate, waiting, running int) float64 {
	return float64(waiting)*4 + float64(running)
}

func loadAndPressure(c *Candidate, waiting, running int) float64 {
	score := float64(max(c.InFlight, waiting+running))
	if usage := c.kvUsage(); usage > 0.5 {
		score += float64(waiting) * 6 * (usage - 0.5)
	}
	return score
}
