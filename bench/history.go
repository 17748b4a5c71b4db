package bench

import (
	"encoding/json"
	"strconv"
)

// history is a conversation so far, as its client keeps it.
type history struct {
	messages []message
}

// message is one message of a history.
type message struct {
	role string
	text string
	body []byte // as it is in a request
}

func newMessage(role, text string) message {
	body := []byte(`{"role":"` + role + `","content":`)
	quoted, err := json.Marshal(text)
	if err != nil { // no string fails
		quoted = []byte(`""`)
	}
	return message{role: role, text: text, body: append(append(body, quoted...), '}')}
}

func (h *history) add(m message) { h.messages = append(h.messages, m) }

// cut takes n bytes of text off the end, but nothing of a system prompt.
func (h *history) cut(n int) {
	for n > 0 && len(h.messages) > 0 {
		last := h.messages[len(h.messages)-1]
		if last.role == "system" {
			return
		}
		h.messages = h.messages[:len(h.messages)-1]
		if len(last.text) > n {
			h.add(newMessage(last.role, last.text[:len(last.text)-n]))
		}
		n -= len(last.text)
	}
}

// request is the body of a streamed chat completion of the history and one more
// message. Extra is further members of it, as "" or `,"name":value`.
func (h *history) request(model string, next message, answer int, extra string) []byte {
	size := 200 + len(model) + len(next.body) + len(extra)
	for _, m := range h.messages {
		size += len(m.body) + 1
	}
	b := make([]byte, 0, size)
	b = append(b, `{"model":`...)
	b = strconv.AppendQuote(b, model)
	b = append(b, `,"messages":[`...)
	for _, m := range h.messages {
		b = append(append(b, m.body...), ',')
	}
	b = append(b, next.body...)
	b = append(b, `],"max_tokens":`...)
	b = strconv.AppendInt(b, int64(answer), 10)
	b = append(b, `,"stream":true,"stream_options":{"include_usage":true}`...)
	return append(append(b, extra...), '}')
}
