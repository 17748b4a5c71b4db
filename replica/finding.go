package replica

import "time"

// Finding is what a watcher beside the requests makes of a replica: of a probe of
// its endpoint, or of what is said of the GPUs it runs on. It comes on top of
// what requests show, and of an operator's drain, and overrides neither.
type Finding struct {
	// State is Up, which is no finding; Suspect; Draining, of the watcher's own
	// accord, or Down.
	State State
	// Source says which watcher it was, such as "dcgm"; Reason, in a few words that
	// begin with the source, what it saw.
	Source, Reason string
	Since          time.Time
}

// Find sets what is found of the replica. The zero Finding, and any other whose
// State is Up, takes back what was.
func (r *Replica) Find(f Finding) {
	switch f.State {
	case Suspect, Draining, Down:
		r.finding.Store(&f)
	default:
		r.finding.Store(nil)
	}
}

// Finding returns what was last found of the replica; its State is Up if nothing
// was.
func (r *Replica) Finding() Finding {
	if f := r.finding.Load(); f != nil {
		return *f
	}
	return Finding{State: Up}
}

// Found reports whether the replica was found to be in a state, without regard to
// what else is known of it. Up stands for no finding.
func (r *Replica) Found(s State) bool {
	f := r.finding.Load()
	if f == nil {
		return s == Up
	}
	return f.State == s
}
