package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/discovery"
	"github.com/warmroute/warmroute/metrics"
)

// check looks at what the kinds of the fields do not tell.
func (c *Config) check(m *mistakes) {
	refuse := func(path []any, err error) { m.add(c.root.find(path), path, err) }
	if c.Listen != "" {
		if err := checkListen(c.Listen); err != nil {
			refuse([]any{"listen"}, err)
		}
	}
	if len(c.Endpoints) == 0 && len(c.Discovery) == 0 {
		refuse(nil, errors.New("neither endpoints nor discovery: at least one is wanted"))
	}
	names := map[string]int{}
	for i, e := range c.Endpoints {
		path := []any{"endpoints", i}
		name, ok := c.checkEndpoint(e, path, refuse)
		if !ok {
			continue
		}
		if first, ok := names[name]; ok {
			refuse(below(path, "url"), fmt.Errorf("%w: endpoints[%d] is the same", warmroute.ErrDuplicate, first))
		}
		names[name] = i
	}
	for i, d := range c.Discovery {
		c.checkDiscovery(d, []any{"discovery", i}, refuse)
	}
	if c.Health == (Health{}) && c.has([]any{"health"}) {
		refuse([]any{"health"}, errors.New("neither probe nor dcgm: at least one is wanted"))
	}
	for _, s := range c.options() {
		err := s.err
		if err == nil {
			err = warmroute.CheckOptions(s.option)
		}
		if err != nil {
			refuse(c.breakerField(s.path, err), err)
		}
	}
	settings := c.Defaults.options("defaults")
	for _, model := range slices.Sorted(maps.Keys(c.Pools)) {
		settings = append(settings, c.Pools[model].options("pools", model)...)
	}
	for _, s := range settings {
		err := s.err
		if err == nil {
			err = warmroute.CheckOptions(s.option)
		}
		if err != nil {
			refuse(s.path, err)
		}
	}
}

// breakerField is the field of the breaker that an error is about: they are checked
// together, since the one bounds the other.
func (c *Config) breakerField(path []any, err error) []any {
	var refused *warmroute.ConfigError
	if !errors.As(err, &refused) {
		return path
	}
	if field, ok := strings.CutPrefix(refused.Field, "breaker "); ok {
		return below(path, strings.ReplaceAll(field, " ", "_"))
	}
	return path
}

func checkListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		var n int
		if n, err = strconv.Atoi(port); err == nil && (n < 0 || n > 65535) {
			err = strconv.ErrRange
		}
	}
	if err != nil {
		return &warmroute.ConfigError{Field: "listen", Value: address, Allowed: "host:port, such as 127.0.0.1:9000 or :9000"}
	}
	return nil
}

// checkEndpoint returns the endpoint's name if it is usable.
func (c *Config) checkEndpoint(e Endpoint, path []any, refuse func([]any, error)) (string, bool) {
	if e.Ranks != nil && *e.Ranks == 0 {
		refuse(below(path, "ranks"), &warmroute.ConfigError{Field: "ranks", Value: "0", Allowed: "1 or more, or left out to be discovered"})
		return "", false
	}
	name, err := e.endpoint("").Name()
	if err != nil {
		field := path
		var refused *warmroute.ConfigError
		if errors.As(err, &refused) {
			field = below(path, strings.ToLower(refused.Field))
		}
		refuse(field, err)
	}
	if e.Engine != "" {
		if _, engine := metrics.DialectByName(e.Engine); engine != nil {
			var names []string
			for _, d := range metrics.Dialects() {
				names = append(names, d.Name())
			}
			err = &warmroute.ConfigError{Field: "engine", Value: e.Engine, Allowed: strings.Join(names, ", ")}
			refuse(below(path, "engine"), err)
		}
	}
	c.checkSecret(e.APIKey, below(path, "api_key"), refuse)
	return name, err == nil
}

func (c *Config) checkSecret(s Secret, path []any, refuse func([]any, error)) {
	n := c.root.find(path)
	switch {
	case s.File != "" && s.Env != "":
		refuse(path, errors.New("both file and env: one of them is wanted"))
	case s == Secret{} && n.Kind == Map && c.has(path):
		refuse(path, errors.New("neither file nor env: one of them is wanted"))
	}
}

