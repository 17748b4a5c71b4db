package config

import (
	"time"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
)

// setting is an option with the field that it is from.
type setting struct {
	path   []any
	option warmroute.Option
	err    error // instead of an option
}

// options are those of the router that are no pool's.
func (c *Config) options() []setting {
	var out []setting
	add := func(option warmroute.Option, path ...any) { out = append(out, setting{path: path, option: option}) }
	out = append(out, c.Sessions.keys()...)
	duration := func(d *Duration, with func(time.Duration) warmroute.Option, path ...any) {
		if d != nil {
			add(with(time.Duration(*d)), path...)
		}
	}
	duration(c.Sessions.TTL, warmroute.WithSessionTTL, "sessions", "ttl")
	duration(c.Timeouts.ResponseHeader, warmroute.WithResponseHeaderTimeout, "timeouts", "response_header")
	duration(c.Timeouts.Idle, warmroute.WithIdleTimeout, "timeouts", "idle")
	duration(c.SlowStart, warmroute.WithSlowStart, "slow_start")
	duration(c.ScrapeInterval, warmroute.WithScrapeInterval, "scrape_interval")
	if c.Sessions.Max != nil {
		add(warmroute.WithMaxSessions(*c.Sessions.Max), "sessions", "max")
	}
	if c.Sessions.ResponseChains != nil {
		add(warmroute.WithResponseChains(*c.Sessions.ResponseChains), "sessions", "response_chains")
	}
	if c.PeekLimit != nil {
		add(warmroute.WithPeekLimit(*c.PeekLimit), "peek_limit")
	}
	if c.Failover != nil {
		add(warmroute.WithFailover(*c.Failover), "failover")
	}
	ranks := map[string]warmroute.ClientRank{"honour": warmroute.HonourClientRank, "drop": warmroute.DropClientRank, "refuse": warmroute.RefuseClientRank}
	if rank, ok := ranks[c.Clients.Rank]; ok {
		add(warmroute.WithClientRank(rank), "clients", "rank")
	} else if c.Clients.Rank != "" {
		out = append(out, setting{path: []any{"clients", "rank"},
			err: &warmroute.ConfigError{Field: "client-rank", Value: c.Clients.Rank, Allowed: "honour, drop or refuse"}})
	}
	if h := c.Clients.TenantHeader; h != "" {
		out = append(out, setting{path: []any{"clients", "tenant_header"}, option: warmroute.WithTenant(affinity.Header(h)), err: checkHeader(h)})
	}
	add(warmroute.WithRequestPriority(c.Clients.Priority), "clients", "priority")
	add(warmroute.WithUntrustedClients(c.Clients.Untrusted), "clients", "untrusted")
	add(warmroute.WithStreamUsage(c.StreamUsage), "stream_usage")
	add(warmroute.WithDebugHeaders(c.DebugHeaders), "debug_headers")
	add(warmroute.WithBreaker(c.Breaker.config()), "breaker")
	out = append(out, c.Health.options()...)
	// Each is checked on its own first, so that the one that is refused is named.
	add(warmroute.WithRetry(warmroute.RetryPolicy{MaxAttempts: c.Retry.MaxAttempts}), "retry", "max_attempts")
	add(warmroute.WithRetry(warmroute.RetryPolicy{Budget: c.Retry.Budget}), "retry", "budget")
	add(warmroute.WithRetry(warmroute.RetryPolicy{Backoff: time.Duration(c.Retry.Backoff)}), "retry", "backoff")
	add(warmroute.WithRetry(warmroute.RetryPolicy{MaxAttempts: c.Retry.MaxAttempts, RetrySent: c.Retry.RetrySent,
		Budget: c.Retry.Budget, Backoff: time.Duration(c.Retry.Backoff)}), "retry")
	return out
}

// poolSetting is a pool's option with the field that it is from.
type poolSetting struct {
	path   []any
	option warmroute.PoolOption
	err    error
}

func (p Pool) options(path ...any) []poolSetting {
	var out []poolSetting
	add := func(option warmroute.PoolOption, field ...any) {
		out = append(out, poolSetting{path: below(path, field...), option: option})
	}
	if p.Affinity != nil {
		add(warmroute.WithAffinity(*p.Affinity), "affinity")
	}
	if p.Spill != nil {
		add(warmroute.WithSpill(*p.Spill), "spill")
	}
	if p.MaxNumSeqs != nil {
		add(warmroute.WithMaxNumSeqs(*p.MaxNumSeqs), "max_num_seqs")
	}
	if p.Picker != nil {
		picker, field, err := p.Picker.build()
		if err != nil {
			out = append(out, poolSetting{path: below(path, "picker", field), err: err})
		} else {
			add(warmroute.WithPicker(picker), "picker")
		}
	}
	for i, a := range p.Adapters {
		add(warmroute.WithAdapters(a), "adapters", i)
	}
	if p.Residency != nil {
		add(warmroute.WithResidency(*p.Residency), "residency")
	}
	if p.Turnover != nil {
		add(warmroute.WithTurnover(*p.Turnover), "turnover")
	}
	if p.MaxWait != nil {
		add(warmroute.WithMaxWait(time.Duration(*p.MaxWait)), "max_wait")
	}
	if p.MaxQueue != nil {
		add(warmroute.WithMaxQueue(*p.MaxQueue), "max_queue")
	}
	if p.SharedPrefix != nil {
		add(warmroute.WithSharedPrefix(*p.SharedPrefix), "shared_prefix")
	}
	return out
}
