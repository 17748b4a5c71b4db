package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// The headers that name a request's conversation. All requests have the first;
// those of conversations with sub-agents, and of the sub-agents, have Claude
// Code's as well, which say whose sub-agent it is.
const (
	conversationHeader = "X-Session-Id"
	treeHeader         = "X-Claude-Code-Session-Id"
	agentHeader        = "X-Claude-Code-Agent-Id"
	parentHeader       = "X-Claude-Code-Parent-Agent-Id"
)

// client speaks streamed chat completions with one server, over the network or
// in memory.
type client struct {
	http  *http.Client
	url   string // base
	model string
	// session is the header that names the conversation; replica the one of an
	// answer that names where it was served, "" if none does.
	session, replica string
	header           http.Header // of all requests; may be nil
	extra            string      // members of all requests, as history.request has them
}

// reply is what a client saw of an answer.
type reply struct {
	first   time.Time // of the first streamed token with a text; zero if none came
	text    string
	replica string
	usage   usage
}

// usage is what an answer says of its own tokens.
type usage struct {
	known, knowsCached     bool
	prompt, cached, answer int
}

// event is a chunk of a stream, as far as it is read.
type event struct {
	Choices []struct {
		Delta struct {
			Content          string `json:"content"`
			Reasoning        string `json:"reasoning"`
			ReasoningContent string `json:"reasoning_content"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    *struct {
			Cached *int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// failed reports whether the event is an error. Some servers send the member
// with each chunk, as null.
func (e *event) failed() bool { return len(e.Error) > 0 && string(e.Error) != "null" }

// maxEvent bounds one line of a stream, in bytes.
const maxEvent = 4 << 20

// send sends a request and reads the answer to its end. The error is not nil if
// the answer is not whole.
func (c *client) send(ctx context.Context, body []byte, headers map[string]string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 200)) // what can be read of it
		return reply{}, fmt.Errorf("bench: %s: %q", resp.Status, said)
	}
	r, err := readStream(resp)
	if c.replica != "" {
		r.replica = resp.Header.Get(c.replica)
	}
	return r, err
}

func readStream(resp *http.Response) (reply, error) {
	var (
		r    reply
		text strings.Builder
		done bool
	)
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 4096), maxEvent)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			done = true
			continue
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return r, fmt.Errorf("bench: event of the stream: %w", err)
		}
		if e.failed() {
			return r, fmt.Errorf("bench: error in the stream: %s", e.Error)
		}
		for i := range e.Choices {
			d := &e.Choices[i].Delta
			if r.first.IsZero() && d.Content+d.Reasoning+d.ReasoningContent != "" {
				r.first = time.Now()
			}
			text.WriteString(d.Content)
		}
		if u := e.Usage; u != nil {
			r.usage = usage{known: true, prompt: u.Prompt, answer: u.Completion}
			if u.Details != nil && u.Details.Cached != nil {
				r.usage.knowsCached, r.usage.cached = true, *u.Details.Cached
			}
		}
	}
	r.text = text.String()
	switch {
	case lines.Err() != nil:
		return r, lines.Err()
	case !done:
		return r, errors.New("bench: the stream broke off")
	case r.first.IsZero() && r.usage.answer == 0: // a token may have no text
		return r, errors.New("bench: an answer without a token")
	}
	return r, nil
}
