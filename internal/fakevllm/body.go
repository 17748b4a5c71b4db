package fakevllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decode reads a body into a request of its endpoint.
func decode(body []byte, into any) *apiError {
	err := json.Unmarshal(body, into)
	if err == nil {
		return nil
	}
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		// The options that two endpoints share are embedded; their name is ours.
		field := strings.TrimPrefix(wrongType.Field, "openaiOptions.")
		return invalid(orDefault(field, "body"), "Input should not be a "+wrongType.Value)
	}
	return invalid("body", "JSON decode error: "+err.Error())
}

// maybeInt is an integer that may be absent or null. As in vLLM's schema a
// whole float and a string of digits are integers too.
type maybeInt struct {
	set   bool
	value int
}

func (m *maybeInt) UnmarshalJSON(b []byte) error {
	text := string(b)
	if text == "null" {
		*m = maybeInt{}
		return nil
	}
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = strings.TrimSpace(unquoted)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		f, errFloat := strconv.ParseFloat(text, 64)
		if errFloat != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return &json.UnmarshalTypeError{Value: "non-integer"}
		}
		n = int(f)
	}
	*m = maybeInt{true, n}
	return nil
}

// content is the text of a message: a string, null, or parts.
type content string

func (c *content) UnmarshalJSON(b []byte) error {
	if text, ok := plainText(b); ok {
		*c = content(text)
		return nil
	}
	var text *string
	if json.Unmarshal(b, &text) == nil {
		*c = ""
		if text != nil {
			*c = content(*text)
		}
		return nil
	}
	var parts []part
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	texts := make([]string, len(parts))
	for i := range parts {
		texts[i] = parts[i].text()
	}
	*c = content(strings.Join(texts, "\n"))
	return nil
}

// plainText is the text of a JSON string that nothing is escaped in, as the
// long ones of a conversation's history often are.
func plainText(b []byte) (string, bool) {
	if len(b) < 2 || b[0] != '"' || bytes.IndexByte(b, '\\') >= 0 || !utf8.Valid(b) {
		return "", false
	}
	return string(b[1 : len(b)-1]), true
}

// part is one element of a message's content, in any of the APIs. What tells
// one turn's copy from the next, such as cache_control, is not read.
type part struct {
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Refusal   string          `json:"refusal"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   content         `json:"content"`
	ImageURL  json.RawMessage `json:"image_url"`
	Source    json.RawMessage `json:"source"`
}

func (p *part) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &p.Text) == nil {
		return nil
	}
	type plain part
	return json.Unmarshal(b, (*plain)(p))
}

func (p *part) text() string {
	return p.Text + p.Thinking + p.Refusal + p.ID + p.Name + string(p.Input) +
		p.ToolUseID + string(p.Content) + string(p.ImageURL) + string(p.Source)
}

// message is one element of a conversation: a chat message, an Anthropic
// message or a Responses item.
type message struct {
	Role       string          `json:"role"`
	Content    content         `json:"content"`
	ToolCalls  json.RawMessage `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`

	Type      string  `json:"type"` // Responses items
	Name      string  `json:"name"`
	Arguments string  `json:"arguments"`
	CallID    string  `json:"call_id"`
	Output    content `json:"output"`
	Summary   content `json:"summary"`
}

func (m *message) text() string {
	calls := m.ToolCalls
	if string(calls) == "null" {
		calls = nil
	}
	return string(m.Content) + string(calls) + m.ToolCallID +
		m.Name + m.Arguments + m.CallID + string(m.Output) + string(m.Summary)
}

// conversation adds messages and what stands before the answer.
func (t *tokenizer) conversation(messages []message) {
	for i := range messages {
		t.message(orDefault(messages[i].Role, messages[i].Type), messages[i].text())
	}
	t.segment(answerHeader)
}

// tools adds the declared tools, which stand before the first message.
func (t *tokenizer) tools(declared json.RawMessage) {
	if len(declared) > 0 && string(declared) != "null" && string(declared) != "[]" {
		t.message("tools", string(declared))
	}
}

// checkMessages refuses a conversation that cannot be rendered. A message has
// a role or, as an item of the Responses API, a type.
func checkMessages(field string, messages []message) *apiError {
	if messages == nil {
		return invalid(field, "Field required")
	}
	if len(messages) == 0 {
		return bad("", "Cannot apply chat template to an empty conversation. Provide at least one message.")
	}
	for i := range messages {
		if messages[i].Role == "" && messages[i].Type == "" {
			return invalid(field+"."+strconv.Itoa(i)+".role", "Field required")
		}
	}
	return nil
}
