package bench

import "time"

// Conversation is the script of one conversation: what its client sends, and
// when. Sizes are in tokens, without the few that the engine's chat template
// puts around each message.
type Conversation struct {
	// System is the system prompt; one of no tokens is left out.
	System Text
	Turns  []Turn
}

// Text is a text by name: texts of the same name are the same, as far as the
// shorter one goes.
type Text struct {
	Name   string
	Tokens int
}

// Turn is one request and the answer to it. Its prompt is the conversation so
// far, cut by Cut, and a new message.
type Turn struct {
	// Pause is the time from the end of the turn before, its sub-agents
	// included, to the sending of this one. The first turn's is before the
	// conversation, a sub-agent's from the answer that starts it.
	Pause time.Duration
	// Cut is how many tokens of the history are taken off its end before the
	// new message is added, as when a client goes back or rewrites its context.
	// [CutAll] leaves nothing but the system prompt.
	Cut int
	// New is the size of the new message, whose text is the conversation's own.
	New int
	// Answer is the limit of the answer.
	Answer int
	// Back is what becomes of the answer in the history.
	Back Back
	// Extra is the number of further requests that are sent at the same time,
	// with the same history and messages of their own. They leave nothing in
	// the history.
	Extra int
	// Agents are sub-agents that the answer starts. They run at the same time,
	// and the next turn waits for all of them. Their turns count in the figures
	// as those of conversations of their own, but not in the sessions per hour
	// and the completion times.
	Agents []Conversation
	// Background is as Agents, but the next turn does not wait for them; the
	// conversation ends when they have ended, too.
	Background []Conversation
}

// Back is what a client sends back of an answer.
type Back int

const (
	// Whole sends the answer back as it came: its tokens are in the cache.
	Whole Back = iota
	// Nothing leaves it out, as when all of it is what the model thought.
	Nothing
	// Reworded sends back another text of the same size, so that nothing of the
	// answer is found in the cache: as when a client or a chat template
	// rewrites it, or its text has other tokens than the model chose.
	Reworded
)

// CutAll is the [Turn].Cut that takes off all of the history but the system
// prompt.
const CutAll = 1 << 30
