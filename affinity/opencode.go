package affinity

// OpenCode finds the session of OpenCode in X-Session-Affinity, which it sends
// to all providers but its own. A child session has an id of its own, and its
// parent's in X-Parent-Session-Id.
//
// Source: anomalyco/opencode packages/opencode/src/session/llm/request.ts.
func OpenCode(r *Request) Key {
	return childKey(r, "X-Session-Affinity", "header X-Session-Affinity", "X-Parent-Session-Id")
}

// SessionID finds X-Session-Id: OpenCode's since June 2026, OpenRouter's, that
// of vLLM since 0.28.0, and what clients of one's own are best given. With it
// X-Parent-Session-Id names the parent.
//
// Source: anomalyco/opencode#31511; vLLM 0.28.0
// entrypoints/generate/base/serving.py, _get_session_id.
func SessionID(r *Request) Key {
	return childKey(r, "X-Session-Id", "header X-Session-Id", "X-Parent-Session-Id")
}

// Dynamo finds X-Dynamo-Session-Id, one per chain of reasoning, and its parent
// in X-Dynamo-Parent-Session-Id.
//
// Source: docs.nvidia.com/dynamo, identify agent sessions (1.4.0).
func Dynamo(r *Request) Key {
	return childKey(r, "X-Dynamo-Session-Id", "header X-Dynamo-Session-Id", "X-Dynamo-Parent-Session-Id")
}

// childKey is the key in one header, with its parent in another.
func childKey(r *Request, header, source, parent string) Key {
	k := found(headerValue(r.Header, header), source)
	if k.Session == "" {
		return k
	}
	return k.withParent(headerValue(r.Header, parent))
}
