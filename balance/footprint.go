package balance

import "slices"

// sizes learns how large prompts and answers are.
type sizes struct {
	// Sums over the last turns or so of prompts, as counted and as estimated: one
	// that is estimated far too low, such as by a body that only refers to what
	// came before, does not outweigh the others.
	counted, estimated float64

	answer float64 // running mean
	seen   [32]int // cached tokens of conversations' first turns, a ring of n so far
	n      int
	prefix int // that new conversations find cached
	turns  int // that were served
}

// knownAfter is how many turns have to tell of their sizes.
const knownAfter = 4

// warmAfter is how many turns a replica has served when it has what conversations
// have in common.
const warmAfter = 8

// firstAnswer is the size of an answer until one has been measured.
const firstAnswer = 256

// shared is the number of tokens that all conversations have in common, as far
// as is known: they take up room once.
func (z *sizes) shared() int { return z.prefix }

// prompt is the size of a turn's prompt: the last one's and what came since.
func (z *sizes) prompt(c *conversation, t *Turn) int {
	scale := 1.0
	if z.estimated > 0 {
		scale = z.counted / z.estimated
	}
	if c.prompt == 0 {
		return int(scale * float64(t.PromptTokens))
	}
	if t.PromptTokens == 0 {
		return c.prompt + c.answer
	}
	grown := int(scale * float64(t.PromptTokens-c.estimate))
	if grown < 0 {
		return int(scale * float64(t.PromptTokens)) // rewritten
	}
	return c.prompt + grown
}

// footprint is the number of tokens that a turn will take up beyond what all
// have in common.
func (z *sizes) footprint(c *conversation, t *Turn) int {
	answer := firstAnswer
	if z.answer > 0 {
		answer = int(2 * z.answer)
	}
	if t.MaxTokens > 0 {
		answer = min(answer, t.MaxTokens)
	}
	if z.turns < knownAfter {
		// Half of it, for what may be shared: better to let a few too many go than
		// to hold them back for nothing.
		return z.prompt(c, t)/2 + answer
	}
	return max(leastFootprint, z.unshared(z.prompt(c, t))+answer)
}

// beside is the number of tokens that a turn takes up beyond what another one of
// its conversation does that goes on: all but the history that they share.
func (z *sizes) beside(c *conversation, t *Turn) int {
	if c.prompt == 0 {
		return max(0, t.footprint-z.unshared(z.prompt(c, t)))
	}
	return max(0, t.footprint-z.kept(c))
}

// unshared is what is left of so many tokens without those that all have in common.
func (z *sizes) unshared(prompt int) int { return max(0, prompt-z.prefix) }

// kept is what a conversation's last turn has left. It takes up something, so
// that no number of them fits.
func (z *sizes) kept(c *conversation) int {
	return max(leastFootprint, z.unshared(c.prompt)+c.answer)
}

const leastFootprint = 64

// learn takes in a turn that was served.
func (z *sizes) learn(c *conversation, t *Turn, s Served) {
	if t.PromptTokens > 0 && s.Prompt > 0 {
		z.counted = 0.95*z.counted + float64(s.Prompt)
		z.estimated = 0.95*z.estimated + float64(t.PromptTokens)
	}
	if z.answer == 0 {
		z.answer = float64(s.Completion)
	}
	z.answer += 0.05 * (float64(s.Completion) - z.answer)
	z.turns++
	// A conversation that has a home is not new: what it finds may be its own. A new
	// one that finds nothing may be the first on its replica, and tells nothing.
	if c.prompt == 0 && t.Home == nil && s.Measured && (s.Cached > 0 || t.room.served >= warmAfter) {
		z.seen[z.n%len(z.seen)] = s.Cached
		z.n++
		seen := slices.Sorted(slices.Values(z.seen[:min(z.n, len(z.seen))]))
		// Not the least: there may be other prompts as well.
		z.prefix = seen[len(seen)/4]
	}
	c.prompt, c.answer, c.estimate = s.Prompt, s.Completion, t.PromptTokens
}
