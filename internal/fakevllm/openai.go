package fakevllm

// openaiOptions are the options that chat completions and completions share.
type openaiOptions struct {
	Stream        bool     `json:"stream"`
	N             maybeInt `json:"n"`
	CacheSalt     *string  `json:"cache_salt"`
	StreamOptions *struct {
		IncludeUsage    bool `json:"include_usage"`
		ContinuousUsage bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
}

// call starts a call with the options, or refuses them.
func (o *openaiOptions) call(s *Server, model string) (*call, *apiError) {
	if o.N.set && o.N.value != 1 {
		return nil, bad("n", "n=%d is not simulated.", o.N.value)
	}
	if o.StreamOptions != nil && !o.Stream {
		e := invalid("", "Value error, Stream options can only be defined when `stream=True`. (parameter=stream_options)")
		e.param = "stream_options"
		return nil, e
	}
	prompt, err := s.promptFor(o.CacheSalt)
	if err != nil {
		return nil, err
	}
	return &call{model: model, stream: o.Stream, prompt: prompt}, nil
}

// usage tells whether a stream ends with a usage chunk, and whether its other
// chunks have a usage too.
func (o *openaiOptions) usage() (atEnd, running bool) {
	so := o.StreamOptions
	return so != nil && so.IncludeUsage, so != nil && so.IncludeUsage && so.ContinuousUsage
}

// promptFor returns the empty prompt of a request with this cache_salt.
func (s *Server) promptFor(salt *string) (*tokenizer, *apiError) {
	if salt == nil {
		return newTokenizer(s.cfg.BlockSize, ""), nil
	}
	if *salt == "" {
		e := invalid("", "Value error, Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)")
		e.param = "cache_salt"
		return nil, e
	}
	return newTokenizer(s.cfg.BlockSize, *salt), nil
}

// null is a field that is always sent and never set.
type null struct{}

// MarshalJSON implements [json.Marshaler].
func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// openaiUsage is the usage of a stream: what is not set is left out.
type openaiUsage struct {
	PromptTokens     int            `json:"prompt_tokens"`
	TotalTokens      int            `json:"total_tokens"`
	CompletionTokens int            `json:"completion_tokens"`
	Details          *cachedDetails `json:"prompt_tokens_details,omitempty"`
}

// wholeUsage is the usage of an answer that is not streamed: all is shown.
type wholeUsage struct {
	PromptTokens     int           `json:"prompt_tokens"`
	TotalTokens      int           `json:"total_tokens"`
	CompletionTokens int           `json:"completion_tokens"`
	Details          *wholeDetails `json:"prompt_tokens_details"`
}

type cachedDetails struct {
	Cached  int  `json:"cached_tokens"`
	Created *int `json:"created_cache_tokens,omitempty"`
}

type wholeDetails struct {
	Cached     int  `json:"cached_tokens"`
	Created    *int `json:"created_cache_tokens"`
	Multimodal null `json:"multimodal_tokens"`
}

// running is the usage of a chunk in the middle of a stream, without details.
func (r *result) running() *openaiUsage {
	return &openaiUsage{PromptTokens: r.prompt, TotalTokens: r.prompt + r.generated, CompletionTokens: r.generated}
}

// usage is the usage that ends a stream.
func (r *result) usage(created *int) *openaiUsage {
	u := r.running()
	if r.details {
		u.Details = &cachedDetails{r.cached, created}
	}
	return u
}

// wholeUsage is the usage of an answer that is not streamed.
func (r *result) wholeUsage(created *int) wholeUsage {
	u := wholeUsage{PromptTokens: r.prompt, TotalTokens: r.prompt + r.generated, CompletionTokens: r.generated}
	if r.details {
		u.Details = &wholeDetails{Cached: r.cached, Created: created}
	}
	return u
}
