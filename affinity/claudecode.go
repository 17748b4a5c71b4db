package affinity

import (
	"encoding/json"
	"strings"
)

const (
	claudeCodeHeader = "header X-Claude-Code-Session-Id"
	claudeCodeBody   = "body metadata.user_id"
)

// ClaudeCodeHeader finds the session of Claude Code in its headers:
// X-Claude-Code-Session-Id (sent since 2.1.86, kept by --continue) is shared
// by all sub-agents of a session, X-Claude-Code-Agent-Id (since 2.1.139) is
// one per sub-agent and absent on the main agent. A sub-agent has a prompt of
// its own and so is a conversation of its own, whose parent is the agent that
// X-Claude-Code-Parent-Agent-Id names, or the main agent.
//
// Source: code.claude.com, LLM gateway protocol; anthropics/claude-code#40119.
func ClaudeCodeHeader(r *Request) Key {
	session := headerValue(r.Header, "X-Claude-Code-Session-Id")
	if session == "" {
		return Key{}
	}
	agent := headerValue(r.Header, "X-Claude-Code-Agent-Id")
	if agent == "" {
		return Key{Session: session, Source: claudeCodeHeader}
	}
	k := Key{Session: session + "/" + agent, Parent: session, Source: claudeCodeHeader}
	if parent := headerValue(r.Header, "X-Claude-Code-Parent-Agent-Id"); parent != "" {
		k.Parent = session + "/" + parent
	}
	return k
}

// ClaudeCodeBody finds the session part of Claude Code's metadata.user_id:
// since 2.1.78 a string that holds JSON with a session_id, before that
// user_..._account_..._session_<id>. The rest of the value is one per user and
// device and never a key.
//
// Source: ding113/claude-code-hub#939, tingly-dev/tingly-box#535.
func ClaudeCodeBody(r *Request) Key {
	id := r.Field("metadata.user_id")
	if id == "" {
		return Key{}
	}
	if strings.HasPrefix(strings.TrimLeft(id, " \t\r\n"), "{") {
		var v struct {
			SessionID string `json:"session_id"`
		}
		if json.Unmarshal([]byte(id), &v) != nil {
			return Key{}
		}
		return found(v.SessionID, claudeCodeBody)
	}
	const mark = "_session_"
	i := strings.LastIndex(id, mark)
	if i < 0 {
		return Key{}
	}
	session := id[i+len(mark):]
	if strings.Trim(session, "0123456789abcdefABCDEF-") != "" {
		return Key{}
	}
	return found(session, claudeCodeBody)
}
