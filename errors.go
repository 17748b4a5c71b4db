package warmroute

import (
	"errors"

	"github.com/warmroute/warmroute/replica"
)

var (
	// ErrNoReplica is wrapped by the error of a request that no replica can
	// take: none is configured for its model, all are draining, or every one
	// that was tried could not be reached. In the last case the error wraps
	// that of the last connection too. Try again later.
	ErrNoReplica = errors.New("no replica available")

	// ErrUnknownModel is wrapped by the error of a request for a model that no
	// pool serves, in a router that has no default pool.
	ErrUnknownModel = errors.New("unknown model")

	// ErrClientRank is wrapped by the error of a request whose client chose a
	// data-parallel rank that no replica has, or chose one at all where the
	// router is set to refuse that ([RefuseClientRank]).
	ErrClientRank = errors.New("data-parallel rank refused")

	// ErrOverloaded is wrapped by the error of a request that would have to wait
	// for room in a prefix cache and cannot: too many wait already, or it waited
	// and made way for another tenant's where too many do ([WithMaxQueue]), or it
	// was not to wait ([Router.TryRoute]). Try again later.
	ErrOverloaded = errors.New("overloaded")

	// ErrClosed is returned by a router that has been closed.
	ErrClosed = errors.New("router is closed")

	// ErrRunning is returned by a second Run while the first is going on.
	ErrRunning = errors.New("router is running already")

	// ErrDiscovering is returned by a second [Router.Discover] while the first is
	// going on.
	ErrDiscovering = errors.New("router is discovering endpoints already")

	// ErrDuplicate is wrapped by the error for an endpoint that is configured
	// already.
	ErrDuplicate = replica.ErrDuplicate

	// ErrUnknownReplica is wrapped by the error for a name or URL that the
	// router does not have.
	ErrUnknownReplica = replica.ErrUnknown
)

// ConfigError is returned for a setting that is refused: it names the field,
// the value, and what is allowed.
type ConfigError = replica.ConfigError

// Endpoint says where a server listens, which model it serves and how many
// data-parallel ranks it has.
type Endpoint = replica.Endpoint

// Replica is an endpoint, or one data-parallel rank behind one.
type Replica = replica.Replica

// ParseEndpoint reads the flag form of an endpoint: URL[,ranks=N][,model=NAME]
// [,engine=NAME][,host=NAME].
func ParseEndpoint(s string) (Endpoint, error) { return replica.ParseEndpoint(s) }
