package config

import (
	"errors"
	"strings"
	"time"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/health"
)

// Health is what [warmroute.WithHealth] watches: at least one of the fields, or
// nothing is.
type Health struct {
	Probe *Probe `json:"probe"`
	DCGM  *DCGM  `json:"dcgm"`
}

// Probe is a [health.Probe]. An empty object probes with the defaults.
type Probe struct {
	Path     string    `json:"path"`
	Interval *Duration `json:"interval"`
	Timeout  *Duration `json:"timeout"`
	Fall     *int      `json:"fall"`
	Rise     *int      `json:"rise"`
}

// DCGM is a [health.DCGM] with the default rules. There must be one of GPUs.
type DCGM struct {
	GPUs       []GPUs    `json:"gpus"`
	Interval   *Duration `json:"interval"`
	Timeout    *Duration `json:"timeout"`
	StaleAfter *Duration `json:"stale_after"`
	Hold       *Duration `json:"hold"`
}

// GPUs is a [health.GPUs]. GPU are strings, the indexes among them too. An empty
// list is all of them, as none is.
type GPUs struct {
	Exporter string   `json:"exporter"`
	Replica  string   `json:"replica"`
	Ranks    []int    `json:"ranks"`
	GPU      []string `json:"gpu"`
}

// options is the one option, or what is refused of it.
func (h Health) options() []setting {
	var cfg health.Config
	var refused []setting
	refuse := func(err error, path ...any) { refused = append(refused, setting{path: path, err: err}) }
	if h.Probe != nil {
		cfg.Probe = h.Probe.config(refuse)
	}
	if h.DCGM != nil {
		cfg.DCGM = h.DCGM.config(refuse)
	}
	if len(refused) > 0 || h == (Health{}) {
		return refused
	}
	return []setting{{path: []any{"health"}, option: warmroute.WithHealth(cfg)}}
}

// refuseFunc is told what is wrong with a field.
type refuseFunc func(err error, path ...any)

// given returns the value of a field, which is refused if it is 0: in package
// health that is the default, which one who writes it does not mean.
func given[T ~int | ~int64](p *T, zero string, refuse refuseFunc, path ...any) T {
	if p != nil && *p == 0 {
		name, _ := path[len(path)-1].(string)
		refuse(&warmroute.ConfigError{Field: name, Value: zero, Allowed: "more than 0"}, path...)
	}
	return value(p, 0)
}

func (p Probe) config(refuse refuseFunc) *health.Probe {
	path := func(name string) []any { return []any{"health", "probe", name} }
	duration := func(d *Duration, name string) time.Duration {
		return time.Duration(given(d, "0s", refuse, path(name)...))
	}
	cfg := &health.Probe{Path: p.Path, Interval: duration(p.Interval, "interval"), Timeout: duration(p.Timeout, "timeout"),
		Fall: given(p.Fall, "0", refuse, path("fall")...), Rise: given(p.Rise, "0", refuse, path("rise")...)}
	if _, err := health.New(health.Config{Probe: cfg}); err != nil {
		refuse(err, healthField(err, "health", "probe")...)
	}
	return cfg
}

func (d DCGM) config(refuse refuseFunc) *health.DCGM {
	duration := func(d *Duration, name string) time.Duration {
		return time.Duration(given(d, "0s", refuse, "health", "dcgm", name))
	}
	cfg := &health.DCGM{Interval: duration(d.Interval, "interval"), Timeout: duration(d.Timeout, "timeout"),
		StaleAfter: duration(d.StaleAfter, "stale_after"), Hold: duration(d.Hold, "hold")}
	// Each of the GPUs is checked on its own first, so that the one that is refused
	// is named.
	usable := true
	for i, g := range d.GPUs {
		one := health.GPUs{Exporter: g.Exporter, Replica: g.Replica}
		if len(g.Ranks) > 0 { // an empty list would be none of them there, and is all here
			one.Ranks = g.Ranks
		}
		if len(g.GPU) > 0 {
			one.GPU = g.GPU
		}
		if _, err := health.New(health.Config{DCGM: &health.DCGM{GPUs: []health.GPUs{one}}}); err != nil {
			refuse(err, healthField(err, "health", "dcgm", "gpus", i)...)
			usable = false
		}
		cfg.GPUs = append(cfg.GPUs, one)
	}
	if !usable {
		return cfg
	}
	if _, err := health.New(health.Config{DCGM: cfg}); err != nil {
		refuse(err, healthField(err, "health", "dcgm")...)
	}
	return cfg
}

// healthField is the field below path that an error of package health is about:
// the last of its own names for it, such as health.dcgm.stale-after.
func healthField(err error, path ...any) []any {
	var refused *warmroute.ConfigError
	if !errors.As(err, &refused) {
		return path
	}
	name := refused.Field[strings.LastIndexByte(refused.Field, '.')+1:]
	return below(path, strings.ReplaceAll(name, "-", "_"))
}
