package bench

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// TraceOptions are what [Trace] takes of recorded conversations, and how fast.
// A zero field is the value stated on it; a negative limit is none.
type TraceOptions struct {
	// Speed is what the pauses are divided by; the answers take as long as the
	// engines need. Default 1.
	Speed float64
	// MaxPause limits a pause, as recorded: people go to lunch. Default 30 s.
	MaxPause time.Duration
	// MaxTurns is how many requests of each agent are taken, the first ones.
	// Default 30.
	MaxTurns int
	// MaxPrompt leaves longer requests out, in tokens. Default 150,000.
	MaxPrompt int
	// MaxAnswer limits an answer, in tokens. Default 2,000.
	MaxAnswer int
	// Back is what a client sends back of an answer where the next prompt is
	// long enough to have it.
	Back Back
}

func (o TraceOptions) filled() TraceOptions {
	o.Speed = or(o.Speed, 1)
	o.MaxPause = or(o.MaxPause, 30*time.Second)
	if o.MaxPause < 0 || o.MaxPause > maxTraceTime {
		o.MaxPause = maxTraceTime
	}
	for _, l := range []struct {
		limit     *int
		byDefault int
	}{{&o.MaxTurns, 30}, {&o.MaxPrompt, 150_000}, {&o.MaxAnswer, 2000}} {
		*l.limit = or(*l.limit, l.byDefault)
		if *l.limit < 0 {
			*l.limit = math.MaxInt
		}
	}
	return o
}

// TraceEngines are engines for the long prompts of coding agents: four replicas
// of a fast card with room for 400,000 tokens each.
func TraceEngines() Engines {
	return Engines{
		Name:      "4 replicas of a large card",
		Endpoints: 4, Ranks: 1, MaxNumSeqs: 32,
		KVTokens: 400_000, PrefillRate: 10_000, StepTime: 15 * time.Millisecond, ContextCost: 20 * time.Microsecond,
		BatchedTokens: 2048, BlockSize: 16, StreamInterval: 16, APIServers: 1,
	}
}

