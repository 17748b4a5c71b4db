package affinity

// Source is one place that [Default] looks for a session key in.
type Source struct {
	// Client is who sends it, Since the first version that does, empty if that
	// is not known.
	Client, Since string
	// Where is the header's name or the field's path in the JSON body, with
	// others that are looked at in its stead; Body says which of the two it is.
	Where string
	Body  bool
	// Parent is where the parent of a sub-agent's conversation is found, empty if
	// nowhere.
	Parent string
	// Note is what there is to know about the value.
	Note string
	// Evidence is where the client was seen to send it.
	Evidence string
	// Key finds the key. It is nil for previous_response_id, which the router
	// looks up in what it remembers of the answers.
	Key KeyFunc
}

// Default returns the keys that are looked for when nothing else is
// configured: those of [Sources], in that order. All headers come before the
// body, so that it is not read where a header names the conversation.
//
// What names a user, a device, a request or a trace is not among them:
// X-Request-Id, X-Correlation-Id, traceparent, user, safety_identifier, the rest
// of metadata.user_id and their like would put a user's conversations on one
// replica, or every turn on another.
func Default() KeyFunc {
	var keys []KeyFunc
	for _, s := range Sources() {
		if s.Key != nil {
			keys = append(keys, s.Key)
		}
	}
	return First(keys...)
}

