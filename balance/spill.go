package balance

// Spills reports whether a conversation's home is too busy for it to stay: it
// has more requests of this process in flight than threshold. It judges the
// home alone: a rule that compares the fleet lets one hot conversation turn
// affinity off for all others (vllm-project/router#238).
//
// A threshold is a number of requests, 0 or more; with exactly that many in
// flight the conversation still goes home.
func Spills(home *Candidate, threshold int) bool { return home.InFlight > threshold }

// SpillPays reports whether going to target instead relieves anything: it has
// fewer requests on it than the home, [Candidate.Load]. Where it does not the
// request stays, since it would give up its cached prefix to wait as long.
func SpillPays(home, target *Candidate) bool { return target.Load() < home.Load() }
