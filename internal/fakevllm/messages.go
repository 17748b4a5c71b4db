package fakevllm

import (
	"encoding/json"
	"strings"
)

type messagesRequest struct {
	Model     string          `json:"model"`
	System    systemPrompt    `json:"system"`
	Messages  []message       `json:"messages"`
	MaxTokens maybeInt        `json:"max_tokens"`
	Tools     json.RawMessage `json:"tools"`
	Stream    bool            `json:"stream"`
}

// systemPrompt is the text of the system field. Blocks with Claude Code's
// billing header, which differs in every request, are dropped as in vLLM
// since 0.18.
type systemPrompt string

func (p *systemPrompt) UnmarshalJSON(b []byte) error {
	var blocks []part
	if json.Unmarshal(b, &blocks) != nil {
		return json.Unmarshal(b, (*string)(p))
	}
	var texts []string
	for _, block := range blocks {
		if !strings.HasPrefix(block.Text, "x-anthropic-billing-header") {
			texts = append(texts, block.text())
		}
	}
	*p = systemPrompt(strings.Join(texts, "\n"))
	return nil
}

func decodeMessages(s *Server, body []byte) (*call, *apiError) {
	var req messagesRequest
	if err := decode(body, &req); err != nil {
		return nil, err
	}
	switch {
	case req.Model == "":
		return nil, invalid("model", "Value error, Model is required")
	case !req.MaxTokens.set:
		return nil, invalid("max_tokens", "Field required")
	case req.MaxTokens.value < 1:
		return nil, invalid("max_tokens", "Value error, max_tokens must be positive")
	}
	if err := checkMessages("messages", req.Messages); err != nil {
		return nil, err
	}
	prompt := newTokenizer(s.cfg.BlockSize, "")
	prompt.tools(req.Tools)
	if req.System != "" {
		prompt.message("system", string(req.System))
	}
	prompt.conversation(req.Messages)
	return &call{
		model: req.Model, stream: req.Stream, prompt: prompt, limit: req.MaxTokens, face: messagesFace{},
	}, nil
}

// messagesFace writes /v1/messages.
type messagesFace struct{}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type messagesUsage struct {
	Input   int  `json:"input_tokens"`
	Output  int  `json:"output_tokens"`
	Created *int `json:"cache_creation_input_tokens,omitempty"`
	Cached  *int `json:"cache_read_input_tokens,omitempty"`
}

// messagesUsage leaves the cached tokens out of the input tokens, if it tells
// them at all.
func (r *result) messagesUsage() messagesUsage {
	u := messagesUsage{Input: r.prompt, Output: r.generated}
	if r.details {
		cached := r.cached
		u.Input, u.Created, u.Cached = r.prompt-cached, new(int), &cached
	}
	return u
}

func (r *result) stopReason() string {
	if r.finish == byStop {
		return "end_turn"
	}
	return "max_tokens"
}

func (messagesFace) whole(r *result) any {
	return struct {
		ID         string        `json:"id"`
		Type       string        `json:"type"`
		Role       string        `json:"role"`
		Content    []textBlock   `json:"content"`
		Model      string        `json:"model"`
		StopReason string        `json:"stop_reason"`
		Usage      messagesUsage `json:"usage"`
	}{
		ID: r.id.with("chatcmpl-"), Type: "message", Role: "assistant",
		Content: []textBlock{{"text", r.text.text(r.generated)}},
		Model:   r.model, StopReason: r.stopReason(), Usage: r.messagesUsage(),
	}
}

func (messagesFace) open(*sse, *result) {}

func (messagesFace) first(out *sse, r *result) {
	type start struct {
		ID           string        `json:"id"`
		Type         string        `json:"type"`
		Role         string        `json:"role"`
		Content      []textBlock   `json:"content"`
		Model        string        `json:"model"`
		StopReason   null          `json:"stop_reason"`
		StopSequence null          `json:"stop_sequence"`
		Usage        messagesUsage `json:"usage"`
	}
	out.event("message_start", struct {
		Type    string `json:"type"`
		Message start  `json:"message"`
	}{"message_start", start{
		ID: r.id.with("chatcmpl-"), Type: "message", Role: "assistant", Content: []textBlock{},
		Model: r.model, Usage: messagesUsage{Input: r.prompt},
	}})
	out.event("content_block_start", struct {
		Type  string    `json:"type"`
		Block textBlock `json:"content_block"`
		Index int       `json:"index"`
	}{"content_block_start", textBlock{Type: "text"}, 0})
}

func (messagesFace) tokens(out *sse, _ *result, text string) {
	out.event("content_block_delta", struct {
		Type  string    `json:"type"`
		Delta textBlock `json:"delta"`
		Index int       `json:"index"`
	}{"content_block_delta", textBlock{"text_delta", text}, 0})
}

func (messagesFace) last(out *sse, r *result) {
	type bare struct {
		Type string `json:"type"`
	}
	type delta struct {
		StopReason string `json:"stop_reason"`
	}
	out.event("content_block_stop", struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}{"content_block_stop", 0})
	out.event("message_delta", struct {
		Type  string        `json:"type"`
		Delta delta         `json:"delta"`
		Usage messagesUsage `json:"usage"`
	}{"message_delta", delta{r.stopReason()}, r.messagesUsage()})
	out.event("message_stop", bare{"message_stop"})
}

func (messagesFace) fail(out *sse, e *apiError) {
	body, _ := e.anthropic()
	out.event("error", body)
}