// Sources returns the places that [Default] looks for a session key in, first
// to last. README.md beside this file is made from it.
func Sources() []Source {
	return []Source{
		{
			Client: "Claude Code", Since: "2.1.86; agents 2.1.139", Where: "X-Claude-Code-Session-Id with X-Claude-Code-Agent-Id",
			Parent: "X-Claude-Code-Parent-Agent-Id, else the main agent",
			Note:   "the session is shared by all sub-agents, so that session and agent are the key", Key: ClaudeCodeHeader,
			Evidence: "code.claude.com LLM gateway protocol; anthropics/claude-code#40119",
		},
		{
			Client: "Codex CLI", Since: "0.131.0; 0.130 with underscore", Where: "Thread-Id, Thread_id",
			Parent: "X-Codex-Parent-Thread-Id, else Session-Id", Note: "one per thread; a sub-agent has its own", Key: CodexThread,
			Evidence: "openai/codex codex-api; pydantic/pydantic-ai#7769",
		},
		{
			Client: "Codex CLI", Where: "X-Codex-Window-Id", Parent: "X-Codex-Parent-Thread-Id, else Session-Id",
			Note: "up to its last colon: behind it compactions are counted", Key: CodexWindow,
			Evidence: "openai/codex codex-api",
		},
		{
			Client: "Codex CLI, Pi, Cline and Roo Code (OpenAI providers)", Since: "Codex 0.131.0; before with underscore", Where: "Session-Id, Session_id",
			Note: "covers the sub-agents of a session", Key: CodexSession,
			Evidence: "openai/codex codex-api; Lingtai-AI/lingtai-kernel#435; earendil-works/pi#9437",
		},
		{
			Client: "NVIDIA Dynamo", Since: "1.4.0", Where: "X-Dynamo-Session-Id", Parent: "X-Dynamo-Parent-Session-Id", Key: Dynamo,
			Note: "one per chain of reasoning", Evidence: "docs.nvidia.com/dynamo",
		},
		{
			Client: "OpenCode (own providers), Cline (opencode-go)", Where: "X-Opencode-Session", Key: Header("X-Opencode-Session"),
			Evidence: "anomalyco/opencode session/llm/request.ts",
		},
		{
			Client: "OpenCode, Pi", Where: "X-Session-Affinity", Parent: "X-Parent-Session-Id", Note: "a child session has its own", Key: OpenCode,
			Evidence: "anomalyco/opencode session/llm/request.ts",
		},
		{Client: "Cline (providers cline, cline-pass)", Where: "X-Task-Id", Key: Header("X-Task-Id"), Evidence: "cline request-headers.ts"},
		{Client: "Roo Code (provider roo)", Where: "X-Roo-Task-Id", Key: Header("X-Roo-Task-Id"), Evidence: "roo-code api/providers/roo.ts"},
		{Client: "Kilo Code", Where: "X-Kilocode-Taskid", Note: "not confirmed", Key: Header("X-KiloCode-TaskId"), Evidence: "third parties"},
		{
			Client: "Open WebUI", Where: "X-Openwebui-Chat-Id", Note: "with ENABLE_FORWARD_USER_INFO_HEADERS",
			Key: Header("X-OpenWebUI-Chat-Id"), Evidence: "open-webui discussion 23384",
		},
		{Client: "LiteLLM", Where: "X-Litellm-Session-Id", Key: Header("X-Litellm-Session-Id"), Evidence: "LiteLLM configuration"},
		{Client: "AIBrix", Where: "X-Aibrix-Session-Key", Key: Header("X-Aibrix-Session-Key"), Evidence: "aibrix pkg/constants/gateway.go"},
		{Client: "SGLang gateway", Where: "X-Smg-Routing-Key", Key: Header("X-Smg-Routing-Key"), Evidence: "lightseekorg/smg model_gateway; SGLang 0.5.23"},
		{Client: "xAI clients", Where: "X-Grok-Conv-Id", Key: Header("X-Grok-Conv-Id"), Evidence: "NousResearch/hermes-agent#5252"},
		{
			Client: "LibreChat", Where: "X-Conversation-Id", Note: "where its operator configures it",
			Key: Header("X-Conversation-Id"), Evidence: "librechat.ai custom endpoints",
		},
		{
			Client: "OpenCode, OpenRouter, vLLM, anybody", Since: "OpenCode June 2026; vLLM 0.28.0", Where: "X-Session-Id", Parent: "X-Parent-Session-Id",
			Key: SessionID, Evidence: "anomalyco/opencode#31511; vLLM generate/base/serving.py",
		},
		{Client: "vLLM, OpenRouter", Since: "vLLM 0.28.0", Where: "session_id", Body: true, Key: JSONPath("session_id"), Evidence: "vLLM openai/*/protocol.py; BerriAI/litellm#39153"},
		{Client: "SGLang, vLLM router", Where: "session_params.session_id", Body: true, Key: JSONPath("session_params.session_id"), Evidence: "vllm-router 0.1.17 hash_key.rs"},
		{Client: "vLLM", Since: "0.28.0", Where: "vllm_xargs.session_id", Body: true, Key: JSONPath("vllm_xargs.session_id"), Evidence: "vLLM generate/base/serving.py"},
		{
			Client: "LiteLLM, Cline (LiteLLM provider)", Where: "litellm_session_id", Body: true, Key: JSONPath("litellm_session_id"),
			Note: "Cline's changes with its configuration", Evidence: "LiteLLM configuration; cline/cline#4998",
		},
		{Client: "LiteLLM", Where: "metadata.session_id", Body: true, Key: JSONPath("metadata.session_id"), Evidence: "LiteLLM configuration"},
		{Client: "Qwen Code (DashScope)", Where: "metadata.sessionId", Body: true, Key: JSONPath("metadata.sessionId"), Evidence: "qwen-code provider/dashscope.ts"},
		{Client: "Cursor (own key)", Where: "metadata.cursorConversationId", Body: true, Note: "not confirmed", Key: JSONPath("metadata.cursorConversationId"), Evidence: "third parties"},
		{
			Client: "Claude Code", Since: "2.1.78 as JSON; before behind _session_", Where: "metadata.user_id", Body: true,
			Note: "its session part alone", Key: ClaudeCodeBody, Evidence: "ding113/claude-code-hub#939",
		},
		{Client: "OpenAI Responses", Where: "conversation, conversation.id", Body: true, Key: Conversation, Evidence: "OpenAI API reference"},
		{
			Client: "OpenAI Responses", Where: "previous_response_id", Body: true,
			Note:     "the conversation that the response belongs to, as the router remembers it (warmroute.WithResponseChains)",
			Evidence: "OpenAI API reference",
		},
		{
			Client: "OpenAI, Codex CLI", Where: "prompt_cache_key", Body: true, Key: PromptCacheKey,
			Note: "the caller's choice, and may be shared by many conversations", Evidence: "OpenAI API reference",
		},
	}
}
