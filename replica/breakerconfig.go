package replica

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// Defaults of [BreakerConfig].
const (
	DefaultBreakerConsecutive  = 5
	DefaultBreakerFailureShare = 0.5
	DefaultBreakerMinRequests  = 20
	DefaultBreakerWindow       = 10 * time.Second
	DefaultBreakerOpenFor      = time.Second
	DefaultBreakerMaxOpenFor   = 30 * time.Second
	DefaultBreakerProbes       = 1
)

// BreakerConfig is how a [Breaker] judges. The zero value of every field is its
// default.
type BreakerConfig struct {
	// Off has the breaker never open.
	Off bool
	// Consecutive is how many failures in a row open the breaker, at least 1.
	// Default 5.
	Consecutive int
	// FailureShare is the part of the requests of the last Window, more than 0 and
	// at most 1, that opens the breaker when it has failed and the requests were
	// MinRequests or more. Default 0.5.
	FailureShare float64
	// MinRequests is at least 1. Default 20.
	MinRequests int
	// Window is at least 10 ms. Default 10 s.
	Window time.Duration
	// OpenFor is how long the breaker is open when it opens first, more than 0.
	// Each time that it opens again, before it has been closed for MaxOpenFor, it is
	// open twice as long as before, MaxOpenFor at the most. Defaults 1 s and 30 s.
	OpenFor, MaxOpenFor time.Duration
	// Probes is how many requests at a time are let through when that time is over,
	// at least 1. Default 1.
	Probes int
	// Jitter gives the numbers, 0 to 1, by which an open time is made up to a fifth
	// shorter, so that several gateways do not probe at once. It must be safe for
	// concurrent use. Default math/rand/v2.Float64.
	Jitter func() float64
}

// Validate returns a [*ConfigError] for the first field that is out of range.
func (c BreakerConfig) Validate() error {
	refuse := func(field, value, allowed string) error {
		return &ConfigError{Field: "breaker " + field, Value: value, Allowed: allowed}
	}
	c = c.withDefaults()
	switch {
	case c.Consecutive < 1:
		return refuse("consecutive", strconv.Itoa(c.Consecutive), "at least 1")
	case !(c.FailureShare > 0 && c.FailureShare <= 1):
		return refuse("failure share", strconv.FormatFloat(c.FailureShare, 'g', -1, 64), "more than 0, at most 1")
	case c.MinRequests < 1:
		return refuse("min requests", strconv.Itoa(c.MinRequests), "at least 1")
	case c.Window < breakerBuckets*time.Millisecond:
		return refuse("window", c.Window.String(), "at least 10ms")
	case c.OpenFor <= 0:
		return refuse("open for", c.OpenFor.String(), "more than 0")
	case c.MaxOpenFor < c.OpenFor:
		return refuse("max open for", c.MaxOpenFor.String(), "at least as long as open for")
	case c.Probes < 1:
		return refuse("probes", strconv.Itoa(c.Probes), "at least 1")
	}
	return nil
}

// withDefaults has every field that is zero be its default.
func (c BreakerConfig) withDefaults() BreakerConfig {
	if c.Consecutive == 0 {
		c.Consecutive = DefaultBreakerConsecutive
	}
	if c.FailureShare == 0 {
		c.FailureShare = DefaultBreakerFailureShare
	}
	if c.MinRequests == 0 {
		c.MinRequests = DefaultBreakerMinRequests
	}
	if c.Window == 0 {
		c.Window = DefaultBreakerWindow
	}
	if c.OpenFor == 0 {
		c.OpenFor = DefaultBreakerOpenFor
	}
	if c.MaxOpenFor == 0 {
		c.MaxOpenFor = max(c.OpenFor, DefaultBreakerMaxOpenFor)
	}
	if c.Probes == 0 {
		c.Probes = DefaultBreakerProbes
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	return c
}