// Trace is recorded conversations, each drawn by chance and as often as it
// comes up, on [TraceEngines]: 8, 16, 24, 32 and 48 at a time for 40 minutes
// each.
//
// Sizes of prompts and answers are the recorded ones. So is what a prompt
// shares with what came before it: where that is less than all of the prompt
// before, the client has rewritten its context, and the rest is new text. All
// conversations share their tool definitions. Sub-agents are conversations of
// their own that name their parent, started by the answer before their first
// request; those that had ended before the main agent's next request are waited
// for. Those of a conversation share the text that they had in common.
//
// The error is for options that are out of range, and for a trace of which they
// leave nothing.
func Trace(sessions []TraceSession, o TraceOptions) (Workload, error) {
	if o.Speed < 0 || math.IsNaN(o.Speed) || math.IsInf(o.Speed, 0) {
		return Workload{}, fmt.Errorf("bench: trace: Speed is %v, want more than 0", o.Speed)
	}
	o = o.filled()
	var all []Conversation
	for i := range sessions {
		if c := replay(&sessions[i], &o); len(c.Turns) > 0 {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return Workload{}, errors.New("bench: trace: no conversation is within the limits")
	}
	return Workload{
		Name:         "trace",
		About:        fmt.Sprintf("closed loop, conversations drawn from %d recorded ones, sub-agents and rewritten contexts included, pauses at %v times the speed; 40 minutes a step, caches kept", len(all), o.Speed),
		Engines:      TraceEngines(),
		Steps:        []int{8, 16, 24, 32, 48},
		StepTime:     40 * time.Minute,
		Stagger:      30 * time.Second,
		Conversation: func(rng *rand.Rand) Conversation { return all[rng.IntN(len(all))] },
	}, nil
}

// replay makes the script of a recorded conversation.
func replay(s *TraceSession, o *TraceOptions) Conversation {
	main, end := o.requests(s, 0)
	c := o.script(main, Text{"tools", s.Tool})
	kinds := agentTexts(s)
	for _, agent := range s.agents() {
		requests, _ := o.requests(s, agent)
		if len(requests) == 0 || len(main) == 0 || requests[0].At >= end {
			continue
		}
		// The answer that started it is the last one before its first request.
		by := 0
		for by+1 < len(main) && main[by+1].done() <= requests[0].At {
			by++
		}
		script := o.script(requests, kinds[agent])
		script.Turns[0].Pause = o.pause(requests[0].At - main[by].done())
		t, ended := &c.Turns[by], requests[len(requests)-1].done()
		if by+1 < len(main) && ended <= main[by+1].At {
			t.Agents = append(t.Agents, script)
			next := &c.Turns[by+1]
			next.Pause = min(next.Pause, o.pause(main[by+1].At-ended))
		} else {
			t.Background = append(t.Background, script)
		}
	}
	return c
}

// done is when the request's answer had ended.
func (r *TraceRequest) done() time.Duration { return r.At + r.Took }

// agents are the numbers of the sub-agents, in the order in which they began.
func (s *TraceSession) agents() []int {
	var all []int
	for i := range s.Requests {
		if a := s.Requests[i].Agent; a != 0 && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// requests are those of an agent that are taken, and when the first one after
// them was sent.
func (o *TraceOptions) requests(s *TraceSession, agent int) (taken []TraceRequest, end time.Duration) {
	for _, r := range s.Requests {
		if r.Agent != agent {
			continue
		}
		if len(taken) == o.MaxTurns {
			return taken, r.At
		}
		if r.Prompt <= o.MaxPrompt {
			taken = append(taken, r)
		}
	}
	return taken, math.MaxInt64
}

func (o *TraceOptions) pause(d time.Duration) time.Duration {
	return time.Duration(min(float64(min(max(d, 0), o.MaxPause))/o.Speed, float64(maxTraceTime)))
}

// script is the turns of one agent. Its prompts begin with the given text.
func (o *TraceOptions) script(requests []TraceRequest, system Text) Conversation {
	c := Conversation{System: system}
	for i := range requests {
		r := &requests[i]
		t := Turn{Pause: o.pause(r.Think), Answer: max(1, min(r.Answer, o.MaxAnswer))}
		if i == 0 {
			t.Pause = 0
			c.System.Tokens = min(system.Tokens, r.Prompt-1)
			t.New = r.Prompt - c.System.Tokens
			c.Turns = append(c.Turns, t)
			continue
		}
		before, last := requests[i-1].Prompt, &c.Turns[i-1]
		keeps := before
		if r.Common <= before-r.Block {
			keeps = r.Common // its context was rewritten from there on
		}
		keeps = max(min(keeps, r.Prompt-1), c.System.Tokens)
		if keeps == before && r.Prompt > before+last.Answer {
			last.Back = o.Back
			keeps += last.Answer
		} else {
			last.Back = Nothing
			t.Cut = before - keeps
		}
		t.New = max(1, r.Prompt-keeps)
		c.Turns = append(c.Turns, t)
	}
	return c
}

// agentTexts are the texts that the prompts of sub-agents begin with, by agent.
// One whose first prompt has nothing in common with what came before begins
// with a text of its own, and those that have share the last such text.
func agentTexts(s *TraceSession) map[int]Text {
	texts := map[int]Text{}
	first := 0
	for _, agent := range s.agents() {
		at := slices.IndexFunc(s.Requests, func(r TraceRequest) bool { return r.Agent == agent })
		common := s.Requests[at].Common
		if common == 0 || first == 0 {
			first = agent
		}
		text := Text{fmt.Sprintf("%s, sub-agents from %d", s.ID, first), common}
		texts[agent] = text
		if whole := texts[first]; whole.Tokens < common {
			whole.Tokens = common
			texts[first] = whole
		}
	}
	return texts
}
