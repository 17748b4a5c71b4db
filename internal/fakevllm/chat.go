package fakevllm

import "encoding/json"

type chatRequest struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	MaxTokens           maybeInt        `json:"max_tokens"`
	MaxCompletionTokens maybeInt        `json:"max_completion_tokens"`
	Tools               json.RawMessage `json:"tools"`
	openaiOptions
}

func decodeChat(s *Server, body []byte) (*call, *apiError) {
	var req chatRequest
	if err := decode(body, &req); err != nil {
		return nil, err
	}
	if err := checkMessages("messages", req.Messages); err != nil {
		return nil, err
	}
	c, err := req.call(s, req.Model)
	if err != nil {
		return nil, err
	}
	c.limit = req.MaxTokens
	if req.MaxCompletionTokens.set {
		c.limit = req.MaxCompletionTokens
	}
	c.prompt.tools(req.Tools)
	c.prompt.conversation(req.Messages)
	f := &chatFace{}
	f.usage, f.running = req.usage()
	c.face = f
	return c, nil
}

// chatFace writes /v1/chat/completions.
type chatFace struct{ usage, running bool }

func (f *chatFace) whole(r *result) any {
	type reply struct {
		Role         string `json:"role"`
		Content      string `json:"content"`
		Refusal      null   `json:"refusal"`
		Annotations  null   `json:"annotations"`
		Audio        null   `json:"audio"`
		FunctionCall null   `json:"function_call"`
		Reasoning    null   `json:"reasoning"`
	}
	type choice struct {
		Index         int    `json:"index"`
		Message       reply  `json:"message"`
		Logprobs      null   `json:"logprobs"`
		FinishReason  string `json:"finish_reason"`
		StopReason    null   `json:"stop_reason"`
		TokenIDs      null   `json:"token_ids"`
		RoutedExperts null   `json:"routed_experts"`
	}
	return struct {
		ID                string     `json:"id"`
		Object            string     `json:"object"`
		Created           int64      `json:"created"`
		Model             string     `json:"model"`
		Choices           []choice   `json:"choices"`
		ServiceTier       null       `json:"service_tier"`
		SystemFingerprint string     `json:"system_fingerprint"`
		Usage             wholeUsage `json:"usage"`
		PromptLogprobs    null       `json:"prompt_logprobs"`
		PromptTokenIDs    null       `json:"prompt_token_ids"`
		PromptText        null       `json:"prompt_text"`
		KVTransferParams  null       `json:"kv_transfer_params"`
		ECTransferParams  null       `json:"ec_transfer_params"`
		Metrics           null       `json:"metrics"`
	}{
		ID: r.id.with("chatcmpl-"), Object: "chat.completion", Created: r.created, Model: r.model,
		Choices: []choice{{
			Message:      reply{Role: "assistant", Content: r.text.text(r.generated)},
			FinishReason: r.finish.String(),
		}},
		SystemFingerprint: r.system,
		Usage:             r.wholeUsage(new(int)),
	}
}

type chatDelta struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

type chatChoice struct {
	Index        int       `json:"index"`
	Delta        chatDelta `json:"delta"`
	Logprobs     null      `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
	StopReason   *null     `json:"stop_reason,omitempty"`
	TokenIDs     *null     `json:"token_ids,omitempty"`
}

type chatChunk struct {
	ID                string       `json:"id"`
	Object            string       `json:"object"`
	Created           int64        `json:"created"`
	Model             string       `json:"model"`
	Choices           []chatChoice `json:"choices"`
	Usage             *openaiUsage `json:"usage,omitempty"`
	SystemFingerprint string       `json:"system_fingerprint,omitempty"`
	PromptTokenIDs    *null        `json:"prompt_token_ids,omitempty"`
	PromptText        *null        `json:"prompt_text,omitempty"`
}

func (f *chatFace) chunk(r *result, choices ...chatChoice) chatChunk {
	c := chatChunk{
		ID: r.id.with("chatcmpl-"), Object: "chat.completion.chunk", Created: r.created, Model: r.model,
		Choices: choices,
	}
	if f.running {
		c.Usage = r.running()
	}
	return c
}

func (*chatFace) open(*sse, *result) {}

func (f *chatFace) first(out *sse, r *result) {
	c := f.chunk(r, chatChoice{Delta: chatDelta{Role: "assistant"}})
	c.PromptTokenIDs, c.PromptText = &null{}, &null{}
	out.data(c)
}

func (f *chatFace) tokens(out *sse, r *result, text string) {
	choice := chatChoice{Delta: chatDelta{Content: text}, TokenIDs: &null{}}
	if r.finish != unfinished {
		reason := r.finish.String()
		choice.FinishReason, choice.StopReason = &reason, &null{}
	}
	c := f.chunk(r, choice)
	if r.finish != unfinished && !f.usage {
		c.SystemFingerprint = r.system
	}
	out.data(c)
}

func (f *chatFace) last(out *sse, r *result) {
	if f.usage {
		c := f.chunk(r)
		c.Choices = []chatChoice{}
		c.Usage, c.SystemFingerprint = r.usage(new(int)), r.system
		out.data(c)
	}
	out.done()
}

func (*chatFace) fail(out *sse, e *apiError) {
	out.data(e.openai())
	out.done()
}
