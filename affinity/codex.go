package affinity

import "strings"

// CodexThread finds the thread of Codex CLI: thread-id (since 0.131.0), or
// thread_id (0.130). It is one per conversation. Sub-agents have threads of
// their own under one session-id, which is the parent unless
// X-Codex-Parent-Thread-Id names one.
//
// Of the two names nginx drops the one with the underscore by default
// (underscores_in_headers).
//
// Source: openai/codex codex-rs/codex-api, requests/headers.rs and
// endpoint/responses.rs; pydantic/pydantic-ai#7769.
func CodexThread(r *Request) Key {
	thread, source := headerValue(r.Header, "Thread-Id"), "header Thread-Id"
	if thread == "" {
		thread, source = headerValue(r.Header, "Thread_id"), "header Thread_id"
	}
	return codexKey(r, thread, source)
}

// CodexWindow finds the thread in X-Codex-Window-Id, which is the thread's id, a
// colon and a number that each compaction counts up. Unlike thread-id it gets
// through proxies that pass on x- headers only, as LiteLLM does.
//
// Source: as [CodexThread].
func CodexWindow(r *Request) Key {
	id := headerValue(r.Header, "X-Codex-Window-Id")
	if i := strings.LastIndexByte(id, ':'); i >= 0 {
		id = id[:i]
	}
	return codexKey(r, id, "header X-Codex-Window-Id")
}

// CodexSession finds the session of Codex CLI: session-id (since 0.131.0) or
// session_id (up to 0.130), which Pi and the OpenAI providers of Cline and Roo
// Code send as well. It covers the whole tree of a session's sub-agents, and so
// comes after [CodexThread].
//
// Source: as [CodexThread]; Lingtai-AI/lingtai-kernel#435.
func CodexSession(r *Request) Key {
	if session := headerValue(r.Header, "Session-Id"); session != "" {
		return found(session, "header Session-Id")
	}
	return found(headerValue(r.Header, "Session_id"), "header Session_id")
}

// codexKey is the key of a thread, with the one it was started from.
func codexKey(r *Request, thread, source string) Key {
	k := found(thread, source)
	if thread == "" {
		return k
	}
	if parent := headerValue(r.Header, "X-Codex-Parent-Thread-Id"); parent != "" {
		return k.withParent(parent)
	}
	return k.withParent(CodexSession(r).Session)
}
