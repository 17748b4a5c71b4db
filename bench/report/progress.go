package report

import (
	"fmt"
	"io"
	"sync"
)

// Progress tells a person how far a run is: "step 3 of 10: 16 sessions,
// affinity". In a log each step is a line; on a terminal they take each
// other's place, and the last goes when the run is done, so that the table
// stands alone.
//
// It may be used concurrently. A nil Progress says nothing.
type Progress struct {
	mu       sync.Mutex
	w        io.Writer
	steps    int
	terminal bool
	step     int
	what     string
	closed   bool
	err      error
}

// NewProgress returns a Progress that writes to w. With steps 0 or less the
// number of steps is not known and not said. Only with terminal true does it
// write ANSI escape sequences.
func NewProgress(w io.Writer, steps int, terminal bool) *Progress {
	return &Progress{w: w, steps: steps, terminal: terminal}
}

// Step begins the next step.
func (p *Progress) Step(what string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step++
	p.what = what
	p.write("")
}

// Update says where the step is. It shows on a terminal alone: in a log it
// would be a line each time.
func (p *Progress) Update(detail string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal && p.step > 0 {
		p.write(detail)
	}
}

// Close clears the line on a terminal and ends the Progress: what is said
// after it is not written. It returns the first error of the writer, and the
// same when called again.
func (p *Progress) Close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal && p.step > 0 {
		p.put(clearLine)
	}
	p.closed = true
	return p.err
}

const (
	clearLine = "\r\x1b[K"
	// lineWidth is the least a terminal is taken to have: what wraps cannot
	// be cleared with its line.
	lineWidth = 79
)

func (p *Progress) write(detail string) {
	text := fmt.Sprintf("step %d", p.step)
	if p.steps >= p.step {
		text += fmt.Sprintf(" of %d", p.steps)
	}
	for _, part := range []string{p.what, detail} {
		if part != "" {
			text += ": " + printable(part)
		}
	}
	if !p.terminal {
		p.put(text + "\n")
		return
	}
	if runes := []rune(text); len(runes) > lineWidth {
		text = string(runes[:lineWidth-1]) + "…"
	}
	p.put(clearLine + text)
}

func (p *Progress) put(text string) {
	if p.closed || p.err != nil {
		return
	}
	_, p.err = io.WriteString(p.w, text)
}
