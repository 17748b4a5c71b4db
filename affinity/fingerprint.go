package affinity

import (
	"bytes"
	"crypto/sha256"
	"sync"

	"github.com/warmroute/warmroute/internal/jsonspan"
)

// MaxFingerprintText is how much text, in bytes after decoding, [Fingerprint]
// reads of the system prompt and as much of the first message of the user.
const MaxFingerprintText = 256 << 10

// MinFingerprintPrompt is how much of the prompt of a text completion is the
// fingerprint, in bytes as it stands in the body. A prompt that is not longer
// has none.
const MinFingerprintPrompt = 1 << 10

// Fingerprint names a conversation by what it began with, for clients that send
// no key at all: a SHA-256 of the system prompt and the first message of the
// user that has text. It goes last:
//
//	affinity.First(affinity.Default(), affinity.Fingerprint)
//
// Two conversations that begin with the same words are one to it. That is
// harmless where people type, but where a program sends one template to many
// (an evaluation, a greeting, a load test) all of that goes to one replica, as
// far as the spill threshold lets it. So it is not among [Default].
//
// It reads chat completions, messages and responses: the texts of system,
// instructions and the system and developer messages before the first user's,
// whether they are strings or blocks; images and the like are left out. What
// Claude Code changes from turn to turn is dropped: a line at the beginning of a
// text that says x-anthropic-billing-header, and <system-reminder> blocks. Of
// a text completion it is the prompt's first [MinFingerprintPrompt] bytes. A
// conversation whose system prompt has the time in it has another fingerprint
// each turn.
//
// It asks for the whole body, up to the peek limit: if a body outgrows that, a
// system prompt behind its messages is not seen any more. It decodes
// [MaxFingerprintText] of each part at the most, into memory that is used again,
// and passes over the rest. The key does not depend on the process.
func Fingerprint(r *Request) Key {
	body := r.Body()
	if len(body) == 0 {
		return Key{}
	}
	w := fingerprints.Get().(*fingerprint)
	defer fingerprints.Put(w)
	w.begin()
	for key, value := range jsonspan.Members(body) {
		w.member(key, value)
	}
	return found(w.session(), "fingerprint")
}

var fingerprints = sync.Pool{New: func() any { return new(fingerprint) }}

// part is a place that something of the fingerprint is found in. Of several
// members with one key the last counts.
type part int

const (
	partSystem part = iota
	partInstructions
	partMessages
	partInput
	partPrompt
	parts
)

type fingerprint struct {
	sums  [parts][sha256.Size]byte // zero if there is nothing
	names [parts]bool              // it has what tells conversations apart
	// text is what is summed of a part: first the system's, then the user's.
	text []byte
	from int // where the text began that is being read
}

func (w *fingerprint) begin() {
	*w = fingerprint{text: w.text[:0]}
}

func (w *fingerprint) member(key, value []byte) {
	switch string(key) {
	case "system":
		w.system(partSystem, value)
	case "instructions":
		w.system(partInstructions, value)
	case "messages":
		w.conversation(partMessages, value)
	case "input":
		w.conversation(partInput, value)
	case "prompt":
		w.prompt(value)
	}
}

func (w *fingerprint) system(p part, value []byte) {
	w.text = w.text[:0]
	w.content(value)
	w.sum(p, false)
}

// conversation takes a list of messages, or the text of one of the user's.
func (w *fingerprint) conversation(p part, value []byte) {
	w.text = w.text[:0]
	if jsonspan.IsString(value) {
		w.turn()
		w.sum(p, w.content(value))
		return
	}
	for message := range jsonspan.Elements(value) {
		var role [16]byte
		var name, content []byte
		for key, value := range jsonspan.Members(message) {
			switch string(key) {
			case "role":
				name = jsonspan.AppendText(role[:0], value, len(role))
			case "content":
				content = value
			}
		}
		switch string(name) {
		case "system", "developer":
			w.content(content)
		case "user":
			before := len(w.text)
			w.turn()
			if w.content(content) {
				w.sum(p, true)
				return
			}
			w.text, w.from = w.text[:before], 0
		}
	}
	w.sum(p, false)
}

// turn begins the user's part of the text.
func (w *fingerprint) turn() {
	w.text = append(w.text, 0)
	w.from = len(w.text)
}

// content adds a string or the texts of blocks, and reports whether there are
// any. Blocks are put together as if they were one string: a client that marks a
// message for caching turns its string into a block.
func (w *fingerprint) content(value []byte) bool {
	before := len(w.text)
	if jsonspan.IsString(value) {
		w.add(value)
	}
	for block := range jsonspan.Elements(value) {
		var text []byte
		for key, value := range jsonspan.Members(block) {
			if string(key) == "text" {
				text = value
			}
		}
		w.add(text)
	}
	return len(w.text) > before
}

// add adds a text without what changes from turn to turn.
func (w *fingerprint) add(value []byte) {
	start := len(w.text)
	w.text = jsonspan.AppendText(w.text, value, max(0, MaxFingerprintText-(start-w.from)))
	text := w.text[start:]
	w.text = append(w.text[:start], bytes.TrimSpace(withoutReminders(withoutBilling(text)))...)
}

// withoutBilling drops the line by which Claude Code tells its version and a
// checksum that changes with every request (since 2.1.69). vLLM drops it as well:
// on /v1/messages since 0.18.0, on chat completions since 0.32.0.
func withoutBilling(text []byte) []byte {
	rest := bytes.TrimLeft(text, " \t\r\n")
	if !bytes.HasPrefix(rest, []byte("x-anthropic-billing-header:")) {
		return text
	}
	_, rest, _ = bytes.Cut(rest, []byte{'\n'})
	return rest
}

// withoutReminders drops what Claude Code puts before and behind the user's own
// words: CLAUDE.md, the date, changed files. One that does not end takes the
// rest with it. It writes over text.
func withoutReminders(text []byte) []byte {
	kept := text[:0]
	for {
		before, rest, found := bytes.Cut(text, []byte("<system-reminder>"))
		kept = append(kept, before...)
		if !found {
			return kept
		}
		if _, text, found = bytes.Cut(rest, []byte("</system-reminder>")); !found {
			return kept
		}
	}
}

// prompt takes the beginning of the prompt of a text completion, which grows
// with the conversation: a string, or a list of tokens.
func (w *fingerprint) prompt(value []byte) {
	w.sums[partPrompt], w.names[partPrompt] = [sha256.Size]byte{}, false
	if len(value) > MinFingerprintPrompt {
		w.text = append(w.text[:0], value[:MinFingerprintPrompt]...)
		w.sum(partPrompt, true)
	}
}

func (w *fingerprint) sum(p part, names bool) {
	w.sums[p], w.names[p], w.from = sha256.Sum256(w.text), names, 0
	if len(w.text) == 0 {
		w.sums[p] = [sha256.Size]byte{}
	}
}

// session is the session key, empty if nothing tells one conversation from
// another.
func (w *fingerprint) session() string {
	named := false
	w.text = w.text[:0]
	for p := range w.sums {
		named = named || w.names[p]
		w.text = append(w.text, w.sums[p][:]...)
	}
	if !named {
		return ""
	}
	return digest(sha256.Sum256(w.text), "fp-")
}
