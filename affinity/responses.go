package affinity

import (
	"sync"
	"time"
)

// MaxResponseID is the longest id of a response that is remembered, in bytes.
// vLLM's have 37.
const MaxResponseID = 128

// Origin is where a response came from.
type Origin[H any] struct {
	// Session is the key of the conversation that it belongs to, empty if its
	// request had none.
	Session string
	// Home is the home of the replica that produced it.
	Home *Home[H]
	// At is when.
	At time.Time
}

// Responses remembers where responses came from, by their ids, so that a request
// which names its predecessor alone (previous_response_id of the OpenAI
// Responses API) is known to belong to that conversation. It holds a bounded
// number, each for a TTL from when it was produced; beyond that the oldest goes.
//
// Its methods are safe for concurrent use. It has no clock of its own.
type Responses[H any] struct {
	ttl time.Duration
	max int

	mu    sync.Mutex
	byID  map[string]response[H]
	queue []responseID // oldest first, from head on
	head  int
	next  uint64
}

type response[H any] struct {
	Origin[H]
	number uint64
}

// responseID is an id as it was put with that number.
type responseID struct {
	id     string
	at     time.Time
	number uint64
}

// NewResponses returns an empty memory of at most limit responses, each for a
// TTL. A TTL that is not above 0 is [DefaultTTL], a limit that is not above 0 is
// 1.
func NewResponses[H any](ttl time.Duration, limit int) *Responses[H] {
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	return &Responses[H]{ttl: ttl, max: max(1, limit), byID: map[string]response[H]{}}
}

// Put remembers where the response came from. An id that is empty or longer than
// [MaxResponseID] is not remembered; one that is known counts as produced anew.
func (r *Responses[H]) Put(id string, o Origin[H]) {
	if id == "" || len(id) > MaxResponseID {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	r.byID[id] = response[H]{o, r.next}
	r.queue = append(r.queue, responseID{id, o.At, r.next})
	r.sweep(o.At)
}

// Get returns where a response came from, if it is remembered.
func (r *Responses[H]) Get(id string, now time.Time) (Origin[H], bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.byID[id]
	if !ok || now.Sub(found.At) >= r.ttl {
		return Origin[H]{}, false
	}
	return found.Origin, true
}

// Sweep gives back the memory of responses whose TTL is over. [Responses.Put]
// does as well.
func (r *Responses[H]) Sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
}

// sweep needs the lock.
func (r *Responses[H]) sweep(now time.Time) {
	for r.head < len(r.queue) {
		oldest := &r.queue[r.head]
		if len(r.queue)-r.head <= r.max && now.Sub(oldest.at) < r.ttl {
			break
		}
		if r.byID[oldest.id].number == oldest.number {
			delete(r.byID, oldest.id)
		}
		*oldest = responseID{}
		r.head++
	}
	if r.head > len(r.queue)/2 { // each moves down as often as it moved up
		r.queue = append(r.queue[:0:0], r.queue[r.head:]...)
		r.head = 0
	}
}

// Len is how many responses are remembered.
func (r *Responses[H]) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID)
}

// Key is the key of the conversation.
func (s *Session[H]) Key() string { return s.key.String() }
