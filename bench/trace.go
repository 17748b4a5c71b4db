package bench

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// TraceSession is one recorded conversation: sizes and times, no text.
type TraceSession struct {
	ID string
	// Tool is the size of the tool definitions, which stand at the beginning of
	// the main agent's prompts, and System that of the system prompt behind
	// them, in tokens.
	Tool, System int
	// Requests are those of all of the conversation's agents, in the order in
	// which they were sent.
	Requests []TraceRequest
}

// TraceRequest is one request of a recorded conversation. Sizes are in tokens.
type TraceRequest struct {
	At     time.Duration // since the conversation's start
	Prompt int           // at least 1
	Answer int
	// Common is the longest prefix that the prompt has in common with that of an
	// earlier request of the conversation, of any agent. It is rounded down to
	// whole blocks of Block tokens.
	Common, Block int
	// Took is the time to the end of the answer, Think the time from the agent's
	// answer before to this request.
	Took, Think time.Duration
	// Agent is 0 for the main agent, else the number of a sub-agent.
	Agent int
}

// Limits of what ReadTrace takes for a trace.
const (
	maxTraceLine   = 64 << 20 // bytes
	maxTraceTokens = 1 << 30
	maxTraceTime   = 10 * 365 * 24 * time.Hour
)

// ReadTrace reads recorded conversations, one a line, each a JSON object
//
//	{"id": "a", "block": 64, "tool": 12974, "system": 4243, "reqs": [[0, 71175, 169, 0, 1112, 7.34, 0, 0], ...]}
//
// whose requests are arrays of eight numbers: the time since the start in
// seconds, tokens of the prompt and of the answer, blocks that the prompt has
// in common with an earlier one, blocks of the prompt, seconds that the answer
// took, seconds since the agent's answer before, and the agent, 0 for the main
// one. The blocks of the prompt and members with other names are not looked at;
// block is 64 if it is left out, the other members 0. Empty lines are skipped.
//
// The error names the line, and wraps that of the reader or of encoding/json.
func ReadTrace(r io.Reader) ([]TraceSession, error) {
	var all []TraceSession
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), maxTraceLine)
	n := 0
	for lines.Scan() {
		n++
		if len(lines.Bytes()) == 0 {
			continue
		}
		s, err := readSession(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("bench: trace, line %d: %w", n, err)
		}
		all = append(all, s)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("bench: trace, line %d: %w", n+1, err)
	}
	return all, nil
}

func readSession(line []byte) (TraceSession, error) {
	read := struct {
		ID     string      `json:"id"`
		Block  int         `json:"block"`
		Tool   int         `json:"tool"`
		System int         `json:"system"`
		Reqs   [][]float64 `json:"reqs"`
	}{Block: 64}
	if err := json.Unmarshal(line, &read); err != nil {
		return TraceSession{}, err
	}
	for _, f := range []struct {
		name       string
		value, min int
	}{{"block", read.Block, 1}, {"tool", read.Tool, 0}, {"system", read.System, 0}} {
		if f.value < f.min || f.value > maxTraceTokens {
			return TraceSession{}, fmt.Errorf("%s is %d, want %d to %d", f.name, f.value, f.min, maxTraceTokens)
		}
	}
	s := TraceSession{ID: read.ID, Tool: read.Tool, System: read.System}
	main := false
	for i, numbers := range read.Reqs {
		request, err := readRequest(numbers, read.Block)
		if err != nil {
			return TraceSession{}, fmt.Errorf("request %d: %w", i, err)
		}
		main = main || request.Agent == 0
		s.Requests = append(s.Requests, request)
	}
	if !main {
		return TraceSession{}, errors.New("no request of agent 0")
	}
	slices.SortStableFunc(s.Requests, func(a, b TraceRequest) int { return cmp.Compare(a.At, b.At) })
	return s, nil
}

func readRequest(numbers []float64, block int) (TraceRequest, error) {
	if len(numbers) != 8 {
		return TraceRequest{}, fmt.Errorf("%d numbers, want 8", len(numbers))
	}
	r := TraceRequest{Block: block}
	for i, into := range []*time.Duration{0: &r.At, 5: &r.Took, 6: &r.Think} {
		if into == nil {
			continue
		}
		if numbers[i] < 0 || numbers[i] > maxTraceTime.Seconds() {
			return TraceRequest{}, fmt.Errorf("number %d is %v, want 0 to %v seconds", i, numbers[i], maxTraceTime.Seconds())
		}
		*into = time.Duration(numbers[i] * float64(time.Second))
	}
	for i, into := range []*int{1: &r.Prompt, 2: &r.Answer, 3: &r.Common, 7: &r.Agent} {
		if into == nil {
			continue
		}
		if numbers[i] < 0 || numbers[i] > maxTraceTokens || numbers[i] != math.Trunc(numbers[i]) {
			return TraceRequest{}, fmt.Errorf("number %d is %v, want a whole number, 0 to %d", i, numbers[i], maxTraceTokens)
		}
		*into = int(numbers[i])
	}
	if r.Prompt == 0 {
		return TraceRequest{}, errors.New("a prompt of no tokens")
	}
	r.Common = min(r.Common, r.Prompt/block) * block
	return r, nil
}
