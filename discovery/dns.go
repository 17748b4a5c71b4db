package discovery

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/replica"
)

// Defaults of [DNSConfig] and [SRVConfig].
const (
	DefaultDNSInterval = 10 * time.Second
	DefaultDNSTimeout  = 5 * time.Second
)

// Resolver looks names up. A *[net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, addrs []*net.SRV, err error)
}

// DNSConfig is what [DNS] looks up.
type DNSConfig struct {
	// Endpoint is what each address becomes an endpoint like: its URL's host is
	// replaced by the address. Requests keep that host as their Host header, and
	// certificates must be for it, unless Endpoint.Host is another.
	Endpoint replica.Endpoint
	// Network is "ip", "ip4" or "ip6": which addresses are taken. Default "ip". A
	// server that has one of each is found twice with "ip": name one of them there.
	Network string
	// Interval is the pause between two lookups, at least 100 ms: the records' TTL is
	// not known. After a failure the pause is shorter. Default 10 s.
	Interval time.Duration
	// Timeout bounds a lookup, more than 0. Default 5 s.
	Timeout time.Duration
	// Resolver does the lookups. Default [net.DefaultResolver].
	Resolver Resolver
}

// DNS returns a Discoverer of the A and AAAA records of a name, as a headless
// service of Kubernetes has. Each address is an endpoint. A lookup that fails, one
// that finds no such name included, leaves the last list in force. It returns a
// [*replica.ConfigError] for a configuration that is refused.
func DNS(cfg DNSConfig) (Discoverer, error) {
	u, err := template(&cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	cfg.Network = cmp.Or(cfg.Network, "ip")
	if !slices.Contains([]string{"ip", "ip4", "ip6"}, cfg.Network) {
		return nil, &replica.ConfigError{Field: "network", Value: cfg.Network, Allowed: "ip, ip4 or ip6"}
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return nil, &replica.ConfigError{Field: "URL", Value: cfg.Endpoint.URL, Allowed: "one with a name to look up, not an address"}
	}
	l, err := newLookup(cfg.Interval, cfg.Timeout, cfg.Resolver)
	if err != nil {
		return nil, err
	}
	l.find = func(ctx context.Context) ([]replica.Target, error) {
		addresses, err := l.resolver.LookupNetIP(ctx, cfg.Network, u.Hostname())
		if err != nil {
			return nil, fmt.Errorf("discovery: %w", err)
		}
		if len(addresses) == 0 {
			return nil, fmt.Errorf("discovery: no address of %s", u.Hostname())
		}
		for i := range addresses {
			addresses[i] = addresses[i].Unmap()
		}
		slices.SortFunc(addresses, netip.Addr.Compare)
		var out []replica.Target
		for _, a := range slices.Compact(addresses) {
			out = append(out, at(cfg.Endpoint, u, a.String(), u.Port()))
		}
		return out, nil
	}
	return l, nil
}

// SRVConfig is what [SRV] looks up.
type SRVConfig struct {
	// Name is the name of the records, such as _http._tcp.vllm.example.
	Name string
	// Endpoint is what each record becomes an endpoint like. Its URL's host is
	// replaced by the record's target and port: "http://srv" will do. With Endpoint.Host
	// requests carry that as their Host header, and not the target.
	Endpoint replica.Endpoint
	// Interval, Timeout and Resolver are as in [DNSConfig].
	Interval, Timeout time.Duration
	Resolver          Resolver
}

// SRV returns a Discoverer of the SRV records of a name (RFC 2782). Each target
// and port of the best priority is an endpoint, weights are not used: load is known
// better than that. The targets' addresses are looked up by each connection. Errors
// and failed lookups are as with [DNS].
func SRV(cfg SRVConfig) (Discoverer, error) {
	if cfg.Name == "" || strings.ContainsAny(cfg.Name, " \t:/") {
		return nil, &replica.ConfigError{Field: "name", Value: cfg.Name, Allowed: "the name of SRV records, such as _http._tcp.vllm.example"}
	}
	u, err := template(&cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	l, err := newLookup(cfg.Interval, cfg.Timeout, cfg.Resolver)
	if err != nil {
		return nil, err
	}
	l.find = func(ctx context.Context) ([]replica.Target, error) {
		_, records, err := l.resolver.LookupSRV(ctx, "", "", cfg.Name)
		if err != nil && len(records) == 0 {
			return nil, fmt.Errorf("discovery: %w", err)
		}
		records = slices.DeleteFunc(slices.Clone(records), func(r *net.SRV) bool { return r.Target == "." || r.Port == 0 })
		if len(records) == 0 {
			return nil, fmt.Errorf("discovery: no SRV record of %s", cfg.Name)
		}
		best := slices.MinFunc(records, func(a, b *net.SRV) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
		var out []replica.Target
		for _, r := range records {
			if r.Priority == best {
				host := strings.ToLower(strings.TrimSuffix(r.Target, "."))
				out = append(out, at(cfg.Endpoint, u, host, strconv.Itoa(int(r.Port))))
			}
		}
		slices.SortFunc(out, func(a, b replica.Target) int { return cmp.Compare(a.URL, b.URL) })
		return slices.Compact(out), nil
	}
	return l, nil
}

// template checks the endpoint that those which are found are to be like.
func template(e *replica.Endpoint) (*url.URL, error) {
	if _, err := e.Name(); err != nil {
		return nil, err
	}
	return url.Parse(e.URL)
}

// at is the endpoint at another host and port. It keeps the name that it is known
// by: an address is none.
func at(e replica.Endpoint, u *url.URL, host, port string) replica.Target {
	there := *u
	there.Host = host
	if port != "" {
		there.Host = net.JoinHostPort(host, port)
	} else if strings.Contains(host, ":") {
		there.Host = "[" + host + "]"
	}
	if _, err := netip.ParseAddr(host); err == nil && e.Host == "" {
		e.Host = u.Host
	}
	e.URL = there.String()
	return replica.Target{Endpoint: e}
}

// lookup looks something up again and again.
type lookup struct {
	resolver Resolver
	interval time.Duration
	timeout  time.Duration
	find     func(context.Context) ([]replica.Target, error)
}

func newLookup(interval, timeout time.Duration, resolver Resolver) (*lookup, error) {
	l := &lookup{resolver: resolver, interval: cmp.Or(interval, DefaultDNSInterval), timeout: cmp.Or(timeout, DefaultDNSTimeout)}
	if resolver == nil {
		l.resolver = net.DefaultResolver
	}
	if err := checkInterval(l.interval); err != nil {
		return nil, err
	}
	if l.timeout < 0 {
		return nil, &replica.ConfigError{Field: "timeout", Value: timeout.String(), Allowed: "more than 0"}
	}
	return l, nil
}

// minInterval keeps a typing error from asking without a pause.
const minInterval = 100 * time.Millisecond

func checkInterval(d time.Duration) error {
	if d < minInterval {
		return &replica.ConfigError{Field: "interval", Value: d.String(), Allowed: "at least " + minInterval.String()}
	}
	return nil
}

func (l *lookup) Watch(ctx context.Context, report Report) error {
	return poll(ctx, l.interval, report, func(ctx context.Context) ([]replica.Target, error) {
		ctx, cancel := context.WithTimeout(ctx, l.timeout)
		defer cancel()
		return l.find(ctx)
	})
}
