package affinity

// Conversation finds the conversation of the OpenAI Responses API in the body:
// a string, or an object with an id.
//
// Source: OpenAI API reference, responses.
func Conversation(r *Request) Key {
	if id := r.Field("conversation"); id != "" {
		return found(id, "body conversation")
	}
	return found(r.Field("conversation.id"), "body conversation.id")
}

// PromptCacheKeySource is the [Key.Source] of [PromptCacheKey].
const PromptCacheKeySource = "body prompt_cache_key"

// PromptCacheKey finds prompt_cache_key in the body, which is the caller's choice
// and may be shared by many conversations. So all else comes before it, the
// conversation of previous_response_id as well: a router has that one be the
// request's if it knows the response.
//
// Codex CLI sends its thread there, and its session, shared by sub-agents, since
// commit 4aa950d.
//
// Source: OpenAI API reference; pydantic/pydantic-ai#7769.
func PromptCacheKey(r *Request) Key { return found(r.Field("prompt_cache_key"), PromptCacheKeySource) }
