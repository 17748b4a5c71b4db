package warmroutecaddy

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
)

// Config is what the router of a transport is made of. What is left out has the
// default of the [warmroute.Option] that is named. Replicas and their models may
// hold global placeholders, such as {env.VLLM_URL}.
type Config struct {
	// Replicas are the endpoints, at least one: an object of url and, optional,
	// ranks, model and engine, as [warmroute.Endpoint] describes them.
	Replicas []warmroute.Endpoint `json:"replicas,omitempty"`

	// Affinity switches staying at home on or off: [warmroute.WithAffinity].
	Affinity *bool `json:"affinity,omitempty"`
	// Spill is "auto" or a number of requests, as a string: [warmroute.WithSpill].
	Spill *warmroute.Spill `json:"spill,omitempty"`
	// MaxNumSeqs is the engines' --max-num-seqs: [warmroute.WithMaxNumSeqs].
	MaxNumSeqs *int `json:"max_num_seqs,omitempty"`
	// Residency is "auto", "off" or a number of tokens, as a string:
	// [warmroute.WithResidency].
	Residency *warmroute.Residency `json:"residency,omitempty"`
	// Turnover is 0 to 1: [warmroute.WithTurnover].
	Turnover *float64 `json:"turnover,omitempty"`
	// MaxWait bounds how long a turn waits for room: [warmroute.WithMaxWait].
	MaxWait *caddy.Duration `json:"max_wait,omitempty"`
	// MaxQueue bounds how many turns wait: [warmroute.WithMaxQueue].
	MaxQueue *int `json:"max_queue,omitempty"`
	// RequestPriority orders the queue by the body's priority:
	// [warmroute.WithRequestPriority].
	RequestPriority bool `json:"request_priority,omitempty"`
	// TenantHeader names the header by which tenants are told apart, which wait
	// in turn: [warmroute.WithTenant].
	TenantHeader string `json:"tenant_header,omitempty"`

	// SessionHeaders are looked at before all other places of a session key, in
	// this order: [warmroute.WithSessionHeader].
	SessionHeaders []string `json:"session_headers,omitempty"`
	// SessionTTL is how long an idle conversation is remembered:
	// [warmroute.WithSessionTTL].
	SessionTTL *caddy.Duration `json:"session_ttl,omitempty"`
	// MaxSessions is how many are: [warmroute.WithMaxSessions].
	MaxSessions *int `json:"max_sessions,omitempty"`
	// ClientRank says what is done with a rank that a client sends: "honour",
	// "drop" or "refuse"; honour if empty: [warmroute.WithClientRank].
	ClientRank string `json:"client_rank,omitempty"`

	// Failover says whether a request goes to another replica if no connection
	// could be made: [warmroute.WithFailover].
	Failover *bool `json:"failover,omitempty"`
	// PeekLimit is how many bytes of a body are read for its key and model:
	// [warmroute.WithPeekLimit].
	PeekLimit *int64 `json:"peek_limit,omitempty"`
	// StreamUsage asks for the usage of streams whose clients do not:
	// [warmroute.WithStreamUsage].
	StreamUsage bool `json:"stream_usage,omitempty"`
	// ScrapeInterval is how often the metrics pages are read:
	// [warmroute.WithScrapeInterval].
	ScrapeInterval *caddy.Duration `json:"scrape_interval,omitempty"`
	// DebugHeaders adds the replica and the outcome to responses:
	// [warmroute.WithDebugHeaders].
	DebugHeaders bool `json:"debug_headers,omitempty"`
}

// set reports whether there is anything in the configuration.
func (c *Config) set() bool {
	return len(c.Replicas) > 0 || len(c.options()) > 0 || c.ClientRank != ""
}

// endpoints are the replicas with their placeholders replaced.
func (c *Config) endpoints() ([]warmroute.Endpoint, error) {
	replacer := caddy.NewReplacer()
	endpoints := make([]warmroute.Endpoint, 0, len(c.Replicas))
	for _, e := range c.Replicas {
		for _, field := range []*string{&e.URL, &e.Model} {
			replaced, err := replacer.ReplaceOrErr(*field, true, true)
			if err != nil {
				return nil, fmt.Errorf("replica %q: %w", *field, err)
			}
			*field = replaced
		}
		endpoints = append(endpoints, e)
	}
	return endpoints, nil
}

// options are those that were given; the router refuses what it does not allow.
func (c *Config) options() []warmroute.Option {
	var o options
	given(&o, c.Affinity, warmroute.WithAffinity)
	given(&o, c.Spill, warmroute.WithSpill)
	given(&o, c.MaxNumSeqs, warmroute.WithMaxNumSeqs)
	given(&o, c.Residency, warmroute.WithResidency)
	given(&o, c.Turnover, warmroute.WithTurnover)
	given(&o, c.MaxWait, duration(warmroute.WithMaxWait))
	given(&o, c.MaxQueue, warmroute.WithMaxQueue)
	given(&o, c.SessionTTL, duration(warmroute.WithSessionTTL))
	given(&o, c.MaxSessions, warmroute.WithMaxSessions)
	given(&o, c.Failover, warmroute.WithFailover)
	given(&o, c.PeekLimit, warmroute.WithPeekLimit)
	given(&o, c.ScrapeInterval, duration(warmroute.WithScrapeInterval))
	for _, name := range c.SessionHeaders {
		o = append(o, warmroute.WithSessionHeader(name))
	}
	if c.TenantHeader != "" {
		o = append(o, warmroute.WithTenant(affinity.Header(c.TenantHeader)))
	}
	if c.RequestPriority {
		o = append(o, warmroute.WithRequestPriority(true))
	}
	if c.StreamUsage {
		o = append(o, warmroute.WithStreamUsage(true))
	}
	if c.DebugHeaders {
		o = append(o, warmroute.WithDebugHeaders(true))
	}
	return o
}

type options []warmroute.Option

func given[T any, O warmroute.Option](o *options, value *T, option func(T) O) {
	if value != nil {
		*o = append(*o, option(*value))
	}
}

func duration[O warmroute.Option](option func(time.Duration) O) func(caddy.Duration) O {
	return func(d caddy.Duration) O { return option(time.Duration(d)) }
}

// clientRank is the policy of that name.
func clientRank(name string) (warmroute.ClientRank, error) {
	switch name {
	case "", "honour":
		return warmroute.HonourClientRank, nil
	case "drop":
		return warmroute.DropClientRank, nil
	case "refuse":
		return warmroute.RefuseClientRank, nil
	}
	return 0, &warmroute.ConfigError{Field: "client_rank", Value: name, Allowed: "honour, drop or refuse"}
}
