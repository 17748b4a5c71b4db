package warmroute

import (
	"fmt"
	"sync"
)

// recent is the verdicts of the last turns, the older counting less.
type recent struct {
	mu            sync.Mutex
	judged        float64
	rewritten     float64
	saidRewritten bool
}

// recentTurns is about how many turns recent looks back.
const recentTurns = 200

// add takes in a verdict, and reports whether it is to be said now that most turns
// are rewritten.
func (r *recent) add(v Verdict) (say bool) {
	if v == Unmeasured || v == Ignored {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judged++
	if v == Rewritten {
		r.rewritten++
	}
	if r.judged >= recentTurns {
		r.judged /= 2
		r.rewritten /= 2
	}
	say = v == Rewritten && r.mostly() && !r.saidRewritten
	r.saidRewritten = r.saidRewritten && r.mostly() || say
	return say
}

// mostly needs the lock.
func (r *recent) mostly() bool { return r.judged >= 20 && r.rewritten > r.judged/2 }

func (r *recent) mostlyRewritten() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mostly()
}

const rewrittenProblem = "most turns change what was sent before, so that no cache can help: " +
	"something near the beginning of the prompts changes each turn, as Claude Code's billing line does " +
	"(vLLM drops it on /v1/messages since 0.18.0; else set CLAUDE_CODE_ATTRIBUTION_HEADER=0)"

// sayRewritten must be called without a lock that the stats need: a log handler may
// ask for them.
func (p *pool) sayRewritten() { p.router.cfg.logger.Warn(rewrittenProblem, "model", p.model) }

func ignoredProblem(url, api string) string {
	if api == "" {
		api = "requests"
	}
	return fmt.Sprintf("%s ignores the rank header on %s: its own balancing chooses the rank, and prefixes are lost "+
		"(vLLM honours it since 0.14.0, on /v1/responses since 0.33.0)", url, api)
}

func versionProblem(url, version string) string {
	return fmt.Sprintf("%s is vLLM %s, which ignores the rank header on every API: its own balancing chooses the rank, "+
		"and prefixes are lost; it is routed as one replica (vLLM honours the header since 0.14.0)", url, version)
}
