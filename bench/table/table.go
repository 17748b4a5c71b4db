// Package table puts [affinity.Table] beside the libraries that others would
// take for its job: each behind one small adapter, a file each, that does the
// job as well as its library can. README.md says what is measured and how.
//
// It is a module of its own, so that the peers are no dependencies of the
// library, and it is not meant to be imported.
package table

import (
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/affinity"
)

// Replica is what a conversation is bound to. Its ID is its index among the
// replicas of a [Config].
type Replica struct{ ID int }

// Table is the job: remember which replica each conversation is bound to, until
// it has not been used for a TTL. All methods are safe for concurrent use.
type Table interface {
	// GetOrCreate returns the replica that the conversation of the key is bound
	// to, and starts its TTL anew. A conversation that is new, or whose TTL is
	// over, is bound to what Config.Choose returns.
	GetOrCreate(key string) *Replica
	// Delete forgets the conversation of the key.
	Delete(key string)
	// Len is the number of entries held, with those that are due and not yet
	// removed.
	Len() int
	// Sweep removes what is due, where the library leaves that to its user; such
	// a user calls it once a second. Where the library has a goroutine for it,
	// it does nothing.
	Sweep()
	// Close ends what the table runs and lets go of its entries, as far as the
	// library knows how. The table is not used afterwards.
	Close()
}

// Bound is the number of entries that a bounded table is bounded to: so many
// that none is evicted for want of room.
const Bound = 4 << 20

// Config is what an adapter is made with.
type Config struct {
	// TTL is how long a conversation without a use is remembered.
	TTL time.Duration
	// Clock is the time for tables that are given it. It should run.
	Clock *affinity.Clock
	// Replicas are those that Choose chooses among.
	Replicas []*Replica
	// Choose picks the replica of a new conversation. It is called once a
	// creation, concurrently, and must not use the table. It is fixed here, and
	// not passed with each use, so that no adapter makes a closure a call.
	Choose func() *Replica
}

// Impl is one way to do the job.
type Impl struct {
	Name string
	New  func(Config) Table
}

// Impls are all of them, ours first. The one that cannot be stopped is last, so
// that it does not run beside another.
func Impls() []Impl {
	return []Impl{
		{"ours", newOurs},
		{"xsync", newXsync},
		{"otter", newOtter},
		{"otter4M", newBoundedOtter},
		{"ttlcache", newTTLCache},
		{"naive", newNaive},
		{"expirable", newExpirable},
	}
}

// RoundRobin returns n replicas and a Choose that takes them in turn.
func RoundRobin(n int) (replicas []*Replica, choose func() *Replica) {
	for i := range n {
		replicas = append(replicas, &Replica{ID: i})
	}
	var turn atomic.Uint64
	return replicas, func() *Replica { return replicas[turn.Add(1)%uint64(n)] }
}
