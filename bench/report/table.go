// Package report holds the figures of a comparison of routing policies, and
// writes them as a text table, JSON, CSV and one self-contained HTML page.
//
// It measures nothing and knows nothing of routers or engines: package bench
// fills its tables in. The same table always gives the same bytes.
package report

// Table is one comparison: every policy at every step of a workload.
//
// Its methods only read it, so they may be called concurrently as long as
// nobody changes it.
type Table struct {
	Title    string   `json:"title"`
	Workload string   `json:"workload"` // one line: what was sent
	Engines  string   `json:"engines"`  // one line: cards, model, ranks, cache
	Seeds    []uint64 `json:"seeds"`
	// Rows has one row for each policy and number of sessions; of two for the
	// same, the charts show the last. They are shown in groups with the same
	// number of sessions, the groups and the rows of a group in the order in
	// which they first appear here.
	Rows []Row `json:"rows"`
	// Published are figures of others to put beside the rows with the same
	// number of sessions; most of their columns are missing. Those whose
	// number of sessions no row has are kept in JSON and CSV and not shown
	// elsewhere.
	Published []Row `json:"published,omitempty"`
}

// Row is one policy at one step. [NewRow] makes one that has no figures yet;
// in a Row literal every figure that is not given is 0 and counts as measured.
type Row struct {
	Policy   string `json:"policy"`
	Sessions int    `json:"sessions"` // conversations at a time
	Seconds  Value  `json:"seconds"`  // how long the step was measured

	SessionsPerHour Value `json:"sessions_per_hour"`        // conversations that ended in the step
	OutputPerMinute Value `json:"output_tokens_per_minute"` // generated tokens, of all replicas together

	TTFB       Distribution `json:"ttfb_seconds"`       // a turn's sending to its first streamed token
	Completion Distribution `json:"completion_seconds"` // a conversation's first sending to its last byte

	Busy        Value `json:"busy_replicas"` // replicas with a running request, mean over the step
	HitShare    Value `json:"hit_share"`     // of the tokens looked up in the prefix caches, those found, by the engines' counters; 0 to 1
	CachedShare Value `json:"cached_share"`  // of the prompt tokens of requests with a first token, those that were cached; 0 to 1
	Stayed      Value `json:"stayed_share"`  // of the later turns, those on the replica of the turn before; 0 to 1
	Preemptions Value `json:"preemptions"`   // requests the engines preempted in the step
	Fairness    Value `json:"fairness"`      // time per turn of the slowest conversation over the median one, of those that ended; 1 is fair

	Requests Value `json:"requests"` // sent in the step
	Failed   Value `json:"failed"`   // of the requests, those that got no whole answer

	// FirstFailure says what became of the first of the failed requests, "" where
	// none is known.
	FirstFailure string `json:"first_failure,omitempty"`

	// Load is the load of each replica over time, for the charts; of several
	// seeds, that of the first.
	Load []Load `json:"load,omitempty"`
}

// Distribution sums up a set of times in seconds.
type Distribution struct {
	Mean Value `json:"mean"`
	P50  Value `json:"p50"`
	P95  Value `json:"p95"`
	P99  Value `json:"p99"`
	Max  Value `json:"max"`
}

// Load is one replica's requests, sampled: element i of the slices is one
// moment. The moments are in order. A slice that is shorter than the others
// has no figure for the moments after its end, and a moment at which both
// Running and Waiting are missing is a gap, as when a replica has left.
type Load struct {
	Replica string  `json:"replica"`
	At      []Value `json:"at_seconds"` // since the step's start
	Running []Value `json:"running"`
	Waiting []Value `json:"waiting"`
}
