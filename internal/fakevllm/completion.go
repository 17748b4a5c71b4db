package fakevllm

import "encoding/json"

type completionRequest struct {
	Model     string           `json:"model"`
	Prompt    completionPrompt `json:"prompt"`
	MaxTokens maybeInt         `json:"max_tokens"`
	openaiOptions
}

// completionPrompt is a text or a list of token ids, or a list of one of them.
type completionPrompt struct {
	text   string
	tokens []uint32
	others int // further prompts
}

func (p *completionPrompt) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &p.text) == nil || json.Unmarshal(b, &p.tokens) == nil {
		return nil
	}
	var prompts []completionPrompt
	if err := json.Unmarshal(b, &prompts); err != nil {
		return err
	}
	if len(prompts) > 0 {
		*p = prompts[0]
		p.others += len(prompts) - 1
	}
	return nil
}

func decodeCompletion(s *Server, body []byte) (*call, *apiError) {
	var req completionRequest
	if err := decode(body, &req); err != nil {
		return nil, err
	}
	if req.Prompt.others > 0 {
		return nil, bad("prompt", "A list of %d prompts is not simulated.", req.Prompt.others+1)
	}
	if req.Prompt.text == "" && len(req.Prompt.tokens) == 0 {
		e := invalid("", "Value error, Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)")
		e.param = "prompt"
		return nil, e
	}
	c, err := req.call(s, req.Model)
	if err != nil {
		return nil, err
	}
	c.limit = req.MaxTokens
	c.prompt.segment(req.Prompt.text)
	for _, token := range req.Prompt.tokens {
		c.prompt.add(uint64(token))
	}
	f := &completionFace{}
	f.usage, f.running = req.usage()
	c.face = f
	return c, nil
}

// completionFace writes /v1/completions.
type completionFace struct{ usage, running bool }

func (*completionFace) whole(r *result) any {
	type choice struct {
		Index          int    `json:"index"`
		Text           string `json:"text"`
		Logprobs       null   `json:"logprobs"`
		FinishReason   string `json:"finish_reason"`
		StopReason     null   `json:"stop_reason"`
		TokenIDs       null   `json:"token_ids"`
		PromptLogprobs null   `json:"prompt_logprobs"`
		PromptTokenIDs null   `json:"prompt_token_ids"`
		RoutedExperts  null   `json:"routed_experts"`
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
		KVTransferParams  null       `json:"kv_transfer_params"`
		ECTransferParams  null       `json:"ec_transfer_params"`
		Metrics           null       `json:"metrics"`
	}{
		ID: r.id.with("cmpl-"), Object: "text_completion", Created: r.created, Model: r.model,
		Choices:           []choice{{Text: r.text.text(r.generated), FinishReason: r.finish.String()}},
		SystemFingerprint: r.system,
		Usage:             r.wholeUsage(nil),
	}
}

type completionChoice struct {
	Index          int     `json:"index"`
	Text           string  `json:"text"`
	Logprobs       null    `json:"logprobs"`
	FinishReason   *string `json:"finish_reason"`
	StopReason     null    `json:"stop_reason"`
	PromptTokenIDs null    `json:"prompt_token_ids"`
	TokenIDs       null    `json:"token_ids"`
}

type completionChunk struct {
	ID                string             `json:"id"`
	Object            string             `json:"object"`
	Created           int64              `json:"created"`
	Model             string             `json:"model"`
	Choices           []completionChoice `json:"choices"`
	Usage             *openaiUsage       `json:"usage,omitempty"`
	SystemFingerprint string             `json:"system_fingerprint,omitempty"`
}

func (f *completionFace) chunk(r *result, choices ...completionChoice) completionChunk {
	c := completionChunk{
		ID: r.id.with("cmpl-"), Object: "text_completion", Created: r.created, Model: r.model,
		Choices: choices,
	}
	if f.running {
		c.Usage = r.running()
	}
	return c
}

func (*completionFace) open(*sse, *result)  {}
func (*completionFace) first(*sse, *result) {}

func (f *completionFace) tokens(out *sse, r *result, text string) {
	choice := completionChoice{Text: text}
	if r.finish != unfinished {
		reason := r.finish.String()
		choice.FinishReason = &reason
	}
	c := f.chunk(r, choice)
	if r.finish != unfinished && !f.usage {
		c.SystemFingerprint = r.system
	}
	out.data(c)
}

func (f *completionFace) last(out *sse, r *result) {
	if f.usage {
		c := f.chunk(r)
		c.Choices = []completionChoice{}
		c.Usage, c.SystemFingerprint = r.usage(nil), r.system
		out.data(c)
	}
	out.done()
}

func (*completionFace) fail(out *sse, e *apiError) {
	out.data(e.openai())
	out.done()
}
