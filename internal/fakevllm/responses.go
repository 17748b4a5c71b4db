package fakevllm

import (
	"encoding/json"
)

type responsesRequest struct {
	Model              string          `json:"model"`
	Instructions       *string         `json:"instructions"`
	Input              responsesInput  `json:"input"`
	MaxOutputTokens    maybeInt        `json:"max_output_tokens"`
	Tools              json.RawMessage `json:"tools"`
	Stream             bool            `json:"stream"`
	CacheSalt          *string         `json:"cache_salt"`
	PreviousResponseID *string         `json:"previous_response_id"`
}

// responsesInput is a list of items, or the text of one user message.
type responsesInput []message

func (in *responsesInput) UnmarshalJSON(b []byte) error {
	var text *string
	if json.Unmarshal(b, &text) != nil {
		return json.Unmarshal(b, (*[]message)(in))
	}
	if text != nil {
		*in = responsesInput{{Role: "user", Content: content(*text)}}
	}
	return nil
}

func decodeResponses(s *Server, body []byte) (*call, *apiError) {
	var req responsesRequest
	if err := decode(body, &req); err != nil {
		return nil, err
	}
	if req.PreviousResponseID != nil && *req.PreviousResponseID != "" {
		return nil, unknownResponse(*req.PreviousResponseID)
	}
	if err := checkMessages("input", req.Input); err != nil {
		return nil, err
	}
	prompt, err := s.promptFor(req.CacheSalt)
	if err != nil {
		return nil, err
	}
	prompt.tools(req.Tools)
	if req.Instructions != nil {
		prompt.message("system", *req.Instructions)
	}
	prompt.conversation(req.Input)
	f := &responsesFace{instructions: req.Instructions}
	if req.MaxOutputTokens.set {
		f.limit = &req.MaxOutputTokens.value
	}
	return &call{model: req.Model, stream: req.Stream, prompt: prompt, limit: req.MaxOutputTokens, face: f}, nil
}

// responsesFace writes /v1/responses.
type responsesFace struct {
	instructions *string
	limit        *int
	number       int // of the next event
}

type outputText struct {
	Annotations []null `json:"annotations"`
	Text        string `json:"text"`
	Type        string `json:"type"`
	Logprobs    []null `json:"logprobs"`
}

type outputMessage struct {
	ID      string       `json:"id"`
	Content []outputText `json:"content"`
	Role    string       `json:"role"`
	Status  string       `json:"status"`
	Type    string       `json:"type"`
	Phase   null         `json:"phase"`
	Summary []null       `json:"summary,omitzero"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

type responsesUsage struct {
	Input        int `json:"input_tokens"`
	InputDetails struct {
		Cached        int   `json:"cached_tokens"`
		InputPerTurn  []int `json:"input_tokens_per_turn"`
		CachedPerTurn []int `json:"cached_tokens_per_turn"`
	} `json:"input_tokens_details"`
	Output        int `json:"output_tokens"`
	OutputDetails struct {
		Reasoning     int   `json:"reasoning_tokens"`
		Tool          int   `json:"tool_output_tokens"`
		OutputPerTurn []int `json:"output_tokens_per_turn"`
		ToolPerTurn   []int `json:"tool_output_tokens_per_turn"`
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

type response struct {
	ID                 string             `json:"id"`
	CreatedAt          int64              `json:"created_at"`
	IncompleteDetails  *incompleteDetails `json:"incomplete_details"`
	Instructions       *string            `json:"instructions"`
	Metadata           null               `json:"metadata"`
	Model              string             `json:"model"`
	Object             string             `json:"object"`
	Output             []outputMessage    `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	Temperature        json.Number        `json:"temperature"`
	ToolChoice         string             `json:"tool_choice"`
	Tools              []null             `json:"tools"`
	TopP               json.Number        `json:"top_p"`
	Background         bool               `json:"background"`
	MaxOutputTokens    *int               `json:"max_output_tokens"`
	MaxToolCalls       null               `json:"max_tool_calls"`
	PreviousResponseID null               `json:"previous_response_id"`
	Prompt             null               `json:"prompt"`
	Reasoning          null               `json:"reasoning"`
	ServiceTier        string             `json:"service_tier"`
	Status             string             `json:"status"`
	Text               null               `json:"text"`
	TopLogprobs        null               `json:"top_logprobs"`
	Truncation         string             `json:"truncation"`
	Usage              *responsesUsage    `json:"usage"`
	User               null               `json:"user"`
	PresencePenalty    json.Number        `json:"presence_penalty"`
	FrequencyPenalty   json.Number        `json:"frequency_penalty"`
	KVTransferParams   null               `json:"kv_transfer_params"`
	ECTransferParams   null               `json:"ec_transfer_params"`
	InputMessages      null               `json:"input_messages"`
	OutputMessages     null               `json:"output_messages"`
}

