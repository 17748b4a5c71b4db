package warmroute

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/affinity"
)

// Residency is what a pool does when its conversations do not all fit into the
// prefix caches of its replicas: [ResidencyAuto], [ResidencyOff], or the number
// of KV cache tokens of a replica for it to go by.
//
// A replica's residents are the conversations whose KV is meant to stay in its
// cache. Their turns go straight home. Other turns wait in the router until a
// replica has room, or until they have waited long and a resident that has been
// served long gives its place up. While everything fits nobody waits.
type Residency int

const (
	// ResidencyOff has no turn wait: a conversation goes home or is placed by
	// load, whether its cache can be there or not.
	ResidencyOff Residency = 0
	// ResidencyAuto keeps residents on replicas whose capacity the engine tells
	// (vllm:cache_config_info). One that has not told it is taken to hold as much as
	// the smallest of its pool that have; where none has, it is as off.
	ResidencyAuto Residency = math.MinInt
)

// String is "auto", "off" or the number of tokens.
func (r Residency) String() string {
	switch r {
	case ResidencyAuto:
		return "auto"
	case ResidencyOff:
		return "off"
	}
	return strconv.Itoa(int(r))
}

// MarshalText returns what String does.
func (r Residency) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads "auto", "off" or a number of tokens of at least 1, so that
// a *Residency can be given to flag.TextVar or be a field of a configuration
// file.
func (r *Residency) UnmarshalText(text []byte) error {
	switch s := string(text); s {
	case "auto":
		*r = ResidencyAuto
	case "off":
		*r = ResidencyOff
	default:
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return residencyError(s)
		}
		*r = Residency(n)
	}
	return nil
}

func residencyError(value string) error {
	return &ConfigError{Field: "residency", Value: value, Allowed: "auto, off, or a number of KV cache tokens of at least 1"}
}

// WithResidency sets what happens when conversations do not all fit into the
// prefix caches. Default [ResidencyAuto]. It has no effect without affinity, and
// none with a picker that is a [balance.HomePicker]: that decides for itself.
func WithResidency(r Residency) PoolOption {
	return poolOption(func(c *poolConfig) {
		if r != ResidencyAuto && r < 0 {
			c.refuse(residencyError(r.String()))
			return
		}
		c.residency = r
	})
}

// WithTurnover sets how readily residents give their places up to turns that
// wait, 0 to 1. At 0 a conversation keeps its place until it pauses: the most
// tokens a second and the shortest median time to first byte, and the longest
// tail. At 1 those that wait are served soonest: the shortest tail. Default
// [balance.DefaultTurnover].
func WithTurnover(turnover float64) PoolOption {
	return poolOption(func(c *poolConfig) {
		if !(turnover >= 0 && turnover <= 1) {
			c.refuse(&ConfigError{Field: "turnover", Value: fmt.Sprint(turnover), Allowed: "0 to 1"})
			return
		}
		c.admission.Turnover = &turnover
	})
}

// WithMaxWait sets how long a turn waits for room at most; then it goes to the
// least loaded replica, room or none. Default [balance.DefaultMaxWait].
func WithMaxWait(d time.Duration) PoolOption {
	return poolOption(func(c *poolConfig) {
		if err := positiveDuration("max wait", d); err != nil {
			c.refuse(err)
			return
		}
		c.admission.MaxWait = d
	})
}

// WithMaxQueue sets how many turns of a pool may wait for room; a further one is
// refused with [ErrOverloaded]. No tenant can fill the queue against the others
// ([WithTenant]): where one has at least two turns more in it than that of the
// turn that comes, the last turn of the one with the most is pushed out and
// refused in its stead ([DequeuePushedOut]). That is never one that was sent
// before and waits to be sent again, nor one that is more urgent than the turn
// that comes ([Request.Priority]). Default [balance.DefaultMaxQueue].
func WithMaxQueue(turns int) PoolOption {
	return poolOption(func(c *poolConfig) {
		if err := positive("max queue", int64(turns)); err != nil {
			c.refuse(err)
			return
		}
		c.admission.MaxQueue = turns
	})
}

// WithTenant has those who wait for room be served in turn by tenant, the
// longest waiting turn of each: one user's hundred conversations do not keep
// another's two waiting, nor have them refused by filling the queue
// ([WithMaxQueue]). Clients must not be able to make tenants up, or those who do
// go before and push out the others; requests of none are one tenant's. The function finds the tenant of a request as a KeyFunc
// finds its session: affinity.Header("Authorization") is one by API key. It sets
// [Request.Tenant] for requests that come through the transport. By default all
// are one tenant's.
func WithTenant(tenant affinity.KeyFunc) Option {
	return option(func(c *config) {
		if tenant == nil {
			c.refuse(&ConfigError{Field: "tenant", Value: "nil", Allowed: "a KeyFunc"})
			return
		}
		c.tenant = tenant
	})
}

// WithRequestPriority has those who wait for room be served by the priority
// field of their JSON body, lower first, as vLLM's does with
// --scheduling-policy=priority, before all else. It sets [Request.Priority] for
// requests that come through the transport. Default off: clients could push in.
func WithRequestPriority(on bool) Option {
	return option(func(c *config) { c.priority = on })
}
