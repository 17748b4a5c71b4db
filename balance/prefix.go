package balance

import "time"

// Sizes of a [Prefix].
const (
	// PrefixSteps is how many beginnings of a prompt a [Prefix] can have hashes
	// of.
	PrefixSteps = 8
	// FirstPrefixStep is the size of the first of them in bytes. Each is twice as
	// large as the one before, but for the last.
	FirstPrefixStep = 1 << 10
	// MaxPrefixBytes is how much of a prompt's beginning is hashed.
	MaxPrefixBytes = FirstPrefixStep << (PrefixSteps - 2)

	// bytesPerToken is a rough size of a token of text, for an estimate of what a
	// shared beginning saves.
	bytesPerToken = 4
)

// Prefix is what a prompt begins with, its tools and system prompt, by hashes of
// its first 1, 2, 4, 8, 16, 32 and 64 KiB, each chained to the one before: two
// prompts that begin the same have the same hashes up to where they part. The
// last hash is that of the whole beginning where that is no longer than 64 KiB.
// A hash of 0 is one that there is none of; the zero Prefix is of no prompt that
// anything is known of.
type Prefix struct {
	Hashes [PrefixSteps]uint64
	// Bytes is the size of the whole beginning, 0 if the last hash is 0.
	Bytes int
}

// Known reports whether there is a hash to go by.
func (p *Prefix) Known() bool { return p.Hashes[0] != 0 }

// Tokens is a rough size of the i-th beginning in tokens.
func (p *Prefix) Tokens(i int) int {
	if i == PrefixSteps-1 {
		return p.Bytes / bytesPerToken
	}
	return FirstPrefixStep << i / bytesPerToken
}

// PrefixLog is what one replica has lately been sent, by the beginnings of its
// prompts. Its size is fixed, some 24 KiB: of more beginnings than it has room for those
// that were not sent for longest are forgotten. It is not safe for concurrent
// use. The zero PrefixLog is empty and ready; the times that it is given should
// not go back.
type PrefixLog struct {
	sets  [logSets][logWays]loggedPrefix
	total fading
}

const (
	logSets = 128
	logWays = 8
)

type loggedPrefix struct {
	hash uint64
	sent fading
}

// PrefixHalfLife is the time after which a conversation counts half in a
// [PrefixLog]: about as long as a user is active, as [Candidate].Sessions has it.
const PrefixHalfLife = 5 * time.Minute

// Add notes that a conversation was placed. One with a Prefix that is not known
// counts in [PrefixLog.Total] alone.
func (l *PrefixLog) Add(p *Prefix, now time.Time) {
	at := now.UnixNano()
	l.total.add(at)
	for _, h := range p.Hashes {
		if h != 0 {
			l.entry(h).sent.add(at)
		}
	}
}

// Remove takes back an [PrefixLog.Add] of that time: the conversation was not
// placed after all. What was sent before it counts as last sent then.
func (l *PrefixLog) Remove(p *Prefix, added time.Time) {
	at := added.UnixNano()
	l.total.remove(at)
	for _, h := range p.Hashes {
		if e := l.find(h); e != nil {
			if e.sent.remove(at); e.sent.count == 0 {
				*e = loggedPrefix{}
			}
		}
	}
}

// entry finds a hash, or makes room for it in place of the one of its set that
// was not sent for longest.
func (l *PrefixLog) entry(hash uint64) *loggedPrefix {
	set := &l.sets[hash%logSets]
	oldest := &set[0]
	for i := range set {
		e := &set[i]
		if e.hash == hash {
			return e
		}
		if e.sent.at < oldest.sent.at {
			oldest = e
		}
	}
	*oldest = loggedPrefix{hash: hash}
	return oldest
}

func (l *PrefixLog) find(hash uint64) *loggedPrefix {
	if hash == 0 {
		return nil
	}
	set := &l.sets[hash%logSets]
	for i := range set {
		if set[i].hash == hash {
			return &set[i]
		}
	}
	return nil
}

// Longest returns which of the prompt's beginnings is the longest that was sent
// here, and how long ago it was last sent; -1 if none was.
func (l *PrefixLog) Longest(p *Prefix, now time.Time) (step int, age time.Duration) {
	for i := PrefixSteps - 1; i >= 0; i-- {
		if e := l.find(p.Hashes[i]); e != nil {
			return i, time.Duration(max(0, now.UnixNano()-e.sent.at))
		}
	}
	return -1, 0
}

// Count is how many conversations with that beginning were placed here lately,
// each counting half after [PrefixHalfLife].
func (l *PrefixLog) Count(p *Prefix, step int, now time.Time) float64 {
	if e := l.find(p.Hashes[step]); e != nil {
		return e.sent.value(now.UnixNano())
	}
	return 0
}

// Total is Count of all conversations, whatever they began with.
func (l *PrefixLog) Total(now time.Time) float64 { return l.total.value(now.UnixNano()) }

// Forget empties the log: what was sent is in no cache any more.
func (l *PrefixLog) Forget() { *l = PrefixLog{} }