// response returns the object as it stands: in progress, or ended.
func (f *responsesFace) response(r *result) *response {
	o := &response{
		ID: r.id.with("resp_"), CreatedAt: r.created, Instructions: f.instructions, Model: r.model,
		Object: "response", Output: []outputMessage{}, ParallelToolCalls: true, Temperature: "1.0",
		ToolChoice: "none", Tools: []null{}, TopP: "1.0", MaxOutputTokens: f.limit, ServiceTier: "auto",
		Status: "in_progress", Truncation: "disabled", PresencePenalty: "0.0", FrequencyPenalty: "0.0",
	}
	if r.finish == unfinished {
		return o
	}
	o.Status = "completed"
	if r.finish == byLength {
		o.Status, o.IncompleteDetails = "incomplete", &incompleteDetails{"max_output_tokens"}
	}
	if r.finish == byAbort {
		o.Status = "cancelled"
	}
	o.Output = append(o.Output, f.message(r.id.with("msg_"), r))
	u := &responsesUsage{Input: r.prompt, Output: r.generated, Total: r.prompt + r.generated}
	u.InputDetails.Cached = r.cached
	u.InputDetails.InputPerTurn, u.InputDetails.CachedPerTurn = []int{}, []int{}
	u.OutputDetails.OutputPerTurn, u.OutputDetails.ToolPerTurn = []int{}, []int{}
	o.Usage = u
	return o
}

func (f *responsesFace) message(id string, r *result) outputMessage {
	return outputMessage{
		ID: id, Content: []outputText{f.text(r)}, Role: "assistant", Status: "completed", Type: "message",
	}
}

func (*responsesFace) text(r *result) outputText {
	return outputText{Annotations: []null{}, Text: r.text.text(r.generated), Type: "output_text"}
}

func (f *responsesFace) whole(r *result) any { return f.response(r) }

// next returns the sequence_number of the next event.
func (f *responsesFace) next() int {
	f.number++
	return f.number - 1
}

// lifecycle is an event that carries the whole object.
func (f *responsesFace) lifecycle(out *sse, name string, r *result) {
	out.event(name, struct {
		Response *response `json:"response"`
		Number   int       `json:"sequence_number"`
		Type     string    `json:"type"`
	}{f.response(r), f.next(), name})
}

func (f *responsesFace) item(out *sse, name string, item outputMessage) {
	out.event(name, struct {
		Item   outputMessage `json:"item"`
		Index  int           `json:"output_index"`
		Number int           `json:"sequence_number"`
		Type   string        `json:"type"`
	}{item, 0, f.next(), name})
}

func (f *responsesFace) part(out *sse, name string, r *result, part outputText) {
	out.event(name, struct {
		ContentIndex int        `json:"content_index"`
		ItemID       string     `json:"item_id"`
		OutputIndex  int        `json:"output_index"`
		Part         outputText `json:"part"`
		Number       int        `json:"sequence_number"`
		Type         string     `json:"type"`
	}{0, r.id.with(""), 0, part, f.next(), name})
}

func (f *responsesFace) open(out *sse, r *result) {
	f.lifecycle(out, "response.created", r)
	f.lifecycle(out, "response.in_progress", r)
}

func (f *responsesFace) first(out *sse, r *result) {
	f.item(out, "response.output_item.added", outputMessage{
		ID: r.id.with(""), Content: []outputText{}, Role: "assistant", Status: "in_progress", Type: "message",
	})
	f.part(out, "response.content_part.added", r, outputText{
		Annotations: []null{}, Type: "output_text", Logprobs: []null{},
	})
}

func (f *responsesFace) tokens(out *sse, r *result, text string) {
	const name = "response.output_text.delta"
	out.event(name, struct {
		ContentIndex int    `json:"content_index"`
		Delta        string `json:"delta"`
		ItemID       string `json:"item_id"`
		Logprobs     []null `json:"logprobs"`
		OutputIndex  int    `json:"output_index"`
		Number       int    `json:"sequence_number"`
		Type         string `json:"type"`
	}{0, text, r.id.with(""), []null{}, 0, f.next(), name})
}

func (f *responsesFace) last(out *sse, r *result) {
	const name = "response.output_text.done"
	out.event(name, struct {
		ContentIndex int    `json:"content_index"`
		ItemID       string `json:"item_id"`
		Logprobs     []null `json:"logprobs"`
		OutputIndex  int    `json:"output_index"`
		Number       int    `json:"sequence_number"`
		Text         string `json:"text"`
		Type         string `json:"type"`
	}{0, r.id.with(""), []null{}, 0, f.next(), r.text.text(r.generated), name})
	f.part(out, "response.content_part.done", r, f.text(r))
	done := f.message(r.id.with(""), r)
	done.Summary = []null{}
	f.item(out, "response.output_item.done", done)
	f.lifecycle(out, "response.completed", r)
}

// fail sends the API's error event. What vLLM sends when an engine dies under
// a stream of this kind has not been seen.
func (f *responsesFace) fail(out *sse, e *apiError) {
	out.event("error", struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Param   null   `json:"param"`
		Number  int    `json:"sequence_number"`
		Type    string `json:"type"`
	}{e.kind, e.message, null{}, f.next(), "error"})
}
