package warmroutecaddy

import (
	"encoding"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/warmroute/warmroute"
)

// UnmarshalCaddyfile reads the transport's block:
//
//	transport warmroute [<name>] {
//		replica <url> [ranks <n>] [model <name>] [engine <name>]   # repeatable, at least one
//
//		affinity         on|off
//		spill            auto|<n>
//		max_num_seqs     <n>
//		residency        auto|off|<tokens>
//		turnover         <0..1>
//		max_wait         <duration>
//		max_queue        <n>
//		request_priority on|off
//		tenant_header    <name>
//
//		session_header   <name>                                    # repeatable
//		session_ttl      <duration>
//		max_sessions     <n>
//		client_rank      honour|drop|refuse
//
//		failover         on|off
//		peek_limit       <bytes>
//		stream_usage     on|off
//		scrape_interval  <duration>
//		debug_headers    on|off
//
//		router           <provided name>                           # in place of all the above
//		errors           answer|handle
//	}
//
// Each setting but replica and session_header is given once at most. What is
// left out has the default of the [Config]'s field of that name.
func (t *Transport) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if d.NextArg() {
		t.Name = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	seen := map[string]bool{}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		setting := d.Val()
		if setting == "replica" {
			if err := t.replica(d); err != nil {
				return err
			}
			continue
		}
		args := d.RemainingArgs()
		if len(args) != 1 {
			return d.ArgErr()
		}
		if seen[setting] && setting != "session_header" {
			return d.Errf("%s is given twice", setting)
		}
		seen[setting] = true
		if err := t.setting(d, setting, args[0]); err != nil {
			return err
		}
	}
	return nil
}

// replica reads what follows the word replica.
func (t *Transport) replica(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args)%2 == 0 { // a URL, and pairs of words
		return d.ArgErr()
	}
	e := warmroute.Endpoint{URL: args[0]}
	for i := 1; i < len(args); i += 2 {
		switch property, value := args[i], args[i+1]; property {
		case "ranks":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return d.Errf("ranks: %q is not a number of at least 1; leave it out to have the ranks discovered", value)
			}
			e.Ranks = n
		case "model":
			e.Model = value
		case "engine":
			e.Engine = value
		default:
			return d.Errf("unknown property of a replica: %s; allowed: ranks, model, engine", property)
		}
	}
	t.Replicas = append(t.Replicas, e)
	return nil
}

// setting reads the value of one setting.
func (t *Transport) setting(d *caddyfile.Dispenser, setting, value string) error {
	var err error
	switch setting {
	case "affinity":
		t.Affinity, err = pointer(onOff(value))
	case "spill":
		t.Spill, err = text(new(warmroute.Spill), value)
	case "max_num_seqs":
		t.MaxNumSeqs, err = pointer(strconv.Atoi(value))
	case "residency":
		t.Residency, err = text(new(warmroute.Residency), value)
	case "turnover":
		t.Turnover, err = pointer(strconv.ParseFloat(value, 64))
	case "max_wait":
		t.MaxWait, err = pointer(parseDuration(value))
	case "max_queue":
		t.MaxQueue, err = pointer(strconv.Atoi(value))
	case "request_priority":
		t.RequestPriority, err = onOff(value)
	case "tenant_header":
		t.TenantHeader = value
	case "session_header":
		t.SessionHeaders = append(t.SessionHeaders, value)
	case "session_ttl":
		t.SessionTTL, err = pointer(parseDuration(value))
	case "max_sessions":
		t.MaxSessions, err = pointer(strconv.Atoi(value))
	case "client_rank":
		t.ClientRank = value
	case "failover":
		t.Failover, err = pointer(onOff(value))
	case "peek_limit":
		t.PeekLimit, err = pointer(strconv.ParseInt(value, 10, 64))
	case "stream_usage":
		t.StreamUsage, err = onOff(value)
	case "scrape_interval":
		t.ScrapeInterval, err = pointer(parseDuration(value))
	case "debug_headers":
		t.DebugHeaders, err = onOff(value)
	case "router":
		t.Router = value
	case "errors":
		t.Errors = value
	default:
		return d.Errf("unknown setting of transport warmroute: %s", setting)
	}
	if err != nil {
		return d.Errf("%s: %w", setting, err)
	}
	return nil
}

func pointer[T any](value T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return &value, nil
}

func text[T encoding.TextUnmarshaler](into T, value string) (T, error) {
	return into, into.UnmarshalText([]byte(value))
}

func onOff(value string) (bool, error) {
	switch value {
	case "on":
		return true, nil
	case "off":
		return false, nil
	}
	return false, &warmroute.ConfigError{Field: "switch", Value: value, Allowed: "on or off"}
}

func parseDuration(value string) (caddy.Duration, error) {
	d, err := caddy.ParseDuration(value)
	return caddy.Duration(d), err
}

var _ caddyfile.Unmarshaler = (*Transport)(nil)
