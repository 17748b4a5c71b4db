package warmroute

import (
	"fmt"
	"sync"
)

// recent is the verdicts of the last turns, the older counting less.
type recent struct {
	mu                sync.Mutex
	judged            float64
	rewritten         float64
	saidRewritten     bool
	onMostlyRewritten func()
}

// recentTurns is about how many turns recent looks back.
const recentTurns = 200

func (r *recent) add(v Verdict) {
	if v == Unmeasured || v == Ignored {
		return
	}
	r.mu.Lock()
	r.judged++
	if v == Rewritten {
		r.rewritten++
	}
	if r.judged >= recentTurns {
		r.judged /= 2
		r.rewritten /= 2
	}
	say := v == Rewritten && r.mostly() && !r.saidRewritten
	r.saidRewritten = r.saidRewritten && r.mostly() || say
	r.mu.Unlock()
	if say {
		r.onMostlyRewritten()
	}
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

func ignoredProblem(url, api string) string {
	if api == "" {
		api = "requests"
	}
	return fmt.Sprintf("%s ignores the rank header on %s: its own balancing chooses the rank, and prefixes are lost "+
		"(vLLM honours it since 0.14.0, on /v1/responses since 0.33.0)", url, api)
}
