// Package family finds out which requests begin the same: it hashes what an
// engine's prompt will begin with, the tools and the system prompt, out of the
// JSON body of a request of any of the served APIs.
package family

import (
	"bytes"

	"github.com/warmroute/warmroute/balance"
)

// Limits of a beginning, so that the work on any body is bounded.
const (
	// maxBody is how much of a body is looked through.
	maxBody = 1 << 20
	// maxTexts is how many texts a system prompt may be in.
	maxTexts = 32
)

// billingHeader begins a line that Claude Code (since 2.1.69) puts before its
// system prompt and that differs in every request. vLLM takes it out, on
// /v1/messages since 0.18.0 and of chat completions since 0.32.0.
const billingHeader = "x-anthropic-billing-header:"

// Prefix returns the hashes of what the prompt of a request begins with. These
// are, in this order,
//
//   - tools, as they are written,
//   - the texts of system (Anthropic's messages), or instructions (responses),
//   - the texts of the messages or input items with the role system or developer
//     that come before all others,
//   - prompt (completions), up to where it is cut,
//
// without Claude Code's billing line. Tools are first as in Anthropic's API; where
// a chat template has the system prompt first, as Qwen's do, prompts with the same
// tools and different system prompts share less than their hashes say, and those
// with different tools more. Engines share blocks within a cache_salt and a LoRA
// adapter only: the salt goes into all hashes, as does domain, which stands for the
// adapter.
//
// The body may be cut off: what is missing at its end is not in the hashes then,
// and neither is what is more than 1 MiB from its start. Texts are compared as they
// are escaped: clients that escape one text in different ways are not found to
// share it. A beginning of less than [balance.FirstPrefixStep] bytes, or
// a body that is no JSON object, has no hashes. The grammar of what is passed over
// is not checked; of several members with one key the last counts.
//
// It allocates nothing, and keeps nothing of body.
func Prefix(body []byte, domain uint64, seed *Seed) balance.Prefix {
	var b beginning
	b.read(body[:min(len(body), maxBody)])
	c := chain{seed: seed, hash: seed.start(domain)}
	if len(b.salt) > 0 {
		c.hash = seed.chain(c.hash, b.salt)
	}
	c.add(tools, b.tools)
	for _, group := range [...]*texts{&b.system, &b.messages, &b.prompt} {
		for _, part := range group.list[:group.n] {
			c.add(text, part)
		}
		if group.cut {
			c.cut = true
			break
		}
	}
	// Where a prompt without messages stops being what others share nobody knows.
	c.cut = c.cut || b.cut || b.prompt.n > 0
	return c.end()
}

// kind is of what is chained, so that a text does not pass for tools.
type kind uint64

const (
	tools kind = 1 + iota
	text
)

// chain hashes a beginning as it is put together.
type chain struct {
	seed   *Seed
	hash   uint64
	prefix balance.Prefix
	size   int
	step   int  // the next hash to be made
	cut    bool // what follows is not known
}

// add adds a part of the beginning. What is beyond the largest step is left out.
func (c *chain) add(k kind, part []byte) {
	if len(part) == 0 || c.cut {
		return
	}
	c.hash ^= uint64(k)
	for len(part) > 0 {
		if c.step == balance.PrefixSteps-1 {
			c.cut = true
			return
		}
		most := balance.FirstPrefixStep<<c.step - c.size
		piece := part[:min(len(part), most)]
		part = part[len(piece):]
		c.hash = c.seed.chain(c.hash, piece)
		c.size += len(piece)
		if len(piece) == most {
			c.prefix.Hashes[c.step] = known(c.hash)
			c.step++
		}
	}
}

func (c *chain) end() balance.Prefix {
	if c.step > 0 && !c.cut {
		c.prefix.Hashes[balance.PrefixSteps-1] = known(c.seed.chain(c.hash, nil))
		c.prefix.Bytes = c.size
	}
	return c.prefix
}

// known is a hash that is not 0, which stands for none.
func known(hash uint64) uint64 { return max(hash, 1) }

// withoutBilling is a text, still escaped, without a billing line before it.
func withoutBilling(text []byte) []byte {
	if !bytes.HasPrefix(text, []byte(billingHeader)) {
		return text
	}
	if i := bytes.Index(text, []byte(`\n`)); i >= 0 {
		return text[i+2:]
	}
	return nil
}