// has reports whether the text has the field.
func (c *Config) has(path []any) bool {
	n := c.root
	for _, step := range path {
		next := n.find([]any{step})
		if next == n {
			return false
		}
		n = next
	}
	return true
}

func (c *Config) checkDiscovery(d Discovery, path []any, refuse func([]any, error)) {
	kind, one := d.kind()
	if !one {
		refuse(path, errors.New("exactly one of dns, srv and file is wanted"))
		return
	}
	path = below(path, kind)
	usable := true
	switch {
	case d.DNS != nil:
		_, usable = c.checkEndpoint(d.DNS.Endpoint, below(path, "endpoint"), refuse)
	case d.SRV != nil:
		_, usable = c.checkEndpoint(d.SRV.Endpoint, below(path, "endpoint"), refuse)
	default:
		c.checkSecret(d.File.APIKey, below(path, "api_key"), refuse)
	}
	for name, given := range map[string]*Duration{"interval": d.interval(), "timeout": d.timeout()} {
		if given != nil && *given == 0 {
			refuse(below(path, name), &warmroute.ConfigError{Field: name, Value: "0s", Allowed: "more than 0"})
			usable = false
		}
	}
	if !usable {
		return
	}
	_, err := d.build("", c.path)
	var refused *warmroute.ConfigError
	switch {
	case err == nil:
	case !errors.As(err, &refused):
		refuse(path, err)
	case refused.Field == "URL":
		refuse(below(path, "endpoint", "url"), err)
	default:
		refuse(below(path, refused.Field), err)
	}
}

// kind is which of the fields is given, if it is one alone.
func (d Discovery) kind() (name string, one bool) {
	given := 0
	if d.DNS != nil {
		name, given = "dns", given+1
	}
	if d.SRV != nil {
		name, given = "srv", given+1
	}
	if d.File != nil {
		name, given = "file", given+1
	}
	return name, given == 1
}

func (e Endpoint) endpoint(key string) warmroute.Endpoint {
	return warmroute.Endpoint{URL: e.URL, Model: e.Model, Ranks: value(e.Ranks, 0), Engine: e.Engine, Host: e.Host, APIKey: key}
}

func (d Discovery) interval() *Duration {
	switch {
	case d.DNS != nil:
		return d.DNS.Interval
	case d.SRV != nil:
		return d.SRV.Interval
	case d.File != nil:
		return d.File.Interval
	}
	return nil
}

func (d Discovery) timeout() *Duration {
	switch {
	case d.DNS != nil:
		return d.DNS.Timeout
	case d.SRV != nil:
		return d.SRV.Timeout
	}
	return nil
}

// HasKey reports whether what is found is used with an API key, which may have
// changed although the text has not.
func (d Discovery) HasKey() bool { return d.secret() != Secret{} }

// secret is where the key of what is found is.
func (d Discovery) secret() Secret {
	switch {
	case d.DNS != nil:
		return d.DNS.Endpoint.APIKey
	case d.SRV != nil:
		return d.SRV.Endpoint.APIKey
	case d.File != nil:
		return d.File.APIKey
	}
	return Secret{}
}

func (d Discovery) build(key string, path func(string) string) (discovery.Discoverer, error) {
	interval, timeout := time.Duration(value(d.interval(), 0)), time.Duration(value(d.timeout(), 0))
	switch {
	case d.DNS != nil:
		return discovery.DNS(discovery.DNSConfig{Endpoint: d.DNS.Endpoint.endpoint(key), Network: d.DNS.Network, Interval: interval, Timeout: timeout})
	case d.SRV != nil:
		return discovery.SRV(discovery.SRVConfig{Name: d.SRV.Name, Endpoint: d.SRV.Endpoint.endpoint(key), Interval: interval, Timeout: timeout})
	}
	return discovery.File(discovery.FileConfig{Path: path(d.File.Path), Interval: interval, APIKey: key})
}

// path is a path in the text: a relative one begins in the text's folder.
func (c *Config) path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(filepath.Dir(c.file), p)
}
